//! A parser that an attacker has taken over. In builds for tests only: it tries what no parser may do, and reports on
//! standard error whether it could.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use libc::c_long;

/// The variable that asks for it: an address to connect to.
const REQUESTED: &str = "ROCESCOPE_TEST_HIJACK";
/// The variable that names a folder to write to, as the command itself may.
const FOLDER: &str = "ROCESCOPE_TEST_HIJACK_FOLDER";
/// Places that were tried already.
static TRIED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Tries everything, once for each place.
pub fn here(place: &'static str) {
    static ASKED: OnceLock<Option<(SocketAddr, PathBuf)>> = OnceLock::new();
    let asked = || {
        let address = std::env::var(REQUESTED).ok()?.parse().ok()?;
        Some((address, std::env::var_os(FOLDER).map_or_else(std::env::temp_dir, PathBuf::from)))
    };
    let Some((address, folder)) = ASKED.get_or_init(asked) else { return };
    let Ok(mut tried) = TRIED.lock() else { return };
    if tried.contains(&place) {
        return;
    }
    tried.push(place);
    let here = |what: &str| folder.join(format!("hijacked-{what}-{place}"));
    let attempts = [
        ("open /etc/shadow", File::open("/etc/shadow").map(drop)),
        ("write a file", File::create("/tmp/rocescope-hijacked").map(drop)),
        ("write by openat2", by_openat2(&here("openat2"))),
        ("write in its folder", File::create(here("written")).map(drop)),
        ("rename in its folder", std::fs::rename(here("victim"), here("renamed"))),
        ("remove in its folder", std::fs::remove_file(here("removed"))),
        ("make a program of its user", set_user(&here("program"))),
        ("connect", TcpStream::connect_timeout(address, Duration::from_secs(1)).map(drop)),
        ("send", UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", address)).map(drop)),
        ("connect a socket that listens", reuse(address)),
        ("exec", Command::new("/bin/true").status().map(drop)),
        ("read memory", File::open("/proc/1/mem").map(drop)),
        ("trace", call(libc::SYS_ptrace, [i64::from(libc::PTRACE_SEIZE), 1, 0, 0]).map(drop)),
        ("become root", rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).map_err(io::Error::from)),
    ];
    let mut out = io::stderr().lock();
    for (what, result) in attempts {
        let said = match result {
            Ok(()) => "done".to_owned(),
            // Nothing kept it from that but the test.
            Err(error) if error.kind() == io::ErrorKind::NotFound && what.ends_with(" folder") => {
                format!("absent: {error}")
            }
            Err(error) => format!("denied: {error}"),
        };
        let _ = writeln!(out, "hijack in {place}: {what}: {said}");
    }
}

fn by_openat2(path: &Path) -> io::Result<()> {
    let how = OFlags::CREATE | OFlags::WRONLY;
    Ok(openat2(CWD, path, how, Mode::RUSR, ResolveFlags::empty()).map(drop)?)
}

/// A file that every user starts as the one who made it: with this mode from the beginning, or afterwards.
fn set_user(path: &Path) -> io::Result<()> {
    const MODE: u32 = 0o4755;
    let file = |mode| File::options().write(true).create(true).truncate(true).mode(mode).open(path);
    file(MODE).map(drop).or_else(|_| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(MODE);
        file(0o755)?.set_permissions(mode)
    })
}

/// Makes a connection with a TCP socket of this process that waits for connections.
fn reuse(address: &SocketAddr) -> io::Result<()> {
    let SocketAddr::V4(address) = address else { return Err(io::ErrorKind::Unsupported.into()) };
    let option = |descriptor: i64, option: i32| {
        let (mut value, mut length) = (0_i32, 4_u32);
        let (at, size) = (&raw mut value as i64, &raw mut length as i64);
        let of = [descriptor, libc::SOL_SOCKET.into(), option.into(), at, size];
        call(libc::SYS_getsockopt, of).ok().map(|_| value)
    };
    let listens = |descriptor: &i64| {
        option(*descriptor, libc::SO_ACCEPTCONN) == Some(1)
            && option(*descriptor, libc::SO_DOMAIN) == Some(libc::AF_INET)
    };
    let Some(socket) = (0..1024).find(listens) else { return Err(io::Error::other("none listens")) };
    // Without an address it leaves the state in which it waits.
    let connect = |address: [u8; 16]| call(libc::SYS_connect, [socket, address.as_ptr() as i64, 16, 0]);
    connect([0; 16])?;
    connect(bytes(*address)).map(drop)
}

/// An address as the kernel reads it.
fn bytes(address: SocketAddrV4) -> [u8; 16] {
    let mut bytes = [0; 16];
    let family = libc::AF_INET.to_ne_bytes();
    let parts = family.into_iter().take(2).chain(address.port().to_be_bytes()).chain(address.ip().octets());
    bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
    bytes
}

fn call<const N: usize>(number: c_long, arguments: [i64; N]) -> io::Result<c_long> {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
    // SAFETY: the callers above pass pointers to values that live longer than the call, with their lengths.
    let done =
        unsafe { libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}
