//! Sockets that `export` listens on.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::FdFlags;

/// Default address, which only this host can reach.
pub const DEFAULT: &str = "127.0.0.1:14791";

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Address and port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/metrics"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if Path::new(path).is_absolute() => Ok(Self::Unix(path.into())),
            Some(path) => Err(format!("invalid socket '{path}': write an absolute path")),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!("invalid address '{text}': write ADDRESS:PORT, such as {DEFAULT}, or unix:PATH")
            }),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket, with its file if this process created it.
    Unix(UnixListener, Option<SocketFile>),
}

/// The file of a unix socket, removed on drop unless another process has replaced it by its own.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
    /// It replaced the file of a process that was killed.
    is_after_kill: bool,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if file_id(&self.path).is_ok_and(|id| id == self.id) {
            // There is nobody left to report a failure to; the next start replaces a stale socket.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let data = std::fs::symlink_metadata(path)?;
    Ok((data.dev(), data.ino()))
}

impl Listener {
    /// Listens on an address. A stale unix socket is replaced.
    ///
    /// # Errors
    /// If the address is in use or cannot be bound.
    pub fn bind(address: &Listen) -> io::Result<Self> {
        match address {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address)?)),
            Listen::Unix(path) => {
                let is_after_kill = remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                let file = SocketFile { id: file_id(path)?, path: path.clone(), is_after_kill };
                // Owner and group only: a host's figures are not meant for all of its users.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
                Ok(Self::Unix(listener, Some(file)))
            }
        }
    }

    /// Sockets passed by systemd (sd_listen_fds).
    pub fn from_systemd() -> Vec<Self> {
        const FIRST: RawFd = 3;
        const MOST: RawFd = 16;
        let number = |name| std::env::var(name).ok()?.parse::<RawFd>().ok();
        let for_us = std::env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
        let count = number("LISTEN_FDS").filter(|_| for_us).unwrap_or(0).clamp(0, MOST);
        (FIRST..FIRST + count).filter_map(Self::passed).collect()
    }

    /// A passed socket; `None` if the number is not that of a socket that listens, as where the environment is wrong.
    fn passed(number: RawFd) -> Option<Self> {
        let mut listens: libc::c_int = 0;
        let mut length = libc::socklen_t::try_from(size_of_val(&listens)).unwrap_or_default();
        let value = (&raw mut listens).cast();
        // SAFETY: value and length live through the call; of a number that is no socket, nothing is written.
        let asked = unsafe {
            libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, value, &raw mut length)
        };
        if asked < 0 || listens == 0 {
            return None;
        }
        // SAFETY: the descriptor is open and listens. This process opens such sockets later, so that it was passed, and
        // by systemd's protocol nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let _ = rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC);
        let tcp = TcpListener::from(socket);
        // A unix socket has no IP address.
        if tcp.local_addr().is_ok() {
            return Some(Self::Tcp(tcp));
        }
        Some(Self::Unix(UnixListener::from(OwnedFd::from(tcp)), None))
    }

    /// The address as text; `encrypted` if TCP connections use TLS.
    pub fn address(&self, encrypted: bool) -> String {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) if encrypted => format!("https://{address}/metrics"),
                Ok(address) => Listen::Tcp(address).to_string(),
                Err(_) => "a socket of systemd".to_owned(),
            },
            Self::Unix(listener, _) => {
                let path =
                    listener.local_addr().ok().and_then(|address| address.as_pathname().map(Into::into));
                path.map_or_else(|| "a socket of systemd".to_owned(), |path| Listen::Unix(path).to_string())
            }
        }
    }

    /// True if it replaced the socket of a process that was killed.
    pub fn is_after_kill(&self) -> bool {
        matches!(self, Self::Unix(_, Some(file)) if file.is_after_kill)
    }

    /// True if other hosts can reach it.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(listener) if listener.local_addr().is_ok_and(|address| !address.ip().is_loopback()))
    }
}

/// Removes the socket file of a killed process. Returns true if there was one.
fn remove_stale(path: &Path) -> io::Result<bool> {
    let Ok(data) = std::fs::symlink_metadata(path) else { return Ok(false) };
    if !data.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket is there"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map(|()| true)
        }
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let tcp = |text: &str| Ok(Listen::Tcp(text.parse().unwrap()));
        assert_eq!(DEFAULT.parse(), tcp("127.0.0.1:14791"));
        assert_eq!("[::1]:9".parse(), tcp("[::1]:9"));
        assert_eq!("unix:/run/a.sock".parse(), Ok(Listen::Unix("/run/a.sock".into())));
        for text in ["", "14791", ":14791", "localhost:1", "unix:a.sock", "unix:", "/run/a.sock"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_unix_socket_goes_with_its_listener_and_a_stale_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.sock");
        let listen = Listen::Unix(path.clone());
        let first = Listener::bind(&listen).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let error = Listener::bind(&listen).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(!first.is_after_kill());
        drop(first);
        assert!(!path.exists());

        // As after kill -9.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let second = Listener::bind(&listen).unwrap();
        assert!(second.is_after_kill());
        // Another process has replaced the file, which must stay.
        std::fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(second);
        assert!(path.exists());
        drop(other);

        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "data").unwrap();
        assert_eq!(Listener::bind(&listen).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
    }

    #[test]
    fn only_loopback_is_local() {
        let bound = |text: &str| Listener::bind(&text.parse().unwrap()).unwrap();
        assert!(!bound("127.0.0.1:0").is_remote());
        assert!(bound("0.0.0.0:0").is_remote());
    }
}
