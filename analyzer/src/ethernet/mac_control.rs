//! MAC control frames: PAUSE, which stops a whole link, and PFC, which stops single priorities.
//!
//! Pure: bytes in, facts out. Layouts are those of IEEE 802.3 annex 31B (PAUSE) and annex 31D (PFC,
//! from IEEE 802.1Qbb).

/// Ethertype of MAC control.
pub const ETHERTYPE: u16 = 0x8808;

const PAUSE: u16 = 0x0001;
const PFC: u16 = 0x0101;
/// Bit times of one quantum.
const QUANTUM_BITS: u64 = 512;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// A frame that stops or resumes its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Source address: the station that pauses its neighbour.
    pub source: [u8; 6],
    /// Content of the frame.
    pub what: MacControlFrame,
}

/// The content of a MAC control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControlFrame {
    /// Stop everything for this number of quanta; 0 resumes.
    Pause(u16),
    /// Pause quanta per priority, 0 resumes; `None` for priorities not in the frame.
    Pfc([Option<u16>; 8]),
}

impl Control {
    /// Reads an Ethernet frame; `None` when it is no PAUSE or PFC frame, or is cut before its end.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let half = |at: usize| frame.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
        let source = *frame.get(6..)?.first_chunk()?;
        let mut at = 12;
        // The standard has no tag here; some switches tag with the priority.
        while TAGS.contains(&half(at)?) {
            at += 4;
        }
        if half(at)? != ETHERTYPE {
            return None;
        }
        let what = match half(at + 2)? {
            PAUSE => MacControlFrame::Pause(half(at + 4)?),
            PFC => {
                // The upper byte is reserved; bit p of the lower one stands for priority p.
                let classes = half(at + 4)? & 0xff;
                let mut quanta = [None; 8];
                for (priority, slot) in quanta.iter_mut().enumerate() {
                    let time = half(at + 6 + 2 * priority)?;
                    *slot = (classes >> priority & 1 == 1).then_some(time);
                }
                MacControlFrame::Pfc(quanta)
            }
            _ => return None,
        };
        Some(Self { source, what })
    }
}

/// Nanoseconds that this number of quanta takes on a link of `mbps` (not 0) Mbit/s.
pub fn quanta_ns(quanta: u16, mbps: u64) -> u64 {
    u64::from(quanta) * QUANTUM_BITS * 1000 / mbps.max(1)
}

/// A hardware address as people write it.
pub fn station(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; 12] = [0x01, 0x80, 0xc2, 0, 0, 0x01, 2, 0, 0, 0, 0, 7];

    fn frame(rest: &[u8]) -> Vec<u8> {
        let mut frame = HEAD.to_vec();
        frame.extend(rest);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    #[test]
    fn pfc_by_priority() {
        // Priority 3 stops for 65535, priority 4 resumes; the time of priority 5 means nothing.
        let stop = [0x88, 0x08, 0x01, 0x01, 0x00, 0x18, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0x12, 0x34];
        let found = Control::parse(&frame(&stop)).unwrap();
        assert_eq!(found.source, [2, 0, 0, 0, 0, 7]);
        let expected = [None, None, None, Some(65535), Some(0), None, None, None];
        assert_eq!(found.what, MacControlFrame::Pfc(expected));
        let tagged = [&[0x81, 0x00, 0xe0, 0x00][..], &stop].concat();
        assert_eq!(Control::parse(&frame(&tagged)).unwrap().what, MacControlFrame::Pfc(expected));
    }

    #[test]
    fn pause_of_the_link() {
        let of = |high, low| Control::parse(&frame(&[0x88, 0x08, 0x00, 0x01, high, low])).map(|c| c.what);
        assert_eq!(of(0xff, 0xff), Some(MacControlFrame::Pause(65535)));
        assert_eq!(of(0, 0), Some(MacControlFrame::Pause(0)));
    }

    #[test]
    fn other_frames_and_cut_ones_are_none() {
        assert_eq!(Control::parse(&frame(&[0x88, 0x08, 0x00, 0x02])), None, "another opcode");
        assert_eq!(Control::parse(&frame(&[0x88, 0xcc, 0x01, 0x01])), None, "LLDP");
        let whole = frame(&[0x88, 0x08, 0x01, 0x01, 0x00, 0xff]);
        // The last quantum ends at byte 34.
        for end in 0..34 {
            assert_eq!(Control::parse(&whole[..end]), None, "cut at {end}");
        }
        assert!(Control::parse(&whole[..34]).is_some());
    }

    #[test]
    fn a_quantum_is_512_bit_times() {
        assert_eq!(quanta_ns(65535, 100_000), 335_539);
        assert_eq!(quanta_ns(65535, 400_000), 83_884);
        assert_eq!(quanta_ns(1, 1000), 512);
        assert_eq!(quanta_ns(1, 0), 512_000, "no division by zero");
        assert_eq!(station([2, 0, 0, 0, 0xab, 7]), "02:00:00:00:ab:07");
    }
}
