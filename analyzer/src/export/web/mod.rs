//! `--web-config`: passwords and TLS for the metrics on TCP, in the file format of Prometheus exporters.
//!
//! | module | contents |
//! |---|---|
//! | [`settings`] | the file |
//! | [`auth`] | passwords |
//! | `tls` | encryption, in builds with the feature `tls` |

pub mod auth;
pub mod settings;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::auth::Users;
use self::settings::Settings;

use crate::util::lock::Locked;

#[cfg(feature = "tls")]
pub use self::tls::Encryption;

/// Interval of checks for changed files.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum size of the configuration file, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Access control of connections.
#[derive(Debug)]
pub struct Guard {
    /// Users with passwords; `None` without authentication.
    pub users: Option<Users>,
    /// TLS; `None` for plain HTTP.
    #[cfg(feature = "tls")]
    pub encryption: Option<Encryption>,
}

impl Guard {
    fn new(settings: Settings) -> Result<Self, String> {
        #[cfg(not(feature = "tls"))]
        if settings.tls.is_some() {
            return Err("this build has no TLS: build rocescope with the feature `tls`, or remove \
                        tls_server_config and put a proxy before an address that others reach"
                .to_owned());
        }
        Ok(Self {
            #[cfg(feature = "tls")]
            encryption: settings.tls.as_ref().map(Encryption::new).transpose()?,
            users: (!settings.users.is_empty()).then(|| Users::new(settings.users)).transpose()?,
        })
    }

    /// True if connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        let encrypted = self.encryption.is_some();
        #[cfg(not(feature = "tls"))]
        let encrypted = false;
        encrypted
    }
}

/// The configuration, which is read again when one of its files is replaced.
pub struct Web {
    path: PathBuf,
    state: Mutex<State>,
    /// Reports the result of reading again.
    say: fn(&str),
}

struct State {
    guard: Arc<Guard>,
    /// The files, with their state when they were read.
    files: Vec<(PathBuf, Option<Stamp>)>,
    looked: Instant,
}

/// Attributes that change when a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    written: (i64, i64),
    bytes: u64,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Web {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Names the file and the fault.
    pub fn open(path: &Path, say: fn(&str)) -> Result<Self, String> {
        let (guard, files) = read(path)?;
        let state = State { guard: Arc::new(guard), files, looked: Instant::now() };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state), say })
    }

    /// The current access control. A replacement file that is invalid changes nothing.
    #[must_use]
    pub fn guard(&self) -> Arc<Guard> {
        let mut state = self.state.locked();
        if state.looked.elapsed() >= LOOK {
            state.looked = Instant::now();
            self.look(&mut state);
        }
        Arc::clone(&state.guard)
    }

    fn look(&self, state: &mut State) {
        if state.files.iter().all(|(path, before)| stamp(path) == *before) {
            return;
        }
        match read(&self.path) {
            Ok((guard, files)) => {
                (state.guard, state.files) = (Arc::new(guard), files);
                (self.say)("the web configuration was read again");
            }
            Err(error) => {
                for (path, before) in &mut state.files {
                    *before = stamp(path);
                }
                (self.say)(&format!("{error}; what was read before stays in use"));
            }
        }
    }

    /// The files to read, and the folders in which they may be replaced.
    pub fn reads(&self) -> Vec<PathBuf> {
        let state = self.state.locked();
        let files = state.files.iter().map(|(path, _)| path.clone());
        files.flat_map(|path| [path.parent().map(Path::to_owned), Some(path)]).flatten().collect()
    }
}

/// A guard, and the files from which it was made.
type Read = (Guard, Vec<(PathBuf, Option<Stamp>)>);

fn read(path: &Path) -> Result<Read, String> {
    let named = |error: &str| format!("web configuration {}: {error}", path.display());
    let path = std::path::absolute(path).map_err(|error| named(&error.to_string()))?;
    // Taken before reading, so that a file replaced meanwhile is read again.
    let own = stamp(&path);
    if own.is_some_and(|own| own.bytes > MOST_BYTES) {
        return Err(named("longer than 1 MiB"));
    }
    let text = fs::read_to_string(&path).map_err(|error| named(&error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let settings = Settings::read(&text, folder).map_err(|error| named(&error))?;
    let others = settings.files().map(|file| (file.to_owned(), stamp(file)));
    let files = std::iter::once((path.clone(), own)).chain(others).collect();
    Ok((Guard::new(settings).map_err(|error| named(&error))?, files))
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    let written = (data.mtime(), data.mtime_nsec());
    Some(Stamp { file: (data.dev(), data.ino()), written, bytes: data.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(_: &str) {}

    /// Makes the next check due at once.
    fn hurry(web: &Web) {
        web.state.lock().unwrap().looked -= LOOK;
    }

    #[test]
    fn a_file_is_read_again_and_one_that_cannot_be_used_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yml");
        let replace = |text: &str| {
            let aside = folder.path().join("aside");
            fs::write(&aside, text).unwrap();
            fs::rename(&aside, &path).unwrap();
        };
        replace("");
        let web = Web::open(&path, quiet).unwrap();
        assert!(web.guard().users.is_none());
        let hash = bcrypt::hash("x", 4).unwrap();
        replace(&format!("basic_auth_users: {{a: {hash}}}\n"));
        assert!(web.guard().users.is_none(), "the file was checked twice within a second");
        hurry(&web);
        let with_users = web.guard();
        assert!(with_users.users.is_some());
        replace("basic_auth_users: {a: b}\n");
        hurry(&web);
        assert!(Arc::ptr_eq(&web.guard(), &with_users));
        fs::remove_file(&path).unwrap();
        hurry(&web);
        assert!(Arc::ptr_eq(&web.guard(), &with_users));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yml");
        let error = || Web::open(&path, quiet).unwrap_err();
        assert!(error().contains("web.yml"), "{}", error());
        fs::write(&path, "tls_server_config: {cert_file: none.pem, key_file: none.pem}").unwrap();
        let said = if cfg!(feature = "tls") { "none.pem" } else { "has no TLS" };
        assert!(error().contains(said), "{}", error());
    }
}
