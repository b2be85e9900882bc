//! Sources of samples: captures, the kernel, recordings, a demonstration; and code that they share.
//!
//! A source runs in a thread of its own behind a [`feed`].

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
