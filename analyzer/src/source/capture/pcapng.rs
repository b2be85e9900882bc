//! pcapng: typed blocks, grouped in sections that each have their own byte order and interfaces.
//!
//! Blocks are read in place, without allocation per packet; options are interpreted where a block has those
//! that matter here. The layout of all blocks: draft-ietf-opsawg-pcapng.

use super::error::{CaptureError, Cut, ReadEnd};
use super::window::{MAX_RECORD, Window};
use super::{FoundFrame, Interface, without_fcs};

mod clock;
mod order;

use clock::Clock;
use order::ByteOrder;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete; old writers still use it.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Type, length and, at the end, the length again.
const FRAMING: usize = 12;
/// Bytes before the options, or before the packet.
const SECTION_FIELDS: usize = 24;
const INTERFACE_FIELDS: usize = 16;
const STATISTICS_FIELDS: usize = 20;
/// Of an Enhanced Packet Block and of the obsolete Packet Block.
const PACKET_FIELDS: usize = 28;
const SIMPLE_FIELDS: usize = 12;
/// The block's length, repeated at its end.
const TRAILER: usize = 4;
/// More interfaces than a host has: a file with more is damaged or meant to fill memory.
const MAX_INTERFACES: usize = 65_536;

const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;

/// Clock, link type and drop counters of one interface: all that is needed to read its packets.
struct Port {
    clock: Clock,
    link_type: u16,
    snaplen: u32,
    fcs: u32,
    if_drop: Option<u64>,
    os_drop: Option<u64>,
}

/// Reads the blocks of a pcapng.
pub(super) struct PcapNg {
    order: ByteOrder,
    sections: u32,
    /// Interfaces of all sections; the current section's start at `first_port`.
    ports: Vec<Port>,
    first_port: usize,
    latest_ns: u64,
    untimed: u64,
    /// Sum of the drop counts of packets.
    lost_between: Option<u64>,
}

/// Blocks other than packets in a row, after which reading pauses where that is wanted.
const MAX_OTHER: u32 = 4096;

/// A packet inside its block.
struct Packet {
    ts_ns: u64,
    port: usize,
    link_type: u16,
    wire_len: u32,
    offset: usize,
    len: u32,
}

impl PcapNg {
    /// Checks that a section header starts here; the blocks are read by [`Self::next`].
    pub(super) fn open(name: &str, window: &mut Window) -> Result<Self, CaptureError> {
        let complete = window.ensure(FRAMING).map_err(|e| super::error::open_error(name, e))?;
        if !complete {
            return Err(CaptureError::HeaderCut {
                name: name.to_owned(),
                have: window.available().len(),
                format: "pcapng",
            });
        }
        Ok(Self {
            order: ByteOrder::Little,
            sections: 0,
            ports: Vec::new(),
            first_port: 0,
            latest_ns: 0,
            untimed: 0,
            lost_between: None,
        })
    }

    pub(super) fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Capture drops: see [`super::Reader::capture_drops`].
    pub(super) fn drops(&self) -> Option<u64> {
        self.ports
            .iter()
            .filter_map(|port| port.if_drop.or(port.os_drop))
            .fold(None, |sum, drops| Some(add(sum, drops)))
            .or(self.lost_between)
    }

    /// The next packet, past the other blocks before it.
    #[inline]
    pub(super) fn next(
        &mut self,
        window: &mut Window,
        interfaces: &mut Vec<Interface>,
    ) -> Result<FoundFrame, ReadEnd> {
        let mut others = 0;
        loop {
            let (block_type, block_len) = self.block_header(window)?;
            let Some(block) = window.available().get(..block_len) else {
                return Err(cut(window, Some(block_len)));
            };
            let trailer = self.order.u32(block, block_len - TRAILER);
            if trailer as usize != block_len {
                return Err(ReadEnd::Corrupt(format!(
                    "a block says it has {block_len} bytes at its start and {trailer} at its end"
                )));
            }
            let packet = match block_type {
                ENHANCED_PACKET => Some(self.enhanced_packet(block)?),
                SIMPLE_PACKET => Some(self.simple_packet(block)?),
                PACKET => Some(self.old_packet(block)?),
                other => {
                    self.describe(other, block, interfaces)?;
                    others += 1;
                    None
                }
            };
            let at = window.consume(block_len);
            if let Some(packet) = packet {
                #[expect(clippy::cast_possible_truncation, reason = "there are at most MAX_INTERFACES")]
                let interface = packet.port as u32;
                return Ok(FoundFrame {
                    ts_ns: packet.ts_ns,
                    interface,
                    link_type: packet.link_type,
                    wire_len: packet.wire_len,
                    start: at + packet.offset,
                    len: packet.len as usize,
                });
            }
            if others == MAX_OTHER && window.interruptible {
                return Err(ReadEnd::Pause);
            }
        }
    }

    /// Type and length of the next block, once the whole block is in the window. A section header
    /// sets the byte order from here on.
    #[inline]
    fn block_header(&mut self, window: &mut Window) -> Result<(u32, usize), ReadEnd> {
        if !window.ensure(FRAMING)? {
            return Err(cut(window, None));
        }
        let head = window.available();
        // The section header's type reads the same in both byte orders.
        let block_type = self.order.u32(head, 0);
        if block_type == SECTION_HEADER {
            self.order = ByteOrder::of_section(head)
                .ok_or_else(|| corrupt("a section header has no valid byte-order mark"))?;
        }
        let block_len = self.order.u32(head, 4) as usize;
        if !(FRAMING..=MAX_RECORD as usize).contains(&block_len) {
            return Err(ReadEnd::Corrupt(format!(
                "a block claims {block_len} bytes (possible are {FRAMING} to {MAX_RECORD})"
            )));
        }
        if !window.ensure(block_len)? {
            return Err(cut(window, Some(block_len)));
        }
        Ok((block_type, block_len))
    }

    #[inline]
    fn enhanced_packet(&mut self, block: &[u8]) -> Result<Packet, ReadEnd> {
        let id = self.order.u32(block, 8) as usize;
        let mut packet = self.packet(block, id)?;
        let options_at = PACKET_FIELDS + packet.len.next_multiple_of(4) as usize;
        let mut fcs = self.ports[packet.port].fcs;
        // Without options there are no bytes here, or the end marker only.
        if options_at + 8 < block.len() {
            let (drops, fcs_bits) = self.order.packet_options(&block[options_at..block.len() - TRAILER]);
            if let Some(drops) = drops {
                self.lost_between = Some(add(self.lost_between, drops));
            }
            fcs = fcs_bits.unwrap_or(fcs);
        }
        (packet.wire_len, packet.len) = without_fcs(packet.wire_len, packet.len, fcs);
        Ok(packet)
    }

    #[cold]
    fn old_packet(&mut self, block: &[u8]) -> Result<Packet, ReadEnd> {
        let id = usize::from(self.order.u16(block, 8));
        let mut packet = self.packet(block, id)?;
        let drops = self.order.u16(block, 10);
        // All ones: unknown.
        if drops != u16::MAX {
            self.lost_between = Some(add(self.lost_between, u64::from(drops)));
        }
        let fcs = self.ports[packet.port].fcs;
        (packet.wire_len, packet.len) = without_fcs(packet.wire_len, packet.len, fcs);
        Ok(packet)
    }

    /// The fields that both packet blocks share; lengths still include the FCS.
    #[inline]
    fn packet(&mut self, block: &[u8], id: usize) -> Result<Packet, ReadEnd> {
        if block.len() < PACKET_FIELDS + TRAILER {
            return Err(corrupt("a packet block is too short for its own fields"));
        }
        let index = self.first_port + id;
        let Some(port) = self.ports.get(index) else {
            return Err(ReadEnd::Corrupt(format!(
                "a packet names interface {id}, which was not described before it"
            )));
        };
        let caplen = self.order.u32(block, 20);
        if caplen as usize > block.len() - PACKET_FIELDS - TRAILER {
            return Err(ReadEnd::Corrupt(format!(
                "a packet of {caplen} bytes does not fit into its block of {}",
                block.len()
            )));
        }
        let ticks = u64::from(self.order.u32(block, 12)) << 32 | u64::from(self.order.u32(block, 16));
        let ts_ns = port.clock.to_ns(ticks);
        let link_type = port.link_type;
        self.latest_ns = self.latest_ns.max(ts_ns);
        Ok(Packet {
            ts_ns,
            port: index,
            link_type,
            wire_len: self.order.u32(block, 24),
            offset: PACKET_FIELDS,
            len: caplen,
        })
    }

    /// A packet without a timestamp, always of the section's first interface; its captured length is its original
    /// length cut at the interface's snap length.
    #[cold]
    fn simple_packet(&mut self, block: &[u8]) -> Result<Packet, ReadEnd> {
        if block.len() < SIMPLE_FIELDS + TRAILER {
            return Err(corrupt("a simple packet block is too short for its own fields"));
        }
        let Some(port) = self.ports.get(self.first_port) else {
            return Err(corrupt("a Simple Packet Block comes before the Interface Description Block"));
        };
        let wire_len = self.order.u32(block, 8);
        let room = block.len() - SIMPLE_FIELDS - TRAILER;
        let limit = if port.snaplen == 0 { u32::MAX } else { port.snaplen };
        let caplen = wire_len.min(limit);
        if caplen as usize > room {
            return Err(ReadEnd::Corrupt(format!(
                "a packet of {caplen} bytes does not fit into its block of {}",
                block.len()
            )));
        }
        let (wire_len, len) = without_fcs(wire_len, caplen, port.fcs);
        self.untimed += 1;
        Ok(Packet {
            ts_ns: self.latest_ns,
            port: self.first_port,
            link_type: port.link_type,
            wire_len,
            offset: SIMPLE_FIELDS,
            len,
        })
    }

    /// Reads a block that is not a packet.
    #[cold]
    fn describe(
        &mut self,
        block_type: u32,
        block: &[u8],
        interfaces: &mut Vec<Interface>,
    ) -> Result<(), ReadEnd> {
        match block_type {
            SECTION_HEADER => self.section(block)?,
            INTERFACE_DESCRIPTION => self.interface(block, interfaces)?,
            INTERFACE_STATISTICS => self.statistics(block)?,
            // Name resolution, secrets, custom blocks.
            _ => {}
        }
        Ok(())
    }

    /// Begins a section: interfaces are numbered from here on.
    fn section(&mut self, block: &[u8]) -> Result<(), ReadEnd> {
        options_of(block, SECTION_FIELDS, "section header")?;
        let (major, minor) = (self.order.u16(block, 12), self.order.u16(block, 14));
        if major != 1 {
            return Err(ReadEnd::Corrupt(format!(
                "a section of pcapng version {major}.{minor}, which is not known (1.0 is usual)"
            )));
        }
        self.first_port = self.ports.len();
        self.sections += 1;
        Ok(())
    }

    fn interface(&mut self, block: &[u8], interfaces: &mut Vec<Interface>) -> Result<(), ReadEnd> {
        if self.ports.len() >= MAX_INTERFACES {
            return Err(ReadEnd::Corrupt(format!("more than {MAX_INTERFACES} interfaces are described")));
        }
        let options = options_of(block, INTERFACE_FIELDS, "interface description")?;
        let name = self
            .option(options, IF_NAME)
            .map(|bytes| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned())
            .filter(|name| !name.is_empty());
        let resolution = self.option(options, IF_TSRESOL).and_then(|v| v.first());
        let offset = self.option(options, IF_TSOFFSET).filter(|v| v.len() == 8);
        let fcs = self.option(options, IF_FCSLEN).and_then(|v| v.first());
        let (link_type, snaplen) = (self.order.u16(block, 8), self.order.u32(block, 12));
        self.ports.push(Port {
            clock: Clock::new(
                resolution.copied().unwrap_or(6),
                offset.map_or(0, |v| self.order.u64(v).cast_signed()),
            ),
            link_type,
            snaplen,
            fcs: fcs.copied().map_or(0, fcs_bytes),
            if_drop: None,
            os_drop: None,
        });
        interfaces.push(Interface { name, link_type, snaplen, section: self.sections.saturating_sub(1) });
        Ok(())
    }

    /// Takes the cumulative counters of one interface; later blocks replace earlier ones.
    fn statistics(&mut self, block: &[u8]) -> Result<(), ReadEnd> {
        let options = options_of(block, STATISTICS_FIELDS, "interface statistics")?;
        let number = |code| self.option(options, code).filter(|v| v.len() == 8).map(|v| self.order.u64(v));
        let (if_drop, os_drop) = (number(ISB_IFDROP), number(ISB_OSDROP));
        // Statistics of an interface that was not described concern no packet here.
        let index = self.first_port + self.order.u32(block, 8) as usize;
        if let Some(port) = self.ports.get_mut(index) {
            port.if_drop = if_drop.or(port.if_drop);
            port.os_drop = os_drop.or(port.os_drop);
        }
        Ok(())
    }

    /// The value of the first option of a code.
    fn option<'a>(&self, options: &'a [u8], code: u16) -> Option<&'a [u8]> {
        self.order.options(options).find(|(found, _)| *found == code).map(|(_, value)| value)
    }
}

/// The options behind the first `fields` bytes of a block.
fn options_of<'a>(block: &'a [u8], fields: usize, name: &str) -> Result<&'a [u8], ReadEnd> {
    block.get(fields..block.len() - TRAILER).ok_or_else(|| {
        ReadEnd::Corrupt(format!(
            "the {name} block has {} bytes, fewer than its fields need ({})",
            block.len(),
            fields + TRAILER
        ))
    })
}

fn add(sum: Option<u64>, more: u64) -> u64 {
    sum.unwrap_or(0).saturating_add(more)
}

/// Length of the FCS in bytes. The specification counts bits but its example, and the writers
/// that follow it, bytes; no FCS has 8 bytes or more and none fewer than 8 bits.
fn fcs_bytes(option: u8) -> u32 {
    u32::from(if option >= 8 { option / 8 } else { option })
}

#[cold]
fn corrupt(what: &str) -> ReadEnd {
    ReadEnd::Corrupt(what.to_owned())
}

#[cold]
fn cut(window: &Window, need: Option<usize>) -> ReadEnd {
    if window.available().is_empty() {
        return ReadEnd::End;
    }
    ReadEnd::Cut { cut: Cut::Block, need: need.map(|n| n as u64) }
}
