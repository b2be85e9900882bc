//! A parser that an attacker has taken over. In builds for tests only: it tries what no parser may do, and reports on
//! standard error whether it could.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The variable that asks for it: an address to connect to.
const REQUESTED: &str = "ROCESCOPE_TEST_HIJACK";
/// Places that were tried already.
static TRIED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Tries everything, once for each place.
pub fn here(place: &'static str) {
    static ADDRESS: OnceLock<Option<SocketAddr>> = OnceLock::new();
    let asked = || std::env::var(REQUESTED).ok()?.parse().ok();
    let Some(address) = ADDRESS.get_or_init(asked) else { return };
    let Ok(mut tried) = TRIED.lock() else { return };
    if tried.contains(&place) {
        return;
    }
    tried.push(place);
    let attempts = [
        ("open /etc/shadow", File::open("/etc/shadow").map(drop)),
        ("write a file", File::create("/tmp/rocescope-hijacked").map(drop)),
        ("connect", TcpStream::connect_timeout(address, Duration::from_secs(1)).map(drop)),
        ("send", UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", address)).map(drop)),
        ("exec", Command::new("/bin/true").status().map(drop)),
        ("read memory", File::open("/proc/1/mem").map(drop)),
        ("trace", trace()),
        ("become root", rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).map_err(io::Error::from)),
    ];
    let mut out = io::stderr().lock();
    for (what, result) in attempts {
        let said = result.map_or_else(|error| format!("denied: {error}"), |()| "done".to_owned());
        let _ = writeln!(out, "hijack in {place}: {what}: {said}");
    }
}

fn trace() -> io::Result<()> {
    // SAFETY: attaches to the first process and touches no memory.
    let done = unsafe { libc::ptrace(libc::PTRACE_SEIZE, 1, 0, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
