//! TLS 1.2 and 1.3 with rustls and its ring provider.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion, version,
};

use super::settings::{Clients, Pem, Tls, Version};

/// TLS configuration of the server.
pub struct Encryption {
    acceptor: TlsAcceptor,
    /// Names, one of which a client certificate must have; empty for any.
    client_names: Vec<ServerName<'static>>,
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encryption").finish_non_exhaustive()
    }
}

impl Encryption {
    /// Reads the certificates and keys.
    ///
    /// # Errors
    /// Names the file that cannot be read or has another content, or the key that does not match the
    /// certificate.
    pub fn new(tls: &Tls) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&tls.certificate, "cert_file")?;
        let key = PrivateKeyDer::from_pem_slice(&bytes(&tls.key, "key_file")?)
            .map_err(|error| format!("{}: no private key in PEM ({error})", named(&tls.key, "key_file")))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions(tls))
            .map_err(|error| error.to_string())?;
        let builder = match clients(&tls.clients, provider)? {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| format!("certificate and key do not fit: {error}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let client_names = tls.client_names.iter().map(|name| server_name(name)).collect::<Result<_, _>>()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), client_names })
    }

    /// Accepts a TLS connection.
    pub fn accept<S>(&self, stream: S) -> tokio_rustls::Accept<S>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream)
    }

    /// True if the client's certificate has one of the required names.
    pub fn admits(&self, connection: &ServerConnection) -> bool {
        if self.client_names.is_empty() {
            return true;
        }
        let shown = connection.peer_certificates().and_then(<[_]>::first);
        let Some(Ok(shown)) = shown.map(ParsedCertificate::try_from) else { return false };
        self.client_names.iter().any(|name| verify_server_name(&shown, name).is_ok())
    }
}

fn versions(tls: &Tls) -> Vec<&'static SupportedProtocolVersion> {
    let all = [(Version::Tls12, &version::TLS12), (Version::Tls13, &version::TLS13)];
    let within = all.into_iter().filter(|(version, _)| (tls.oldest..=tls.newest).contains(version));
    within.map(|(_, version)| version).collect()
}

fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(ServerName::IpAddress(address.into()));
    }
    ServerName::try_from(name.to_owned())
        .map_err(|_| format!("client_allowed_sans: '{name}' is neither a DNS name nor an address"))
}

fn clients(
    clients: &Clients,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let (authority, required) = match clients {
        Clients::Any => return Ok(None),
        Clients::IfGiven(authority) => (authority, false),
        Clients::Required(authority) => (authority, true),
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority, "client_ca_file")? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", named(authority, "client_ca_file")))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    builder.build().map(Some).map_err(|error| format!("{}: {error}", named(authority, "client_ca_file")))
}

fn certificates(pem: &Pem, field: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = bytes(pem, field)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| format!("{}: no certificate in PEM ({error})", named(pem, field)))?;
    if all.is_empty() { Err(format!("{}: no certificate in PEM", named(pem, field))) } else { Ok(all) }
}

fn bytes(pem: &Pem, field: &str) -> Result<Vec<u8>, String> {
    match pem {
        Pem::Inline(text) => Ok(text.clone().into_bytes()),
        Pem::File(path) => fs::read(path).map_err(|error| format!("{}: {error}", named(pem, field))),
    }
}

/// Name of the PEM source in messages.
fn named(pem: &Pem, field: &str) -> String {
    match pem {
        Pem::File(path) => format!("{field} {}", path.display()),
        Pem::Inline(_) => field.trim_end_matches("_file").to_owned(),
    }
}
