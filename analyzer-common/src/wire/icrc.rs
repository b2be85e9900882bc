//! The invariant CRC: CRC-32 over all fields that do not change in transit.

use super::frame::{FAMILY_LID, Frame, UNKNOWN};

const fn table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static TABLE: [u32; 256] = table();

fn feed(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize] ^ (crc >> 8))
}

/// True if the ICRC of a packet is correct. `None` if it cannot be checked: the frame is truncated or a
/// fragment, or its lengths are contradictory.
pub fn check(bytes: &[u8], frame: &Frame) -> Option<bool> {
    if frame.icrc_offset == UNKNOWN {
        return None;
    }
    let (ip, bth, end) = (frame.ip_offset as usize, frame.bth_offset as usize, frame.icrc_offset as usize);
    let stored = bytes.get(end..end + 4)?;
    let mut network = [0u8; 128];
    let headers = network.get_mut(..bth.checked_sub(ip)?)?;
    headers.copy_from_slice(bytes.get(ip..bth)?);
    let udp = if frame.roce_version == 2 { headers.len().checked_sub(8)? } else { headers.len() };
    let local = frame.family == FAMILY_LID;
    if frame.family == 4 {
        headers[1] = 0xFF;
        headers[8] = 0xFF;
        headers[10..12].fill(0xFF);
    } else if local {
        // The virtual lane of a LRH.
        headers[0] |= 0xF0;
    } else {
        // Traffic class and flow label; the version is not masked.
        headers[0] |= 0x0F;
        headers[1..4].fill(0xFF);
        headers[7] = 0xFF;
    }
    if let Some(checksum) = headers.get_mut(udp + 6..udp + 8)
        && !local
    {
        checksum.fill(0xFF);
    }
    let mut transport = [0u8; super::bth::LEN];
    transport.copy_from_slice(bytes.get(bth..bth + super::bth::LEN)?);
    transport[4] = 0xFF;
    // Ones stand for the LRH where another header follows it, and where there is none.
    let mut crc = if local { u32::MAX } else { feed(u32::MAX, &[0xFF; 8]) };
    crc = feed(crc, headers);
    crc = feed(crc, &transport);
    crc = feed(crc, bytes.get(bth + super::bth::LEN..end)?);
    Some((!crc).to_le_bytes() == *stored)
}
