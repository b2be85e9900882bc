//! pcapng: typed blocks, grouped in sections that each have their own byte order and interfaces.
//!
//! Framing and packet blocks are read here, without allocation; the rare descriptive blocks go
//! through `pcap-parser`, which turns their options into a list. Its own readers of packet blocks
//! allocate such a list for every packet, and its time conversion knows neither binary resolution
//! nor big-endian offsets, so that options are interpreted here.

use pcap_parser::nom::IResult;
use pcap_parser::pcapng::{
    PcapNGOption, parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le,
    parse_interfacestatisticsblock_be, parse_interfacestatisticsblock_le, parse_sectionheaderblock,
};
use pcap_parser::{EPB_MAGIC, IDB_MAGIC, ISB_MAGIC, PcapError, SHB_MAGIC, SPB_MAGIC};

use super::error::{CaptureError, Cut, Stop};
use super::window::{MAX_RECORD, Window};
use super::{Found, Interface, without_fcs};

mod clock;
mod order;

use clock::Clock;
use order::ByteOrder;

/// The obsolete Packet Block, which old writers still use.
const PB_MAGIC: u32 = 2;
/// Type, length and, at the end, the length again.
const FRAMING: usize = 12;
/// Bytes before the packet in an Enhanced Packet Block and in the obsolete Packet Block.
const PACKET_HEADER: usize = 28;
const SIMPLE_HEADER: usize = 12;
/// More interfaces than a host has: a file with more is damaged or meant to fill memory.
const MAX_INTERFACES: usize = 65_536;

const OPT_END: u16 = 0;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;

/// What packets of one interface need, and what it says it lost.
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
    /// Sum of the losses noted with packets.
    lost_between: Option<u64>,
}

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

    /// See [`super::Reader::capture_drops`].
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
    ) -> Result<Found, Stop> {
        loop {
            let (block_type, block_len) = self.block_header(window)?;
            let Some(block) = window.available().get(..block_len) else {
                return Err(cut(window, Some(block_len)));
            };
            let trailer = self.order.u32(block, block_len - 4);
            if trailer as usize != block_len {
                return Err(Stop::Corrupt(format!(
                    "a block says it has {block_len} bytes at its start and {trailer} at its end"
                )));
            }
            let packet = match block_type {
                EPB_MAGIC => Some(self.enhanced_packet(block)?),
                SPB_MAGIC => Some(self.simple_packet(block)?),
                PB_MAGIC => Some(self.old_packet(block)?),
                other => {
                    self.describe(other, block, interfaces)?;
                    None
                }
            };
            let at = window.consume(block_len);
            if let Some(packet) = packet {
                #[expect(clippy::cast_possible_truncation, reason = "there are at most MAX_INTERFACES")]
                let interface = packet.port as u32;
                return Ok(Found {
                    ts_ns: packet.ts_ns,
                    interface,
                    link_type: packet.link_type,
                    wire_len: packet.wire_len,
                    start: at + packet.offset,
                    len: packet.len as usize,
                });
            }
        }
    }

    /// Type and length of the next block, once the whole block is in the window. A section header
    /// sets the byte order from here on.
    #[inline]
    fn block_header(&mut self, window: &mut Window) -> Result<(u32, usize), Stop> {
        if !window.ensure(FRAMING)? {
            return Err(cut(window, None));
        }
        let head = window.available();
        // The section header's type reads the same in both byte orders.
        let block_type = self.order.u32(head, 0);
        if block_type == SHB_MAGIC {
            self.order = ByteOrder::of_section(head)
                .ok_or_else(|| corrupt("a section header has no valid byte-order mark"))?;
        }
        let block_len = self.order.u32(head, 4) as usize;
        if !(FRAMING..=MAX_RECORD as usize).contains(&block_len) {
            return Err(Stop::Corrupt(format!(
                "a block claims {block_len} bytes (possible are {FRAMING} to {MAX_RECORD})"
            )));
        }
        if !window.ensure(block_len)? {
            return Err(cut(window, Some(block_len)));
        }
        Ok((block_type, block_len))
    }

    #[inline]
    fn enhanced_packet(&mut self, block: &[u8]) -> Result<Packet, Stop> {
        let id = self.order.u32(block, 8) as usize;
        let mut packet = self.packet(block, id)?;
        let options_at = PACKET_HEADER + packet.len.next_multiple_of(4) as usize;
        let mut fcs = self.ports[packet.port].fcs;
        // Writers that give no options leave nothing here, or nothing but the end marker.
        if options_at + 8 < block.len() {
            let (drops, fcs_bits) = self.order.packet_options(&block[options_at..block.len() - 4]);
            if let Some(drops) = drops {
                self.lost_between = Some(add(self.lost_between, drops));
            }
            fcs = fcs_bits.unwrap_or(fcs);
        }
        (packet.wire_len, packet.len) = without_fcs(packet.wire_len, packet.len, fcs);
        Ok(packet)
    }

    #[cold]
    fn old_packet(&mut self, block: &[u8]) -> Result<Packet, Stop> {
        let id = usize::from(self.order.u16(block, 8));
        let mut packet = self.packet(block, id)?;
        let drops = self.order.u16(block, 10);
        // All ones means that the writer did not know.
        if drops != u16::MAX {
            self.lost_between = Some(add(self.lost_between, u64::from(drops)));
        }
        let fcs = self.ports[packet.port].fcs;
        (packet.wire_len, packet.len) = without_fcs(packet.wire_len, packet.len, fcs);
        Ok(packet)
    }

    /// The part of both packet blocks that is the same; lengths still include the FCS.
    #[inline]
    fn packet(&mut self, block: &[u8], id: usize) -> Result<Packet, Stop> {
        if block.len() < PACKET_HEADER + 4 {
            return Err(corrupt("a packet block is too short for its own fields"));
        }
        let index = self.first_port + id;
        let Some(port) = self.ports.get(index) else {
            return Err(Stop::Corrupt(format!(
                "a packet names interface {id}, which was not described before it"
            )));
        };
        let caplen = self.order.u32(block, 20);
        if caplen as usize > block.len() - PACKET_HEADER - 4 {
            return Err(Stop::Corrupt(format!(
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
            offset: PACKET_HEADER,
            len: caplen,
        })
    }

    /// A packet without time, always of the section's first interface; its captured length is
    /// what the interface's snap length leaves of the original one.
    #[cold]
    fn simple_packet(&mut self, block: &[u8]) -> Result<Packet, Stop> {
        if block.len() < SIMPLE_HEADER + 4 {
            return Err(corrupt("a simple packet block is too short for its own fields"));
        }
        let Some(port) = self.ports.get(self.first_port) else {
            return Err(corrupt("a simple packet comes before the description of its interface"));
        };
        let wire_len = self.order.u32(block, 8);
        let room = block.len() - SIMPLE_HEADER - 4;
        let limit = if port.snaplen == 0 { u32::MAX } else { port.snaplen };
        let caplen = wire_len.min(limit);
        if caplen as usize > room {
            return Err(Stop::Corrupt(format!(
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
            offset: SIMPLE_HEADER,
            len,
        })
    }

    /// Takes what a block other than a packet says.
    #[cold]
    fn describe(
        &mut self,
        block_type: u32,
        block: &[u8],
        interfaces: &mut Vec<Interface>,
    ) -> Result<(), Stop> {
        match block_type {
            SHB_MAGIC => {
                let header = parsed(parse_sectionheaderblock(block), "section header")?;
                if header.major_version != 1 {
                    return Err(Stop::Corrupt(format!(
                        "a section of pcapng version {}.{}, which is not known (1.0 is usual)",
                        header.major_version, header.minor_version
                    )));
                }
                self.first_port = self.ports.len();
                self.sections += 1;
            }
            IDB_MAGIC => self.interface(block, interfaces)?,
            ISB_MAGIC => self.statistics(block)?,
            // Name resolution, secrets, comments of other tools: nothing for us.
            _ => {}
        }
        Ok(())
    }

    fn interface(&mut self, block: &[u8], interfaces: &mut Vec<Interface>) -> Result<(), Stop> {
        if self.ports.len() >= MAX_INTERFACES {
            return Err(Stop::Corrupt(format!("more than {MAX_INTERFACES} interfaces are described")));
        }
        let description = match self.order {
            ByteOrder::Big => parse_interfacedescriptionblock_be(block),
            ByteOrder::Little => parse_interfacedescriptionblock_le(block),
        };
        let description = parsed(description, "interface description")?;
        let options = &description.options;
        let name = option(options, IF_NAME)
            .map(|bytes| String::from_utf8_lossy(bytes))
            .map(|name| name.trim_end_matches('\0').to_owned())
            .filter(|name| !name.is_empty());
        let resolution = option(options, IF_TSRESOL).and_then(|v| v.first());
        let offset = option(options, IF_TSOFFSET).filter(|v| v.len() == 8);
        let fcs = option(options, IF_FCSLEN).and_then(|v| v.first());
        let link_type = self.order.u16(block, 8);
        self.ports.push(Port {
            clock: Clock::new(
                resolution.copied().unwrap_or(6),
                offset.map_or(0, |v| self.order.u64(v).cast_signed()),
            ),
            link_type,
            snaplen: description.snaplen,
            fcs: fcs.copied().map_or(0, fcs_bytes),
            if_drop: None,
            os_drop: None,
        });
        interfaces.push(Interface {
            name,
            link_type,
            snaplen: description.snaplen,
            section: self.sections.saturating_sub(1),
        });
        Ok(())
    }

    /// Counters so far of one interface; later blocks replace earlier ones.
    fn statistics(&mut self, block: &[u8]) -> Result<(), Stop> {
        let statistics = match self.order {
            ByteOrder::Big => parse_interfacestatisticsblock_be(block),
            ByteOrder::Little => parse_interfacestatisticsblock_le(block),
        };
        let statistics = parsed(statistics, "interface statistics")?;
        let number =
            |code| option(&statistics.options, code).filter(|v| v.len() == 8).map(|v| self.order.u64(v));
        let (if_drop, os_drop) = (number(ISB_IFDROP), number(ISB_OSDROP));
        // Statistics of an interface nobody described say nothing about any packet here.
        let index = self.first_port + statistics.if_id as usize;
        if let Some(port) = self.ports.get_mut(index) {
            port.if_drop = if_drop.or(port.if_drop);
            port.os_drop = os_drop.or(port.os_drop);
        }
        Ok(())
    }
}

fn add(sum: Option<u64>, more: u64) -> u64 {
    sum.unwrap_or(0).saturating_add(more)
}

/// Length of the FCS in bytes. The specification counts bits but its example, and the writers
/// that follow it, bytes; no FCS has 8 bytes or more and none fewer than 8 bits.
fn fcs_bytes(option: u8) -> u32 {
    u32::from(if option >= 8 { option / 8 } else { option })
}

/// The first option of a code, before the end marker, without padding.
fn option<'a>(options: &'a [PcapNGOption<'_>], code: u16) -> Option<&'a [u8]> {
    options
        .iter()
        .take_while(|option| option.code.0 != OPT_END)
        .find(|option| option.code.0 == code)
        .and_then(|option| option.as_bytes().ok())
}

/// The block, or the damage that keeps it from being one.
fn parsed<'a, T>(result: IResult<&'a [u8], T, PcapError<&'a [u8]>>, block: &str) -> Result<T, Stop> {
    match result {
        Ok((_, parsed)) => Ok(parsed),
        Err(_) => Err(Stop::Corrupt(format!("the {block} block makes no sense"))),
    }
}

#[cold]
fn corrupt(what: &str) -> Stop {
    Stop::Corrupt(what.to_owned())
}

#[cold]
fn cut(window: &Window, need: Option<usize>) -> Stop {
    if window.available().is_empty() {
        return Stop::End;
    }
    Stop::Cut { cut: Cut::Block, need: need.map(|n| n as u64) }
}
