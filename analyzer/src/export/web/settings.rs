//! The web configuration of Prometheus exporters (exporter-toolkit, `web-config.yml`), as far as it is supported.
//! Pure.
//!
//! Unsupported settings are errors and never ignored, so that a required password or certificate is always enforced.
//! Errors quote nothing of the file but names that its format knows: `--web-config` takes any path, and under sudo the
//! user may have no right to read what is there.

use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode as _, Mapping, Yaml};

/// Contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// TLS; `None` for plain HTTP.
    pub tls: Option<Tls>,
    /// Names and bcrypt hashes of passwords; empty without authentication.
    pub users: Vec<(String, String)>,
}

/// `tls_server_config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain of the server.
    pub certificate: Pem,
    /// Private key.
    pub key: Pem,
    /// Requirements on client certificates.
    pub clients: Clients,
    /// Names (DNS or address), one of which a client certificate must have; empty for any.
    pub client_names: Vec<String>,
    /// Oldest TLS version.
    pub oldest: Version,
    /// Newest TLS version.
    pub newest: Version,
}

/// Location of PEM text.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In a file.
    File(PathBuf),
    /// In the configuration itself.
    Inline(String),
}

// Messages must not contain a key.
impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(_) => f.write_str("Inline"),
        }
    }
}

/// `client_auth_type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clients {
    /// No certificate required.
    Any,
    /// A certificate is optional, but must be signed by these authorities.
    IfGiven(Pem),
    /// A certificate signed by these authorities is required.
    Required(Pem),
}

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}

impl Settings {
    /// Parses the text of a file in `folder`, the base of relative paths.
    ///
    /// # Errors
    /// Names the setting that is unknown, unsupported or contradictory, or the fault in the YAML.
    pub fn read(text: &str, folder: &Path) -> Result<Self, String> {
        let documents = Yaml::load_from_str(text).map_err(|error| {
            let at = error.marker();
            format!("no YAML: mistake at line {}, column {}", at.line(), at.col() + 1)
        })?;
        let mut settings = Self::default();
        let root = match documents.as_slice() {
            [] => return Ok(settings),
            [root] => root,
            _ => return Err("more than one YAML document".to_owned()),
        };
        if root.is_null() {
            return Ok(settings);
        }
        for (name, value) in entries("the file", root)? {
            match name {
                "tls_server_config" => settings.tls = tls(value, folder)?,
                "basic_auth_users" => settings.users = users(value)?,
                "http_server_config" => http(value)?,
                _ => return Err(refused("", name, &["rate_limit"], &SECTIONS)),
            }
        }
        Ok(settings)
    }

    /// The files that the configuration names.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let tls = self.tls.iter().flat_map(|tls| {
            let authority = match &tls.clients {
                Clients::Any => None,
                Clients::IfGiven(pem) | Clients::Required(pem) => Some(pem),
            };
            [Some(&tls.certificate), Some(&tls.key), authority]
        });
        tls.flatten().filter_map(|pem| match pem {
            Pem::File(path) => Some(path.as_path()),
            Pem::Inline(_) => None,
        })
    }
}

/// The parts of the file that are followed.
const SECTIONS: [&str; 3] = ["tls_server_config", "basic_auth_users", "http_server_config"];
/// Settings of `tls_server_config` that are followed.
const OF_TLS: [&str; 11] = [
    "cert_file",
    "cert",
    "key_file",
    "key",
    "client_ca_file",
    "client_ca",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "prefer_server_cipher_suites",
];

/// The error for a name that is not followed: one that exporter-toolkit knows by name, another by what is allowed
/// there.
fn refused(section: &str, name: &str, toolkit: &[&str], allowed: &[&str]) -> String {
    let place = if section.is_empty() { "the file" } else { section };
    if toolkit.contains(&name) || allowed.contains(&name) {
        let dot = if section.is_empty() { "" } else { "." };
        return format!(
            "{section}{dot}{name} is not followed by rocescope: remove it, or put a proxy before rocescope that follows it"
        );
    }
    format!("unknown name in {place}: use {}", allowed.join(", "))
}

/// The entries of a mapping.
fn entries<'a>(what: &str, value: &'a Yaml<'a>) -> Result<Vec<(&'a str, &'a Yaml<'a>)>, String> {
    let map: &Mapping<'_> = value.as_mapping().ok_or_else(|| format!("{what} is not a mapping"))?;
    let entry = |(name, value): (&'a Yaml<'a>, &'a Yaml<'a>)| {
        let name = name.as_str().ok_or_else(|| format!("a name in {what} is not a string"))?;
        Ok((name, value))
    };
    map.iter().map(entry).collect()
}

fn text(name: &str, value: &Yaml<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{name} is not a string"))
}

fn http(value: &Yaml<'_>) -> Result<(), String> {
    for (name, value) in entries("http_server_config", value)? {
        // HTTP/2 is optional for clients, all of which support 1.1.
        if name != "http2" || value.as_bool().is_none() {
            return Err(refused("http_server_config", name, &["headers"], &["http2"]));
        }
    }
    Ok(())
}

fn users(value: &Yaml<'_>) -> Result<Vec<(String, String)>, String> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let user = |(name, hash): (&str, &Yaml<'_>)| {
        Ok((name.to_owned(), text("a password of basic_auth_users", hash)?))
    };
    entries("basic_auth_users", value)?.into_iter().map(user).collect()
}

fn tls(value: &Yaml<'_>, folder: &Path) -> Result<Option<Tls>, String> {
    let (mut certificate, mut key, mut authority) = (None, None, None);
    let (mut policy, mut client_names) = (String::new(), Vec::new());
    let (mut oldest, mut newest) = (Version::Tls12, Version::Tls13);
    if value.is_null() {
        return Ok(None);
    }
    for (name, value) in entries("tls_server_config", value)? {
        let field = OF_TLS.into_iter().find(|known| *known == name).unwrap_or("an unknown name");
        let field = format!("tls_server_config.{field}");
        let file = || text(&field, value).map(|path| Pem::File(folder.join(path)));
        let inline = || text(&field, value).map(Pem::Inline);
        match name {
            "cert_file" => set_once(&field, &mut certificate, file()?)?,
            "cert" => set_once(&field, &mut certificate, inline()?)?,
            "key_file" => set_once(&field, &mut key, file()?)?,
            "key" => set_once(&field, &mut key, inline()?)?,
            "client_ca_file" => set_once(&field, &mut authority, file()?)?,
            "client_ca" => set_once(&field, &mut authority, inline()?)?,
            "client_auth_type" => policy = text(&field, value)?,
            "client_allowed_sans" => {
                let names = value.as_sequence().ok_or_else(|| format!("{field} is not a list"))?;
                client_names = names.iter().map(|name| text(&field, name)).collect::<Result<_, _>>()?;
            }
            "min_version" => oldest = version(&field, value)?,
            "max_version" => newest = version(&field, value)?,
            // Only TLS 1.3 ciphers and TLS 1.2 ciphers with forward secrecy are offered; Go servers ignore this
            // setting since 1.18.
            "prefer_server_cipher_suites" if value.as_bool().is_some() => {}
            _ => {
                return Err(refused(
                    "tls_server_config",
                    name,
                    &["cipher_suites", "curve_preferences"],
                    &OF_TLS,
                ));
            }
        }
    }
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if authority.is_none() && policy.is_empty() => return Ok(None),
        _ => return Err("tls_server_config has to name both cert_file and key_file".to_owned()),
    };
    if oldest > newest {
        return Err("tls_server_config.min_version is newer than max_version".to_owned());
    }
    let clients = clients(&policy, authority)?;
    if !client_names.is_empty() && !matches!(clients, Clients::Required(_)) {
        return Err("client_allowed_sans takes client_auth_type RequireAndVerifyClientCert".to_owned());
    }
    Ok(Some(Tls { certificate, key, clients, client_names, oldest, newest }))
}

fn set_once(field: &str, place: &mut Option<Pem>, pem: Pem) -> Result<(), String> {
    if place.replace(pem).is_some() {
        return Err(format!("{field}: both the text and its file are given; remove one"));
    }
    Ok(())
}

fn version(field: &str, value: &Yaml<'_>) -> Result<Version, String> {
    match text(field, value)?.as_str() {
        "TLS12" => Ok(Version::Tls12),
        "TLS13" => Ok(Version::Tls13),
        "TLS10" | "TLS11" => Err(format!("{field}: TLS 1.0 and 1.1 are broken (RFC 8996); write TLS12")),
        _ => Err(format!("{field}: write TLS12 or TLS13")),
    }
}

fn clients(policy: &str, authority: Option<Pem>) -> Result<Clients, String> {
    match (policy, authority) {
        ("" | "NoClientCert", None) => Ok(Clients::Any),
        ("" | "NoClientCert", Some(_)) => {
            Err("client_ca_file takes a client_auth_type that verifies".to_owned())
        }
        ("VerifyClientCertIfGiven", Some(authority)) => Ok(Clients::IfGiven(authority)),
        ("RequireAndVerifyClientCert", Some(authority)) => Ok(Clients::Required(authority)),
        ("VerifyClientCertIfGiven" | "RequireAndVerifyClientCert", None) => {
            Err(format!("client_auth_type {policy} takes a client_ca_file"))
        }
        _ => {
            Err("client_auth_type: write NoClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        Settings::read(text, Path::new("/etc/rocescope"))
    }

    #[test]
    fn the_file_of_an_exporter_is_read() {
        let settings = read(
            "# for all exporters\ntls_server_config:\n  cert_file: tls/host.pem\n  key_file: /keys/host.pem\n  \
             client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans: [prometheus.example]\n  \
             min_version: TLS13\nhttp_server_config:\n  http2: false\nbasic_auth_users:\n  alice: $2y$10$abc\n",
        )
        .unwrap();
        let tls = settings.tls.as_ref().unwrap();
        assert_eq!(tls.certificate, Pem::File("/etc/rocescope/tls/host.pem".into()));
        assert_eq!(tls.clients, Clients::Required(Pem::File("/etc/rocescope/ca.pem".into())));
        assert_eq!((tls.oldest, tls.newest), (Version::Tls13, Version::Tls13));
        assert_eq!(settings.users, [("alice".to_owned(), "$2y$10$abc".to_owned())]);
        assert_eq!(settings.files().count(), 3);
        for nothing in ["", "# nothing\n", "tls_server_config:\n", "basic_auth_users:\n", "{}"] {
            assert_eq!(read(nothing), Ok(Settings::default()), "{nothing:?}");
        }
    }

    #[test]
    fn what_is_not_followed_is_refused() {
        for (text, said) in [
            ("a: [", "no YAML"),
            ("- a", "is not a mapping"),
            ("a: 1\nb: [1", "mistake at line 3, column 1"),
            ("basic_auth_user: {}", "unknown name in the file: use tls_server_config, "),
            ("rate_limit: {interval: 1s}", "rate_limit is not followed"),
            ("basic_auth_users: {a: 1}", "a password of basic_auth_users is not a string"),
            ("tls_server_config: {cert_file: a}", "both cert_file and key_file"),
            ("tls_server_config: {client_auth_type: NoClientCert}", "both cert_file and key_file"),
            ("tls_server_config: {cert_file: a, cert: b, key_file: c}", "remove one"),
            (
                "tls_server_config: {cert_file: a, key_file: b, cipher_suites: [X]}",
                "cipher_suites is not followed",
            ),
            ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "RFC 8996"),
            (
                "tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}",
                "newer",
            ),
            (
                "tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}",
                "client_auth_type that verifies",
            ),
            (
                "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}",
                "write NoClientCert",
            ),
            (
                "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}",
                "takes a client_ca_file",
            ),
            (
                "tls_server_config: {cert_file: a, key_file: b, client_allowed_sans: [x]}",
                "RequireAndVerifyClientCert",
            ),
            ("http_server_config: {headers: {X: y}}", "http_server_config.headers is not followed"),
            ("a: 1\n---\nb: 2", "more than one"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn nothing_of_the_file_is_in_an_error() {
        for text in [
            "zq7Xw0: 1",
            "zq7Xw0",
            "root:zq7Xw0",
            "zq7Xw0: [",
            "a: *zq7Xw0",
            "a: !zq7Xw0!b c",
            "tls_server_config: zq7Xw0",
            "tls_server_config: {zq7Xw0: 1}",
            "tls_server_config: {cert_file: a, key_file: b, min_version: zq7Xw0}",
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: zq7Xw0}",
            "http_server_config: {zq7Xw0: 1}",
            "basic_auth_users: {zq7Xw0: 1}",
            "basic_auth_users: zq7Xw0",
        ] {
            let error = read(text).unwrap_err();
            assert!(!error.contains("zq7Xw0"), "{text}: {error}");
        }
    }

    #[test]
    fn a_key_is_in_no_message() {
        let settings = read("tls_server_config: {cert: A, key: SECRET}").unwrap();
        assert!(!format!("{settings:?}").contains("SECRET"));
    }
}
