//! Name of the system, by a call that every sandbox allows.

use std::fmt;
use std::sync::OnceLock;

use super::pack::pack;

/// The commit that the program was built from; `None` outside a repository.
pub const COMMIT: Option<&str> = option_env!("ROCESCOPE_COMMIT");

/// Name of the host; `None` where it has none.
pub fn host_name() -> Option<String> {
    text(rustix::system::uname().nodename())
}

/// Release of the kernel, such as `6.1.0-40-amd64`.
pub fn kernel_release() -> Option<String> {
    text(rustix::system::uname().release())
}

/// Version of the running kernel; `None` where its release does not begin with one.
pub fn kernel_version() -> Option<KernelVersion> {
    static VERSION: OnceLock<Option<KernelVersion>> = OnceLock::new();
    *VERSION.get_or_init(|| KernelVersion::parse(&kernel_release()?))
}

/// A kernel release as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

pack! {
    struct KernelVersion { major, minor, patch }
}

impl KernelVersion {
    /// Version from its three numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// The version in a release text ("5.15.0-91-generic", "6.18-rc3").
    pub fn parse(release: &str) -> Option<Self> {
        let (major, rest) = digits(release);
        let (minor, rest) = digits(rest.strip_prefix('.')?);
        let (patch, _) = rest.strip_prefix('.').map_or(("", rest), digits);
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
            patch: patch.parse().unwrap_or(0),
        })
    }
}

/// The digits a text begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch == 0 { Ok(()) } else { write!(f, ".{}", self.patch) }
    }
}

fn text(of: &std::ffi::CStr) -> Option<String> {
    let text = of.to_string_lossy();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_first_two_numbers_of_a_release() {
        let version = |release: &str| KernelVersion::parse(release);
        let known = [Some(KernelVersion::new(5, 15, 0)), Some(KernelVersion::new(6, 18, 0))];
        assert_eq!([version("5.15.0-25-generic"), version("6.18-rc3")], known);
        assert_eq!((version(""), version("6")), (None, None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn they_are_those_of_proc() {
        let of = |name: &str| {
            std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap().trim().to_owned()
        };
        assert_eq!((host_name(), kernel_release()), (Some(of("hostname")), Some(of("osrelease"))));
    }
}
