//! The netlink socket: requests, dumps, acknowledgements.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR,
    NLMSG_NOOP, NetlinkBuffer,
};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_RDMA, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};

use super::request::HEADER_LEN;
use super::{Attrs, Request};
use crate::host::error::{HostError, Result};

/// Larger than any response of the kernel (32 KiB for dumps).
const RECEIVE_LEN: usize = 128 * 1024;
/// Maximum number of attempts to read a dump that changed meanwhile.
const DUMP_TRIES: usize = 4;
/// Maximum number of datagrams read per request, so that a flood of unrelated ones cannot block.
const MAX_DATAGRAMS: usize = 100_000;
/// Extended acknowledgement: the kernel's explanation (`NLMSGERR_ATTR_MSG`).
const ERROR_ATTR_MESSAGE: u16 = 1;

/// A NETLINK_ROUTE, NETLINK_RDMA or NETLINK_GENERIC socket in the namespace of the thread that opened it.
pub struct RouteSocket {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for RouteSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouteSocket").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl RouteSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel refuses the socket.
    pub fn open() -> Result<Self> {
        Self::open_protocol(NETLINK_ROUTE, "open a netlink socket")
    }

    /// Opens a socket for RDMA netlink in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel refuses the socket, as it does while no RDMA module is loaded.
    pub fn open_rdma() -> Result<Self> {
        Self::open_protocol(NETLINK_RDMA, "open an RDMA netlink socket (requires the module ib_core)")
    }

    /// Opens a socket for generic netlink in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel refuses the socket.
    pub fn open_generic() -> Result<Self> {
        Self::open_protocol(NETLINK_GENERIC, "open a generic netlink socket")
    }

    fn open_protocol(protocol: isize, action: &str) -> Result<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(protocol)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket = open().map_err(|e| HostError::system(action, e))?;
        // Only improves error texts; old kernels lack it.
        let _ = socket.set_ext_ack(true);
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(RECEIVE_LEN) })
    }

    /// Sends a request and waits for the acknowledgement. `action` describes it, as it reads after "cannot".
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn request(&mut self, action: &str, request: Request) -> Result<()> {
        self.exchange(action, request.with_flags(NLM_F_ACK), |_, _| {}, &mut || {}).map(drop)
    }

    /// Sends a request for one object and returns the payload of the response (after the netlink header).
    ///
    /// # Errors
    /// If the kernel refuses, or the response is empty.
    pub fn get(&mut self, action: &str, request: Request) -> Result<Vec<u8>> {
        let mut answer = None;
        let first = |_, payload: &[u8]| {
            answer.get_or_insert_with(|| payload.to_vec());
        };
        self.exchange(action, request.with_flags(NLM_F_ACK), first, &mut || {})?;
        answer.ok_or_else(|| HostError::system(action, io::Error::from_raw_os_error(libc::ENOENT)))
    }

    /// Sends a dump request and returns the payloads of all responses of message type `kind`. Repeated if the kernel
    /// reports that the objects changed meanwhile.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn dump(&mut self, action: &str, kind: u16, request: &Request) -> Result<Vec<Vec<u8>>> {
        self.dump_in_parts(action, kind, request, &mut || {})
    }

    /// The same; `between` runs after each part of the response, of at most 32 KiB.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn dump_in_parts(
        &mut self,
        action: &str,
        kind: u16,
        request: &Request,
        between: &mut dyn FnMut(),
    ) -> Result<Vec<Vec<u8>>> {
        let mut payloads = Vec::new();
        for _ in 0..DUMP_TRIES {
            payloads.clear();
            let add = |message, payload: &[u8]| {
                if message == kind {
                    payloads.push(payload.to_vec());
                }
            };
            let interrupted = self.exchange(action, request.clone().with_flags(NLM_F_DUMP), add, between)?;
            if !interrupted {
                break;
            }
        }
        Ok(payloads)
    }

    /// Sends a request and passes each response to `each`, up to the acknowledgement or the end of the dump;
    /// `between` runs after each datagram. Returns true if a dump was interrupted by a change.
    fn exchange(
        &mut self,
        action: &str,
        request: Request,
        mut each: impl FnMut(u16, &[u8]),
        between: &mut dyn FnMut(),
    ) -> Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = request.finish(self.sequence);
        let failed = |e| HostError::system(action, e);
        retry(|| self.socket.send(&message, 0)).map_err(failed)?;
        let mut interrupted = false;
        for _ in 0..MAX_DATAGRAMS {
            self.buffer.clear();
            let length = retry(|| self.socket.recv(&mut self.buffer, libc::MSG_TRUNC)).map_err(failed)?;
            between();
            if length > self.buffer.len() {
                return Err(failed(io::Error::other("the kernel's reply is longer than expected")));
            }
            if let Some(end) = answers(action, self.sequence, &self.buffer, &mut interrupted, &mut each) {
                return end.map(|()| interrupted);
            }
        }
        Err(failed(io::Error::other("the kernel's reply has no end")))
    }
}

/// Passes the responses to request `sequence` in one datagram to `each`: message type and payload. Sets `interrupted`
/// if a dump was interrupted by a change. Returns the result of the request if the datagram contains its end.
pub fn answers(
    action: &str,
    sequence: u32,
    datagram: &[u8],
    interrupted: &mut bool,
    each: &mut impl FnMut(u16, &[u8]),
) -> Option<Result<()>> {
    let mut rest = datagram;
    while let Ok(answer) = NetlinkBuffer::new_checked(rest) {
        let length = answer.length() as usize;
        let kind = answer.message_type();
        let flags = answer.flags();
        let payload = rest.get(HEADER_LEN..length).unwrap_or_default();
        if answer.sequence_number() == sequence {
            *interrupted |= flags & NLM_F_DUMP_INTR != 0;
            match kind {
                NLMSG_NOOP => {}
                NLMSG_DONE | NLMSG_ERROR => return Some(outcome(action, flags, kind, payload)),
                _ => each(kind, payload),
            }
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

/// The result in an error or done message: its first word is 0 or a negative error number.
fn outcome(action: &str, flags: u16, kind: u16, payload: &[u8]) -> Result<()> {
    let code = payload.first_chunk().map_or(0, |word| i32::from_ne_bytes(*word));
    if code >= 0 {
        return Ok(());
    }
    let source = io::Error::from_raw_os_error(code.saturating_neg());
    let request_at = 4;
    let attrs_at = if kind == NLMSG_DONE {
        request_at
    } else if flags & NLM_F_CAPPED != 0 {
        request_at + HEADER_LEN
    } else {
        // The original request precedes the attributes.
        let length = payload.get(request_at..).and_then(<[u8]>::first_chunk);
        request_at + length.map_or(0, |word| u32::from_ne_bytes(*word) as usize).next_multiple_of(4)
    };
    let message = (flags & NLM_F_ACK_TLVS != 0)
        .then(|| Attrs::after(payload, attrs_at).text(ERROR_ATTR_MESSAGE))
        .flatten();
    Err(match message {
        Some(message) => HostError::Netlink { action: action.to_owned(), cause: source, message },
        None => HostError::system(action, source),
    })
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_success_and_an_error_keeps_its_number() {
        assert!(outcome("x", 0, NLMSG_ERROR, &0i32.to_ne_bytes()).is_ok());
        let error = outcome("x", 0, NLMSG_ERROR, &(-libc::ENODEV).to_ne_bytes()).unwrap_err();
        assert!(error.is_absent());
    }

    #[test]
    fn the_kernels_sentence_is_passed_on() {
        let mut payload = (-libc::EINVAL).to_ne_bytes().to_vec();
        payload.extend(Request::new(1, 0, &[]).finish(1));
        payload.extend([12, 0, 1, 0]);
        payload.extend(b"too bad\0");
        let flags = NLM_F_ACK_TLVS;
        let error = outcome("do it", flags, NLMSG_ERROR, &payload).unwrap_err().to_string();
        assert!(error.contains("cannot do it") && error.contains("too bad"), "{error}");
        for end in 4..payload.len() {
            assert!(outcome("x", flags, NLMSG_ERROR, &payload[..end]).is_err());
        }
    }
}
