//! What can go wrong with the host, in sentences for the user.

use std::io;

/// `Result` with a [`HostError`].
pub type Result<T, E = HostError> = std::result::Result<T, E>;

/// An error whose text names the thing, the cause and, where there is one, the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The kernel refused something.
    #[error("cannot {action}: {}", reason(.cause))]
    System {
        /// What was tried, as it reads after "cannot".
        action: String,
        /// What the kernel answered. No source: the text says it already, and would say it twice.
        cause: io::Error,
    },
    /// The kernel refused a netlink request and said why in its own words.
    #[error("cannot {action}: {} (kernel: {message})", reason(.cause))]
    Netlink {
        /// What was tried, as it reads after "cannot".
        action: String,
        /// The error number of the answer.
        cause: io::Error,
        /// The kernel's extended acknowledgement.
        message: String,
    },
    /// What the user named does not exist or does not go together.
    #[error("{0}")]
    Choice(String),
    /// This kernel, or the rights of this process, do not suffice.
    #[error("{0}")]
    Unfit(String),
}

impl HostError {
    /// An error about `action` ("open network namespace x"), caused by `source`.
    pub fn system(action: impl Into<String>, source: io::Error) -> Self {
        Self::System { action: action.into(), cause: source }
    }

    /// The same for the error of the system call that just failed on this thread.
    pub fn last_os(action: impl Into<String>) -> Self {
        Self::system(action, io::Error::last_os_error())
    }

    /// The error number behind this error, if the kernel gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::System { cause, .. } | Self::Netlink { cause, .. } => cause.raw_os_error(),
            Self::Choice(_) | Self::Unfit(_) => None,
        }
    }

    /// What was tried, as it reads after "cannot"; `None` where the error is about a choice or rights.
    #[must_use]
    pub fn action(&self) -> Option<&str> {
        match self {
            Self::System { action, .. } | Self::Netlink { action, .. } => Some(action),
            Self::Choice(_) | Self::Unfit(_) => None,
        }
    }

    /// The cause in words, without the remedy.
    #[must_use]
    pub fn cause(&self) -> String {
        match self {
            Self::System { cause, .. } => words(cause),
            Self::Netlink { cause, message, .. } => {
                format!("{} (kernel: {message})", words(cause))
            }
            Self::Choice(text) | Self::Unfit(text) => text.clone(),
        }
    }

    /// What helps; `None` where nothing is known to.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::System { cause, .. } | Self::Netlink { cause, .. } => remedy(cause),
            Self::Choice(_) | Self::Unfit(_) => None,
        }
    }

    /// Whether the thing asked about does not exist (any more).
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.errno(), Some(libc::ENODEV | libc::ENOENT | libc::ENXIO | libc::ESRCH))
    }
}

/// Cause and remedy in words: a bare errno text says neither what is missing nor what helps.
fn reason(cause: &io::Error) -> String {
    match remedy(cause) {
        Some(remedy) => format!("{}; {remedy}", words(cause)),
        None => words(cause),
    }
}

fn words(cause: &io::Error) -> String {
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "not permitted for this process".to_owned(),
        Some(libc::ENODEV | libc::ENXIO) => "no such device".to_owned(),
        Some(libc::EBUSY) => "in use by another program".to_owned(),
        Some(libc::EOPNOTSUPP) => "not supported by this kernel or driver".to_owned(),
        Some(libc::ENOBUFS | libc::ENOMEM) => "the kernel is out of memory".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files".to_owned(),
        _ => {
            let text = cause.to_string();
            // The number that Rust adds means nothing to most people.
            text.split_once(" (os error ").map_or(text.as_str(), |(words, _)| words).to_owned()
        }
    }
}

/// The remedy for a refusal.
pub const AS_ROOT: &str = "run as root (sudo)";

fn remedy(cause: &io::Error) -> Option<&'static str> {
    match cause.raw_os_error()? {
        libc::EPERM | libc::EACCES => Some(AS_ROOT),
        libc::EMFILE | libc::ENFILE => Some("raise the limit on open files (ulimit -n)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_action_and_the_remedy() {
        let text = HostError::system("create a network namespace", io::Error::from_raw_os_error(libc::EPERM))
            .to_string();
        assert!(text.starts_with("cannot create a network namespace: "), "{text}");
        assert!(text.contains("sudo"), "{text}");
        assert!(!text.contains("os error"), "{text}");
    }

    #[test]
    fn the_cause_is_said_once() {
        let error = HostError::system("open x", io::Error::from_raw_os_error(libc::ENOENT));
        // With all its causes, as the program prints it.
        let text = format!("{:#}", anyhow::Error::from(error));
        assert_eq!(text, "cannot open x: No such file or directory");
    }

    #[test]
    fn absence_is_told_from_refusal() {
        let error = |n| HostError::system("x", io::Error::from_raw_os_error(n));
        assert!(error(libc::ENODEV).is_absent());
        assert!(!error(libc::EPERM).is_absent());
        assert!(!HostError::Choice("x".into()).is_absent());
    }
}
