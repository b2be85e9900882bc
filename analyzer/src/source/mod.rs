//! Sources of samples: captures, the kernel, recordings, a demonstration; and their common code.
//!
//! A source runs in a separate thread behind a [`feed`].

pub mod attach;
pub mod capture;
pub mod demo;
pub mod devices;
pub mod feed;
pub mod flows;
#[cfg(feature = "live")]
pub mod live;
pub mod nccl;
pub mod recording;
pub mod replay;
