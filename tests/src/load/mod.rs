//! Traffic as fast as the machine allows, on links of our own, and what it costs to watch it.
//!
//! [`flood`] makes frames in the kernel, a page each, and sends them off without a system call or a
//! packet buffer for each; [`link`] is the pair of interfaces that they go through, whose receiving
//! end works on a CPU of its own; [`usage`] is what a process took of the machine.

pub mod flood;
pub mod link;
pub mod pty;
pub mod scan;
pub mod scrape;
pub mod storm;
pub mod tcp;
pub mod traffic;
pub mod usage;

/// The value in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A figure in a table; what is not known is a dash.
fn cell<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}
