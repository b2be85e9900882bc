//! Basic authentication (RFC 7617) with passwords kept as bcrypt hashes.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr as _;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bcrypt::HashParts;
use sha2::{Digest as _, Sha256};

use crate::util::lock::Locked;

/// Maximum cost of a bcrypt hash: each step doubles the time, and 14 takes about a second.
const MOST_COST: u32 = 14;
/// Time after a wrong password in which no other is checked: guessing uses at most a tenth of a CPU.
const AFTER_WRONG: Duration = Duration::from_secs(1);
/// Maximum number of remembered credentials, so that not every scrape needs a bcrypt computation.
const MOST_KNOWN: usize = 64;

/// Users with access.
pub struct Users {
    hashes: Vec<(String, String)>,
    /// Digests of credentials that were verified.
    known: Mutex<HashSet<[u8; 32]>>,
    /// Held while a password is checked.
    turn: tokio::sync::Mutex<()>,
}

// Messages must contain neither hashes nor digests.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("users", &self.hashes.len()).finish_non_exhaustive()
    }
}

impl Users {
    /// Creates the users from names and hashes.
    ///
    /// # Errors
    /// Names the user whose hash is not a bcrypt hash or has too high a cost.
    pub fn new(hashes: Vec<(String, String)>) -> Result<Self, String> {
        for (name, hash) in &hashes {
            let parts = HashParts::from_str(hash).map_err(|_| {
                format!("basic_auth_users.{name} is not a bcrypt hash: `htpasswd -nBC 10 {name}` makes one")
            })?;
            if parts.get_cost() > MOST_COST {
                return Err(format!(
                    "basic_auth_users.{name}: a hash of cost {} takes too long at each scrape; at most {MOST_COST}",
                    parts.get_cost()
                ));
            }
        }
        Ok(Self { hashes, known: Mutex::default(), turn: tokio::sync::Mutex::default() })
    }

    /// True if the value of an `Authorization` header names one of the users. Passwords are checked one at a time.
    pub async fn admit(&self, authorization: Option<&str>) -> bool {
        let Some((name, password)) = authorization.and_then(credentials) else { return false };
        let digest = digest(&name, &password);
        if self.is_known(&digest) {
            return true;
        }
        let _turn = self.turn.lock().await;
        // Another request may have verified the same credentials meanwhile.
        if self.is_known(&digest) {
            return true;
        }
        if self.verify(&name, &password) {
            let mut known = self.known.locked();
            if known.len() < MOST_KNOWN {
                known.insert(digest);
            }
            return true;
        }
        tokio::time::sleep(AFTER_WRONG).await;
        false
    }

    fn is_known(&self, digest: &[u8; 32]) -> bool {
        self.known.locked().contains(digest)
    }

    /// Takes the same time for unknown names, so that timing does not reveal which users exist.
    fn verify(&self, name: &str, password: &[u8]) -> bool {
        let of_name = self.hashes.iter().find(|(known, _)| known == name);
        let Some((_, hash)) = of_name.or(self.hashes.first()) else { return false };
        bcrypt::verify(password, hash).unwrap_or(false) && of_name.is_some()
    }
}

/// Name and password in the header's value.
fn credentials(value: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = value.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let name = std::str::from_utf8(decoded.get(..colon)?).ok()?.to_owned();
    Some((name, decoded.get(colon + 1..)?.to_vec()))
}

/// Digest of a name and a password; the length prefix separates them unambiguously.
fn digest(name: &str, password: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((name.len() as u64).to_le_bytes());
    hash.update(name);
    hash.update(password);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    fn users() -> Users {
        Users::new(vec![("alice".to_owned(), bcrypt::hash("secret", 4).unwrap())]).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_right_password_is_admitted() {
        let users = users();
        for (value, right) in [
            (header("alice:secret"), true),
            (header("alice:secret").replace("Basic", "basic"), true),
            (header("alice:wrong"), false),
            (header("alice:"), false),
            (header("bob:secret"), false),
            (header("alice"), false),
            ("Bearer abc".to_owned(), false),
            ("Basic ???".to_owned(), false),
            (String::new(), false),
        ] {
            // Twice: the second request is answered from memory.
            for _ in 0..2 {
                assert_eq!(users.admit(Some(&value)).await, right, "{value}");
            }
        }
        assert!(!users.admit(None).await);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_guesses_waits_and_the_others_do_not() {
        let users = users();
        assert!(users.admit(Some(&header("alice:secret"))).await);
        let begin = tokio::time::Instant::now();
        let guess = header("alice:guess");
        let (right, wrong, also) = tokio::join!(
            async {
                let right = users.admit(Some(&header("alice:secret"))).await;
                (right, begin.elapsed())
            },
            users.admit(Some(&guess)),
            users.admit(Some(&guess)),
        );
        assert!(right.0 && right.1.is_zero(), "{right:?}");
        assert!(!wrong && !also);
        assert!(begin.elapsed() >= 2 * AFTER_WRONG);
    }

    #[test]
    fn hashes_are_checked_when_they_are_read() {
        let of = |hash: &str| Users::new(vec![("alice".to_owned(), hash.to_owned())]).unwrap_err();
        assert!(of("secret").contains("is not a bcrypt hash"));
        let costly = "$2y$15$abcdefghijklmnopqrstuuvMnGhXNOpKiyOMYgFWZFtp7bhXXxBqK";
        assert!(of(costly).contains("cost 15"), "{}", of(costly));
    }
}
