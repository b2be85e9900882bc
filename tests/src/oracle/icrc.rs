//! The invariant CRC of a RoCE packet.
//!
//! Written from the definition without regard to speed, and independent of the parser under test: CRC-32 (reflected
//! polynomial 0xEDB88320) over eight bytes of ones, the network header with everything a router may rewrite set to
//! ones, the UDP header with its checksum set to ones, the BTH with its fifth byte set to ones, and the rest. It is
//! stored least significant byte first.

use crate::craft::crc32;

/// ICRC of a packet that starts at its IPv4, IPv6 or (RoCEv1) GRH header and ends before the ICRC.
///
/// `grh` means that the header is a GRH, which the BTH follows without UDP. `None` if the packet is too short or has
/// an unknown version.
pub fn icrc(packet: &[u8], grh: bool) -> Option<u32> {
    let mut masked = packet.to_vec();
    let header = match masked.first()? >> 4 {
        4 if !grh => {
            for at in [1, 8, 10, 11] {
                *masked.get_mut(at)? = 0xFF;
            }
            usize::from(packet[0] & 0x0F) * 4
        }
        6 => {
            // Traffic class and flow label: the first word except for the version.
            masked[0] |= 0x0F;
            for at in [1, 2, 3, 7] {
                *masked.get_mut(at)? = 0xFF;
            }
            40
        }
        _ => return None,
    };
    let bth = if grh {
        header
    } else {
        *masked.get_mut(header + 6)? = 0xFF;
        *masked.get_mut(header + 7)? = 0xFF;
        header + 8
    };
    *masked.get_mut(bth + 4)? = 0xFF;
    let mut covered = vec![0xFF; 8];
    covered.extend_from_slice(&masked);
    Some(crc32(&covered))
}

/// True if the last four bytes of `packet` are the ICRC of the rest.
pub fn holds(packet: &[u8], grh: bool) -> Option<bool> {
    let (covered, stored) = packet.split_at_checked(packet.len().checked_sub(4)?)?;
    Some(icrc(covered, grh)?.to_le_bytes() == stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_has_its_well_known_check_value() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn too_short_is_not_checkable() {
        assert_eq!(holds(&[0x45, 0], false), None);
        assert_eq!(icrc(&[], false), None);
    }
}
