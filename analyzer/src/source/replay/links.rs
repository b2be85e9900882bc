//! The link of a captured frame, and the offset at which the parser starts.

use std::sync::Arc;

use rocescope_common::wire::cooked::{self, PacketDirection};
use rocescope_common::wire::frame::Tag;
use rocescope_common::wire::{Entry, Meta, SkipReason, infiniband};

use super::silences::AnyFrame;
use crate::source::capture::{self, Interface};
use crate::source::flows::table::{FlowTable, MAX_LINKS};
use crate::util::map::Map;

/// The first header of frames of a link type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkLayer {
    Ethernet,
    Ip,
    /// Four bytes of address family, then IP.
    Loopback,
    Sll,
    Sll2,
    /// Endace record format, of which only InfiniBand records are supported.
    Erf,
    InfiniBand,
    Unsupported,
}

impl LinkLayer {
    fn of(link_type: u16) -> Self {
        match link_type {
            capture::LINKTYPE_EN10MB => Self::Ethernet,
            capture::LINKTYPE_RAW
            | capture::LINKTYPE_RAW_BSD
            | capture::LINKTYPE_RAW_OPENBSD
            | capture::LINKTYPE_IPV4
            | capture::LINKTYPE_IPV6 => Self::Ip,
            capture::LINKTYPE_NULL | capture::LINKTYPE_LOOP => Self::Loopback,
            capture::LINKTYPE_LINUX_SLL => Self::Sll,
            capture::LINKTYPE_LINUX_SLL2 => Self::Sll2,
            capture::LINKTYPE_ERF => Self::Erf,
            capture::LINKTYPE_INFINIBAND => Self::InfiniBand,
            _ => Self::Unsupported,
        }
    }
}

/// True if this link type is supported.
#[must_use]
pub fn supported(link_type: u16) -> bool {
    LinkLayer::of(link_type) != LinkLayer::Unsupported
}

/// One interface of the current file.
#[derive(Clone, Copy, Debug)]
struct KnownInterface {
    layer: LinkLayer,
    label: u32,
    /// The link, unless it depends on the frame.
    link: Option<u16>,
}

/// A link within a tap: the interface's label, and for cooked captures the header's interface and direction.
type LinkKey = (u32, Option<(Option<u32>, PacketDirection)>);

/// The links of one tap.
#[derive(Debug)]
pub struct TapLinks {
    name: Arc<str>,
    /// Interfaces by name, or by number in their section.
    labels: Vec<String>,
    numbers: Map<String, u32>,
    known: Vec<KnownInterface>,
    links: Map<LinkKey, u16>,
    keys: Map<u16, LinkKey>,
    latest: Option<(LinkKey, u16)>,
    /// Frames of cooked captures, by label.
    cooked: Vec<AnyFrame>,
    /// Unsupported link types that were reported, each once.
    refused: Vec<u16>,
}

/// The last link of a table collects all links without room.
const OTHER_LINKS: u16 = u16::MAX;

impl TapLinks {
    /// A tap without links.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self {
            name: name.into(),
            labels: Vec::new(),
            numbers: Map::default(),
            known: Vec::new(),
            links: Map::default(),
            keys: Map::default(),
            latest: None,
            cooked: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// The name of the tap.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The number of a link's interface within the tap; both directions have the same.
    #[must_use]
    pub fn interface_of(&self, link: u16) -> u32 {
        let Some((label, cooked)) = self.keys.get(&link) else { return u32::MAX };
        // Both numbers are small.
        let index = cooked.and_then(|(index, _)| index).unwrap_or(0);
        label << 24 | (index & 0x00FF_FFFF)
    }

    /// A frame of any kind passes an interface; noted where its links are directions.
    pub(super) fn frame(&mut self, interface: u32, time_ns: u64) {
        let Some(KnownInterface { link: None, label, .. }) = self.known.get(interface as usize) else {
            return;
        };
        let at = *label as usize;
        if self.cooked.len() <= at {
            self.cooked.resize(at + 1, AnyFrame::default());
        }
        self.cooked[at].pass(time_ns);
    }

    /// The link of the other direction, and the frames of the interface, of a link that is one direction.
    pub(super) fn directions(&self, link: u16) -> (Option<u16>, Option<AnyFrame>) {
        let Some((label, Some((index, direction)))) = self.keys.get(&link) else { return (None, None) };
        let reverse = match direction {
            PacketDirection::In => PacketDirection::Out,
            PacketDirection::Out => PacketDirection::In,
        };
        let reverse = self.links.get(&(*label, Some((*index, reverse)))).copied();
        (reverse, self.cooked.get(*label as usize).copied())
    }

    /// Starts the next file of the tap, whose interfaces are numbered from 0.
    pub fn next_file(&mut self) {
        self.known.clear();
    }

    /// Adds the interfaces described so far in the file. Returns link types that are new and unsupported.
    pub fn learn(&mut self, interfaces: &[Interface], table: &mut FlowTable) -> Vec<u16> {
        let mut refused = Vec::new();
        for (number, interface) in interfaces.iter().enumerate().skip(self.known.len()) {
            let text = interface.name.clone().unwrap_or_else(|| {
                let first = interfaces.iter().position(|other| other.section == interface.section);
                (number - first.unwrap_or(0)).to_string()
            });
            let label = self.label(text, table);
            let layer = LinkLayer::of(interface.link_type);
            let link = match layer {
                LinkLayer::Sll | LinkLayer::Sll2 => None,
                _ => Some(self.link((label, None), table)),
            };
            if layer == LinkLayer::Unsupported && !self.refused.contains(&interface.link_type) {
                self.refused.push(interface.link_type);
                refused.push(interface.link_type);
            }
            self.known.push(KnownInterface { layer, label, link });
        }
        refused
    }

    /// True if the interface of this number is known.
    #[inline]
    #[must_use]
    pub fn knows(&self, interface: u32) -> bool {
        (interface as usize) < self.known.len()
    }

    /// The link of an interface whose frames begin with an Ethernet header, which are nearly all.
    #[inline]
    #[must_use]
    pub fn ethernet(&self, interface: u32) -> Option<u16> {
        let interface = self.known.get(interface as usize)?;
        if interface.layer == LinkLayer::Ethernet { interface.link } else { None }
    }

    /// The link of a frame of any interface, and the parser's start or the reason to skip the frame.
    pub fn resolve(
        &mut self,
        interface: u32,
        data: &[u8],
        wire_len: u32,
        table: &mut FlowTable,
    ) -> (u16, Result<Meta, SkipReason>) {
        let meta = |entry, offset, tag| Meta { entry, offset, wire_len, tag };
        match self.known.get(interface as usize) {
            Some(KnownInterface { layer: LinkLayer::Ethernet, link: Some(link), .. }) => {
                (*link, Ok(Meta::ethernet(wire_len)))
            }
            Some(KnownInterface { layer: LinkLayer::Ip, link: Some(link), .. }) => {
                (*link, Ok(meta(Entry::IP, 0, Tag::UNKNOWN)))
            }
            Some(KnownInterface { layer: LinkLayer::Loopback, link: Some(link), .. }) => {
                let start = loopback(data).map(|offset| meta(Entry::IP, offset, Tag::UNKNOWN));
                (*link, start)
            }
            Some(KnownInterface { layer: LinkLayer::InfiniBand, link: Some(link), .. }) => {
                (*link, Ok(meta(Entry::LRH, 0, Tag::NONE)))
            }
            Some(KnownInterface { layer: LinkLayer::Erf, link: Some(link), .. }) => {
                let start = infiniband::erf(&data);
                let start =
                    start.map(|(offset, wire_len)| Meta { wire_len, ..meta(Entry::LRH, offset, Tag::NONE) });
                (*link, start)
            }
            Some(KnownInterface { layer: LinkLayer::Unsupported, link: Some(link), .. }) => {
                (*link, Err(SkipReason::LinkTypeUnsupported))
            }
            Some(KnownInterface { layer, label, .. }) => {
                let (layer, label) = (*layer, *label);
                let header = if layer == LinkLayer::Sll { cooked::sll(&data) } else { cooked::sll2(&data) };
                let Some(header) = header else {
                    return (self.link((label, None), table), Err(SkipReason::TruncatedHeaders));
                };
                let key = (label, Some((header.ifindex, header.direction)));
                let link = match self.latest {
                    Some((latest, link)) if latest == key => link,
                    _ => self.link(key, table),
                };
                self.latest = Some((key, link));
                (link, Ok(meta(Entry::ethertype(header.ethertype), header.offset, Tag::NONE)))
            }
            // Unreachable: a reader returns no frame of an undescribed interface.
            None => (self.link((0, None), table), Err(SkipReason::LinkTypeUnsupported)),
        }
    }

    fn label(&mut self, text: String, table: &mut FlowTable) -> u32 {
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        self.labels.push(text.clone());
        self.numbers.insert(text, number);
        if self.labels.len() == 2 {
            // The first interface needed no name until now.
            for (key, link) in &self.links {
                table.rename_link(*link, self.link_name(*key));
            }
        }
        number
    }

    fn link(&mut self, key: LinkKey, table: &mut FlowTable) -> u16 {
        if let Some(link) = self.links.get(&key) {
            return *link;
        }
        let name = self.link_name(key);
        // The last link collects all links without room, so that their frames are still counted.
        let link = if table.links().len() < MAX_LINKS - 1 {
            table.add_link(name, None).unwrap_or(OTHER_LINKS)
        } else {
            if table.links().len() == MAX_LINKS - 1 {
                let _ = table.add_link("all other links".into(), None);
            }
            return OTHER_LINKS;
        };
        self.links.insert(key, link);
        self.keys.insert(link, key);
        link
    }

    fn link_name(&self, (label, cooked): LinkKey) -> String {
        let mut name = self.name.to_string();
        if self.labels.len() > 1
            && let Some(label) = self.labels.get(label as usize)
        {
            name = format!("{name}:{label}");
        }
        let Some((ifindex, way)) = cooked else { return name };
        let way = match way {
            PacketDirection::In => "in",
            PacketDirection::Out => "out",
        };
        match ifindex {
            Some(ifindex) => format!("{name}:if{ifindex}:{way}"),
            None => format!("{name}:{way}"),
        }
    }
}

/// Offset of the IP header after a loopback header. The address family is in the byte order of the capturing host,
/// and the number of IPv6 differs between systems.
fn loopback(data: &[u8]) -> Result<usize, SkipReason> {
    const LEN: usize = 4;
    let family = data.first_chunk::<LEN>().ok_or(SkipReason::TruncatedHeaders)?;
    let family = u32::from_le_bytes(*family).min(u32::from_be_bytes(*family));
    match family {
        2 | 10 | 24 | 28 | 30 => Ok(LEN),
        _ => Err(SkipReason::OtherEthertype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: Option<&str>, link_type: u16, section: u32) -> Interface {
        Interface { name: name.map(str::to_owned), link_type, snaplen: 0, section }
    }

    fn names(table: &FlowTable) -> Vec<&str> {
        table.links().iter().map(|link| link.name.as_str()).collect()
    }

    #[test]
    fn one_interface_needs_no_name_and_several_do() {
        let mut table = FlowTable::new(1);
        let mut links = TapLinks::new("x.pcapng".into());
        assert!(links.learn(&[interface(Some("eth0"), 1, 0)], &mut table).is_empty());
        assert_eq!(names(&table), ["x.pcapng"]);
        links.learn(&[interface(Some("eth0"), 1, 0), interface(None, 1, 0)], &mut table);
        assert_eq!(names(&table), ["x.pcapng:eth0", "x.pcapng:1"]);
        // The next file of the rotation, and another section, describe them again.
        links.next_file();
        links.learn(
            &[interface(None, 1, 0), interface(Some("eth0"), 1, 1), interface(None, 1, 1)],
            &mut table,
        );
        assert_eq!(names(&table), ["x.pcapng:eth0", "x.pcapng:1", "x.pcapng:0"]);
        assert_eq!(links.resolve(2, &[], 0, &mut table).0, 1);
    }

    #[test]
    fn cooked_frames_have_a_link_per_direction_and_interface() {
        let mut table = FlowTable::new(1);
        let mut links = TapLinks::new("any".into());
        links.learn(&[interface(None, capture::LINKTYPE_LINUX_SLL2, 0)], &mut table);
        let mut header = [0; 20];
        header[..2].copy_from_slice(&[0x08, 0]);
        header[7] = 3;
        let (link, meta) = links.resolve(0, &header, 99, &mut table);
        let expected = Meta { entry: Entry::ethertype(0x800), offset: 20, wire_len: 99, tag: Tag::NONE };
        assert!(matches!(meta, Ok(m) if m.entry == expected.entry && m.offset == 20 && m.wire_len == 99));
        header[10] = 4;
        assert_eq!((link, links.resolve(0, &header, 99, &mut table).0), (0, 1));
        header[10] = 0;
        assert_eq!(links.resolve(0, &header, 99, &mut table).0, 0);
        assert_eq!(
            links.resolve(0, &header[..9], 99, &mut table).1.err(),
            Some(SkipReason::TruncatedHeaders)
        );
        assert_eq!(names(&table), ["any:if3:in", "any:if3:out", "any"]);
    }

    #[test]
    fn sll_raw_loopback_and_foreign_link_types() {
        let mut table = FlowTable::new(1);
        let mut links = TapLinks::new("f".into());
        let types = [capture::LINKTYPE_LINUX_SLL, 101, 0, 105];
        let interfaces: Vec<Interface> = types.iter().map(|t| interface(Some("x"), *t, 0)).collect();
        assert_eq!(links.learn(&interfaces, &mut table), [105]);
        assert_eq!(links.resolve(0, &[0; 16], 1, &mut table).0, 1);
        assert!(matches!(links.resolve(1, &[], 1, &mut table).1, Ok(m) if m.tag == Tag::UNKNOWN));
        for (family, offset) in
            [([2, 0, 0, 0], Ok(4)), ([0, 0, 0, 30], Ok(4)), ([7, 0, 0, 0], Err(SkipReason::OtherEthertype))]
        {
            assert_eq!(links.resolve(2, &family, 1, &mut table).1.map(|m| m.offset), offset);
        }
        assert_eq!(links.resolve(3, &[], 1, &mut table).1.err(), Some(SkipReason::LinkTypeUnsupported));
        assert_eq!(names(&table), ["f", "f:in"]);
    }

    #[test]
    fn links_beyond_the_table_share_the_last_one() {
        let mut table = FlowTable::new(1);
        let mut links = TapLinks::new("any".into());
        links.learn(&[interface(None, capture::LINKTYPE_LINUX_SLL2, 0)], &mut table);
        let mut header = [0; 20];
        let mut last = 0;
        for ifindex in 0..66_000u32 {
            header[4..8].copy_from_slice(&ifindex.to_be_bytes());
            last = links.resolve(0, &header, 1, &mut table).0;
        }
        assert_eq!((last, table.links().len()), (OTHER_LINKS, MAX_LINKS));
        assert_eq!(table.links().last().unwrap().name, "all other links");
    }
}
