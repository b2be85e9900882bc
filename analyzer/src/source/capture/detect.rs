//! Recognises an input by its first bytes, and explains inputs that are not captures.

use std::io;

use super::error::CaptureError;
use super::window::Window;

/// The format that the first four bytes name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Magic {
    Pcap,
    PcapNg,
    Gzip,
    /// Fewer than four bytes.
    Nothing,
    Other,
}

/// Reads the first four bytes of the input.
pub(super) fn magic(window: &mut Window) -> io::Result<Magic> {
    window.ensure(4)?;
    let head = window.available();
    Ok(match head.first_chunk::<4>() {
        None => Magic::Nothing,
        Some([0x1f, 0x8b, ..]) => Magic::Gzip,
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => Magic::PcapNg,
        Some(&first) if super::pcap::Magic::from_bytes(first).is_some() => Magic::Pcap,
        Some(_) => Magic::Other,
    })
}

/// First bytes of formats that are not supported, and how to convert them.
const OTHERS: &[(&[u8], &str)] = &[
    (b"snoop\0", "a snoop file: convert it with `editcap -F pcap IN OUT`"),
    (b"GMBU", "a Network Monitor file: convert it with `editcap -F pcap IN OUT`"),
    (b"RTSS", "a Network Monitor file: convert it with `editcap -F pcap IN OUT`"),
    (&[0xac, 0x01, 0x00, 0x1c], "an Ixia capture: convert it with `editcap -F pcap IN OUT`"),
    (&[0xab, 0x01, 0x00, 0x1c], "an Ixia capture: convert it with `editcap -F pcap IN OUT`"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd-compressed: use `zstd -dc IN | rocescope replay -`"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz-compressed: use `xz -dc IN | rocescope replay -`"),
    (b"BZh", "bzip2-compressed: use `bzip2 -dc IN | rocescope replay -`"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4-compressed: use `lz4 -dc IN | rocescope replay -`"),
    (b"PK\x03\x04", "a zip archive: unpack it and give the capture inside"),
    (&[0x1f, 0x8b], "compressed twice: use `gzip -dc IN | rocescope replay -`"),
];

const UNKNOWN: &str = "give a pcap or pcapng file (tcpdump -w, dumpcap); other formats such as ERF \
                       convert with `editcap -F pcap IN OUT`";

/// The error of an input whose first bytes name no supported format.
pub(super) fn refuse(name: &str, gzip: bool, window: &Window) -> CaptureError {
    let head = window.available();
    let head = &head[..head.len().min(64)];
    if gzip && window.gzip_cut() && head.len() < 4 {
        return CaptureError::HeaderCut { name: name.to_owned(), have: head.len(), format: "gzip" };
    }
    if head.is_empty() {
        return CaptureError::Empty { name: name.to_owned() };
    }
    let known = OTHERS.iter().find(|(magic, _)| head.starts_with(magic));
    let is_text = head.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    let hint = match known {
        Some((_, hint)) => hint,
        None if is_text => "text: packets have to be written with `tcpdump -w FILE`, not printed to one",
        None => UNKNOWN,
    };
    CaptureError::NotACapture { name: name.to_owned(), first_bytes: head[..head.len().min(8)].to_vec(), hint }
}
