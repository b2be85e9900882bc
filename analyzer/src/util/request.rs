//! Makes HTTP requests to servers that the user named: an OTLP collector, a ClickHouse.

#[cfg(feature = "tls")]
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Uri;
use ureq::unversioned::transport::DefaultConnector;

use super::names::Names;

/// Reason why this build refuses an `https` URL.
pub const NO_TLS: &str = "this build of rocescope has no TLS: build it with the feature tls, or use http:// to a local proxy or collector that adds TLS";
/// Text of rustls for a certificate that no trusted authority has signed.
const UNKNOWN: &str = "invalid peer certificate: UnknownIssuer";

/// Files in PEM with what a server's certificate is held against, and with what this host shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Authorities to trust instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Certificate of this host, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// True for the URL of a server that speaks TLS.
pub fn is_encrypted(url: &str) -> bool {
    url.starts_with("https://")
}

/// The port of a URL, or that of its scheme.
pub fn port(url: &str) -> Option<u16> {
    let uri = url.parse::<Uri>().ok()?;
    uri.port_u16().or(Some(if is_encrypted(url) { 443 } else { 80 }))
}

/// Makes requests to `url`, each within `most`; a status is no error. The server is in the same network: a proxy is for
/// the rest of the world. Reads certificates where the URL needs them, and nothing afterwards: names of hosts are
/// looked up by a thread of its own, which does `limit` first.
///
/// # Errors
/// A file of certificates cannot be read or holds none; the URL needs TLS, which this build has not; no thread can be
/// started.
pub fn agent(
    url: &str,
    most: Duration,
    certificates: &Certificates,
    limit: impl FnOnce() + Send + 'static,
) -> Result<Agent, String> {
    let config = Agent::config_builder()
        .timeout_global(Some(most))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent(concat!("rocescope/", env!("CARGO_PKG_VERSION")));
    #[cfg(feature = "tls")]
    let config = if is_encrypted(url) { config.tls_config(encryption(certificates)?) } else { config };
    #[cfg(not(feature = "tls"))]
    {
        let _ = certificates;
        if is_encrypted(url) {
            return Err(NO_TLS.to_owned());
        }
    }
    let names = Names::start(limit)
        .map_err(|error| format!("cannot start a thread that looks up names of hosts: {error}"))?;
    Ok(Agent::with_parts(config.build(), DefaultConnector::default(), names))
}

/// The reason why a request got no answer.
pub fn reason(error: &ureq::Error) -> String {
    let reason = error.to_string();
    let reason = reason.strip_prefix("io: ").unwrap_or(&reason);
    if reason.contains(UNKNOWN) {
        return "no authority that is trusted here has signed its certificate: name the authority's file in SSL_CERT_FILE, or for OTLP in OTEL_EXPORTER_OTLP_CERTIFICATE".to_owned();
    }
    reason.to_owned()
}

#[cfg(feature = "tls")]
fn encryption(files: &Certificates) -> Result<ureq::tls::TlsConfig, String> {
    use ureq::tls::{ClientCert, PrivateKey, RootCerts, TlsConfig};

    let roots = files.authorities.as_deref().map_or_else(authorities, certificates)?;
    let own = match &files.own {
        None => None,
        Some((certificate, key)) => {
            let key = PrivateKey::from_pem(&bytes(key)?)
                .map_err(|error| format!("{}: no private key in PEM ({error})", key.display()))?;
            Some(ClientCert::new_with_certs(&certificates(certificate)?, key))
        }
    };
    let provider = std::sync::Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = TlsConfig::builder().root_certs(RootCerts::from(roots)).client_cert(own);
    Ok(config.unversioned_rustls_crypto_provider(provider).build())
}

/// Those that the system trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
#[cfg(feature = "tls")]
fn authorities() -> Result<Vec<ureq::tls::Certificate<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        return Err(format!(
            "no certificate of an authority is found on this host{why}; install ca-certificates, or name a file in SSL_CERT_FILE"
        ));
    }
    Ok(found
        .certs
        .iter()
        .map(|certificate| ureq::tls::Certificate::from_der(certificate).to_owned())
        .collect())
}

#[cfg(feature = "tls")]
fn certificates(file: &std::path::Path) -> Result<Vec<ureq::tls::Certificate<'static>>, String> {
    use ureq::tls::PemItem;

    let all: Result<Vec<_>, _> = ureq::tls::parse_pem(&bytes(file)?).collect();
    let all = all.map_err(|error| format!("{}: no certificate in PEM ({error})", file.display()))?;
    let all: Vec<_> = all
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if all.is_empty() { Err(format!("{}: no certificate in PEM", file.display())) } else { Ok(all) }
}

#[cfg(feature = "tls")]
fn bytes(file: &std::path::Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}
