//! Traffic at the maximum rate of the machine, on private links, and the cost of observing it.
//!
//! [`flood`] generates frames in the kernel, a page each, and sends them without a system call or packet buffer per
//! frame; [`link`] is the pair of interfaces, whose receiving end works on a separate CPU; [`usage`] measures the
//! resources of a process.

pub mod flood;
pub mod link;
pub mod pty;
pub mod scan;
pub mod scrape;
pub mod storm;
pub mod tcp;
pub mod traffic;
pub mod usage;

/// The median.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A figure in a table; unknown is a dash.
fn cell<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}
