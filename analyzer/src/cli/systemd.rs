//! Service state for systemd (sd_notify). Without systemd, nothing is sent.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::util::units::plural;

/// The notification socket of systemd, and the interval of watchdog messages.
#[derive(Debug, Default)]
pub(super) struct Systemd {
    socket: Option<UnixDatagram>,
    /// Half the watchdog timeout.
    every: Option<Duration>,
    last: Option<Instant>,
    ready: bool,
    /// Rows of the recording that were lost, as the status has them.
    lost: u64,
}

impl Systemd {
    /// Socket and timeout from the environment.
    pub(super) fn of_env() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let name = name.as_bytes();
            let address = match name.strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(name))),
            };
            // Connected now, since the sandbox may later deny access to the socket's folder.
            let socket = UnixDatagram::unbound().ok()?;
            socket.connect_addr(&address.ok()?).ok()?;
            Some(socket)
        });
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|us| for_us && *us > 0);
        Self {
            socket,
            every: watchdog.map(|us| Duration::from_micros(us / 2)),
            last: None,
            ready: false,
            lost: 0,
        }
    }

    fn send(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // A missing listener is no failure of the service.
            let _ = socket.send(state.as_bytes());
        }
    }

    /// Call after each sample: the first marks the service ready, each resets the watchdog.
    pub(super) fn works(&mut self) {
        if !self.ready {
            self.ready = true;
            self.send("READY=1");
        }
        let Some(every) = self.every else { return };
        if self.last.is_none_or(|last| last.elapsed() >= every) {
            self.last = Some(Instant::now());
            self.send("WATCHDOG=1");
        }
    }

    /// Rows of the recording that were lost so far: the status, which `systemctl status` shows, has their number.
    pub(super) fn lost(&mut self, rows: u64) {
        if rows > self.lost {
            self.lost = rows;
            self.send(&format!("STATUS={} lost", plural(rows, "recording row")));
        }
    }

    /// Reports that the configuration is being read again; [`Systemd::works`] ends this state.
    pub(super) fn reloading(&mut self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
        self.ready = false;
    }

    /// Reports that the service is stopping.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }
}
