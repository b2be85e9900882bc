//! Errors of host access, as sentences for the user.

use std::io;
use std::sync::OnceLock;

use crate::util::limit;

/// `Result` with a [`HostError`].
pub type Result<T, E = HostError> = std::result::Result<T, E>;

/// An error whose text names the object, the cause and, if known, the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The kernel refused an operation.
    #[error("cannot {action}: {}", reason(.cause))]
    System {
        /// The action that failed, as it reads after "cannot".
        action: String,
        /// The kernel's error. Not exposed as a source, since the text already contains it.
        cause: io::Error,
    },
    /// The kernel refused a netlink request with an explanation.
    #[error("cannot {action}: {} (kernel: {message})", reason(.cause))]
    Netlink {
        /// The action that failed, as it reads after "cannot".
        action: String,
        /// The error number of the answer.
        cause: io::Error,
        /// The kernel's extended acknowledgement.
        message: String,
    },
    /// The user's selection does not exist or is inconsistent.
    #[error("{0}")]
    Choice(String),
    /// This kernel, or the privileges of this process, are insufficient.
    #[error("{0}")]
    Unfit(String),
}

impl HostError {
    /// An error about `action` ("open network namespace x"), caused by `source`.
    pub fn system(action: impl Into<String>, source: io::Error) -> Self {
        Self::System { action: action.into(), cause: source }
    }

    /// The same for the system call that has just failed on this thread.
    pub fn last_os(action: impl Into<String>) -> Self {
        Self::system(action, io::Error::last_os_error())
    }

    /// The error number, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::System { cause, .. } | Self::Netlink { cause, .. } => cause.raw_os_error(),
            Self::Choice(_) | Self::Unfit(_) => None,
        }
    }

    /// The action that failed, as it reads after "cannot"; `None` for errors about a selection or privileges.
    pub fn action(&self) -> Option<&str> {
        match self {
            Self::System { action, .. } | Self::Netlink { action, .. } => Some(action),
            Self::Choice(_) | Self::Unfit(_) => None,
        }
    }

    /// The cause, without the remedy.
    pub fn cause(&self) -> String {
        match self {
            Self::System { cause, .. } => words(cause),
            Self::Netlink { cause, message, .. } => {
                format!("{} (kernel: {message})", words(cause))
            }
            Self::Choice(text) | Self::Unfit(text) => text.clone(),
        }
    }

    /// The remedy, if one is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::System { cause, .. } | Self::Netlink { cause, .. } => remedy(cause),
            Self::Choice(_) | Self::Unfit(_) => None,
        }
    }

    /// True if the object does not exist or no longer exists.
    pub fn is_absent(&self) -> bool {
        matches!(self.errno(), Some(libc::ENODEV | libc::ENOENT | libc::ENXIO | libc::ESRCH))
    }
}

/// Cause and remedy as text: the text of an errno names neither the missing privilege nor the remedy.
fn reason(cause: &io::Error) -> String {
    match remedy(cause) {
        Some(remedy) => format!("{}; {remedy}", words(cause)),
        None => words(cause),
    }
}

/// A system error as text, without its errno.
pub(crate) fn words(cause: &io::Error) -> String {
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "not permitted for this process".to_owned(),
        Some(libc::ENODEV | libc::ENXIO) => "no such device".to_owned(),
        Some(libc::EBUSY) => "in use by another program".to_owned(),
        Some(libc::EOPNOTSUPP) => "not supported by this kernel or driver".to_owned(),
        Some(libc::ENOBUFS | libc::ENOMEM) => "the kernel is out of memory".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files".to_owned(),
        _ => limit::words(&cause.to_string()),
    }
}

/// The remedy for missing privileges.
pub const AS_ROOT: &str = "run as root (sudo)";

/// The same for root.
pub const NOT_ROOT: &str = "not permitted to root in this container or under kernel lockdown \
                            (/sys/kernel/security/lockdown): run it on the host itself";

/// The same for a thread that was root's and has changed its user after set-up.
pub const GAVE_UP_ROOT: &str = "rocescope gave up root after set-up: run it with --no-sandbox";

/// True if the process was root's when the first of its threads changed its user.
static BEGAN_AS_ROOT: OnceLock<bool> = OnceLock::new();

/// Remembers whose the process is. Call it before a thread changes its user: later it would be advised to run as root
/// what root runs.
pub fn note_user() {
    BEGAN_AS_ROOT.get_or_init(is_root);
}

/// True if the calling thread is root's.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The remedy for a refusal to a thread that is root's or not, of a process that was or not.
const fn remedy_of_refusal(began_as_root: bool, is_root: bool) -> &'static str {
    match (began_as_root, is_root) {
        (_, true) => NOT_ROOT,
        (true, false) => GAVE_UP_ROOT,
        (false, false) => AS_ROOT,
    }
}

fn remedy(cause: &io::Error) -> Option<&'static str> {
    match cause.raw_os_error()? {
        libc::EPERM | libc::EACCES => {
            let is_root = is_root();
            Some(remedy_of_refusal(*BEGAN_AS_ROOT.get().unwrap_or(&is_root), is_root))
        }
        errno @ (libc::EMFILE | libc::ENFILE) => limit::remedy(errno),
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
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!((text.contains("sudo"), text.contains("container")), (!is_root, is_root), "{text}");
        assert!(!text.contains("os error"), "{text}");
    }

    #[test]
    fn nobody_is_advised_to_become_what_he_began_as() {
        assert_eq!(remedy_of_refusal(true, true), NOT_ROOT);
        assert_eq!(remedy_of_refusal(true, false), GAVE_UP_ROOT);
        assert_eq!(remedy_of_refusal(false, false), AS_ROOT);
    }

    #[test]
    fn the_cause_is_reported_once() {
        let error = HostError::system("open x", io::Error::from_raw_os_error(libc::ENOENT));
        // With all its causes, as the program prints it.
        let text = format!("{:#}", anyhow::Error::from(error));
        assert_eq!(text, "cannot open x: No such file or directory");
    }

    #[test]
    fn absence_differs_from_refusal() {
        let error = |n| HostError::system("x", io::Error::from_raw_os_error(n));
        assert!(error(libc::ENODEV).is_absent());
        assert!(!error(libc::EPERM).is_absent());
        assert!(!HostError::Choice("x".into()).is_absent());
    }
}
