//! Name of the system, by a call that every sandbox allows.

use std::sync::OnceLock;

/// The commit that the program was built from; `None` outside a repository.
pub const COMMIT: Option<&str> = option_env!("ROCESCOPE_COMMIT");

/// Name of the host; `None` where it has none.
#[must_use]
pub fn host_name() -> Option<String> {
    text(rustix::system::uname().nodename())
}

/// Release of the kernel, such as `6.1.0-40-amd64`.
#[must_use]
pub fn kernel_release() -> Option<String> {
    text(rustix::system::uname().release())
}

/// Version of the kernel, major and minor; 0.0 where its release does not begin with two numbers.
#[must_use]
pub fn kernel_version() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| kernel_release().as_deref().and_then(version).unwrap_or_default())
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
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
        assert_eq!((version("5.15.0-25-generic"), version("6.18-rc3")), (Some((5, 15)), Some((6, 18))));
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
