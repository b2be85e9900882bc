//! Address of NCCL's RAS service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::host::process::nccl::PORT;

/// Address of the RAS service: `localhost` or an IP address; never a name that needs a DNS lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RasAddress {
    text: String,
    sockets: Vec<SocketAddr>,
}

impl RasAddress {
    /// As given by the user, with the port.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Socket addresses to connect to, one after the other.
    pub fn sockets(&self) -> &[SocketAddr] {
        &self.sockets
    }

    /// A notice if queries leave this host.
    pub fn notice(&self) -> Option<String> {
        let away = self.sockets.iter().any(|socket| !socket.ip().is_loopback());
        away.then(|| {
            format!(
                "NCCL RAS is asked at {}, which is not a loopback address: queries may leave this host",
                self.text
            )
        })
    }
}

impl FromStr for RasAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "invalid address '{text}': write localhost, an IP address, or either with a port (127.0.0.1:{PORT}, [::1]:{PORT})"
            )
        };
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().ok().filter(|port| *port > 0).ok_or_else(wanted)?)
            }
            _ => (text, PORT),
        };
        let hosts: Vec<IpAddr> = if host == "localhost" {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        } else {
            let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
            vec![bare.parse().map_err(|_| wanted())?]
        };
        let host =
            if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
        let sockets = hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect();
        Ok(Self { text: format!("{host}:{port}"), sockets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_local_unless_one_is_given() {
        let sockets =
            |text: &str| RasAddress::from_str(text).map(|address| (address.text.clone(), address.notice()));
        for (text, full) in [
            ("localhost", "localhost:28028"),
            ("localhost:5", "localhost:5"),
            ("127.0.0.1", "127.0.0.1:28028"),
            ("::1", "[::1]:28028"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(sockets(text), Ok((full.to_owned(), None)), "{text}");
        }
        assert!(sockets("192.0.2.1:5").unwrap().1.unwrap().contains("may leave this host"));
        for text in ["node5", "node5:28028", "localhost:0", "localhost:99999", "", ":5", "[::1"] {
            assert!(sockets(text).is_err(), "{text}");
        }
    }
}
