//! What the system calls itself, by a call that every sandbox allows.

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

fn text(of: &std::ffi::CStr) -> Option<String> {
    let text = of.to_string_lossy();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn they_are_those_of_proc() {
        let of = |name: &str| {
            std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap().trim().to_owned()
        };
        assert_eq!((host_name(), kernel_release()), (Some(of("hostname")), Some(of("osrelease"))));
    }
}
