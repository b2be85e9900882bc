//! The state that screens share: pure, without I/O or a clock. Imports no screen.
//!
//! | module | holds |
//! |---|---|
//! | [`view`] | all of it, as it is at the snapshot shown |
//! | [`timeline`], [`trail`], [`readings`] | snapshots and the place in them; readings of devices, of the contexts of queue pairs |
//! | [`psn_rates`] | rates of a queue pair from its PSNs at two of these |
//! | [`data`], [`matrix`], [`peers`], [`preparation`] | the values shown, and the slow work of making them |
//! | [`analysis`] | conclusions of a background thread: findings, entropy |
//! | [`log`], [`idle`] | the list of events; silent flows |
//! | [`filter`], [`focus`], `texts` | which rows and events are shown |
//! | [`messages`], [`prompt`], [`overlay`] | sentences for the user, a typed line, a box over the screen |
//! | [`screen`], [`cursor`] | the names of the screens; a place in a list |

pub mod analysis;
pub mod cursor;
pub mod data;
pub mod filter;
pub mod focus;
pub mod idle;
pub mod log;
pub mod matrix;
pub mod messages;
pub mod overlay;
pub mod peers;
pub mod preparation;
pub mod prompt;
pub mod psn_rates;
pub mod readings;
pub mod screen;
pub(super) mod texts;
pub mod timeline;
pub mod trail;
pub mod view;
