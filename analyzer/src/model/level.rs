//! How bad a state or an event is.

use crate::findings::Severity;

/// Severity of a state or an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No problem.
    #[default]
    Fine,
    /// Costs throughput.
    Warning,
    /// Data was lost or rejected.
    Critical,
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Fine,
            Severity::Warning => Self::Warning,
            Severity::Critical => Self::Critical,
        }
    }
}
