//! LLDP frames and the switch's lossless Ethernet settings in them: DCBX as IEEE 802.1Qaz has
//! it, and the older form of its authors' group (CEE).
//!
//! Pure: bytes in, facts out. Layouts are those of IEEE 802.1AB (TLVs), 802.1Q annex D (DCBX), and
//! "DCB Capability Exchange Protocol Base Specification" revision 1.01 (CEE).

use serde::Serialize;

use crate::util::layout::plain;

/// Ethertype of LLDP.
pub const ETHERTYPE: u16 = 0x88cc;

const TLV_END: u8 = 0;
const TLV_CHASSIS: u8 = 1;
const TLV_PORT: u8 = 2;
const TLV_PORT_DESCRIPTION: u8 = 4;
const TLV_SYSTEM_NAME: u8 = 5;
const TLV_ORGANISATION: u8 = 127;

const OUI_IEEE_8021: [u8; 3] = [0x00, 0x80, 0xc2];
const IEEE_ETS: u8 = 0x09;
const IEEE_PFC: u8 = 0x0b;
const IEEE_APPS: u8 = 0x0c;

const OUI_CEE: [u8; 3] = [0x00, 0x1b, 0x21];
/// Sub-type of revision 1.01, the one in use.
const CEE: u8 = 2;
const CEE_GROUPS: u8 = 2;
const CEE_PFC: u8 = 3;
const CEE_APPS: u8 = 4;
/// Operating version, maximum version, flags and sub-type before what a feature says.
const CEE_FEATURE_HEADER: usize = 4;
const CEE_ENABLED: u8 = 0x80;
const CEE_WILLING: u8 = 0x40;
const CEE_ERROR: u8 = 0x20;

const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// The DCBX dialect of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Dialect {
    /// IEEE 802.1Qaz.
    #[serde(rename = "IEEE")]
    Ieee,
    /// The form before the standard.
    #[serde(rename = "CEE")]
    Cee,
}

/// Priority flow control as advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pfc {
    /// Lossless priorities; bit p: priority p. Unit: bits.
    pub enabled: u8,
    /// Number of priorities that can be lossless at the same time. Unit: priorities.
    pub capable: u8,
    /// The neighbour accepts the settings of the other side.
    pub willing: bool,
    /// The neighbour reports a mismatch of the two sides (CEE only).
    pub error: bool,
}

/// Enhanced transmission selection as advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ets {
    /// Traffic class (CEE: priority group) of each priority.
    pub class_of: [u8; 8],
    /// Share of each class. Unit: %.
    pub bandwidth: [u8; 8],
    /// The neighbour accepts the settings of the other side.
    pub willing: bool,
}

/// Priority of one application as advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct App {
    /// 1: ethertype, 2: TCP port, 3: UDP port, 4: TCP or UDP port, 5: DSCP.
    pub selector: u8,
    /// Ethertype, port or DSCP.
    pub protocol: u16,
    /// Its priorities; bit p: priority p (several only in CEE). Unit: bits.
    pub priorities: u8,
}

/// One LLDP neighbour, from its latest frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// System name. Null: not advertised.
    pub system: Option<String>,
    /// Chassis id: an address or a name. Null: not advertised.
    pub chassis: Option<String>,
    /// Port id. Null: not advertised.
    pub port: Option<String>,
    /// Port description. Null: not advertised.
    pub port_description: Option<String>,
    /// DCBX version. Null: no DCBX in the frame.
    pub dialect: Option<Dialect>,
    /// Priority flow control. Null: not advertised.
    pub pfc: Option<Pfc>,
    /// Enhanced transmission selection. Null: not advertised.
    pub ets: Option<Ets>,
    /// Priorities of applications (DCBX APP TLV).
    pub apps: Vec<App>,
}

impl Neighbour {
    /// Reads an Ethernet frame; `None` when it is not LLDP. TLVs behind a damaged or truncated one are left out.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let half = |at: usize| frame.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
        let mut at = 12;
        while TAGS.contains(&half(at)?) {
            at += 4;
        }
        if half(at)? != ETHERTYPE {
            return None;
        }
        let mut found = Self::default();
        for (kind, value) in Tlvs(frame.get(at + 2..)?) {
            match kind {
                TLV_END => break,
                TLV_CHASSIS => found.chassis = identifier(value, 4),
                TLV_PORT => found.port = identifier(value, 3),
                TLV_PORT_DESCRIPTION => found.port_description = text(value),
                TLV_SYSTEM_NAME => found.system = text(value),
                TLV_ORGANISATION => found.organisation(value),
                _ => {}
            }
        }
        Some(found)
    }

    /// The neighbour as people call it.
    pub fn label(&self) -> String {
        let system = self.system.as_ref().or(self.chassis.as_ref());
        let port = self.port.as_ref().or(self.port_description.as_ref());
        [system, port].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
    }

    fn organisation(&mut self, value: &[u8]) {
        let Some((&[a, b, c, subtype], rest)) = value.split_first_chunk() else { return };
        match ([a, b, c], subtype) {
            (OUI_IEEE_8021, IEEE_ETS) => {
                self.ets = ets(rest).or(self.ets);
                self.dialect = Some(Dialect::Ieee);
            }
            (OUI_IEEE_8021, IEEE_PFC) => {
                if let &[flags, enabled, ..] = rest {
                    let (willing, capable) = (flags & 0x80 != 0, flags & 0x0f);
                    self.pfc = Some(Pfc { enabled, capable, willing, error: false });
                }
                self.dialect = Some(Dialect::Ieee);
            }
            (OUI_IEEE_8021, IEEE_APPS) => {
                // A reserved byte, then three bytes each: priority and selector, protocol.
                let entries = rest.get(1..).unwrap_or_default();
                self.apps.extend(entries.as_chunks::<3>().0.iter().map(|&[what, a, b]| App {
                    selector: what & 7,
                    protocol: u16::from_be_bytes([a, b]),
                    priorities: 1 << (what >> 5),
                }));
                self.dialect = Some(Dialect::Ieee);
            }
            // With both dialects present, IEEE takes precedence.
            (OUI_CEE, CEE) if self.dialect != Some(Dialect::Ieee) => {
                self.dialect = Some(Dialect::Cee);
                for (kind, value) in Tlvs(rest) {
                    self.cee(kind, value);
                }
            }
            _ => {}
        }
    }

    fn cee(&mut self, kind: u8, value: &[u8]) {
        let Some((&[_, _, flags, _], rest)) = value.split_first_chunk::<CEE_FEATURE_HEADER>() else { return };
        let willing = flags & CEE_WILLING != 0;
        match kind {
            CEE_GROUPS => {
                // A nibble per priority, a byte of per cent per group, the number of classes.
                if let (Some(groups), Some(bandwidth)) = (nibbles(rest), eight(rest, 4)) {
                    self.ets = Some(Ets { class_of: groups, bandwidth, willing });
                }
            }
            CEE_PFC => {
                if let &[enabled, capable, ..] = rest {
                    // A feature that is off is advertised with its settings.
                    let enabled = if flags & CEE_ENABLED == 0 { 0 } else { enabled };
                    self.pfc = Some(Pfc { enabled, capable, willing, error: flags & CEE_ERROR != 0 });
                }
            }
            CEE_APPS => {
                for &[a, b, what, _, _, priorities] in rest.as_chunks::<6>().0 {
                    // 0 ethertype, 1 TCP or UDP port; IEEE numbers them differently.
                    let selector = if what & 0b11 > 0 { 4 } else { 1 };
                    self.apps.push(App { selector, protocol: u16::from_be_bytes([a, b]), priorities });
                }
            }
            _ => {}
        }
    }
}

/// Kind and value of each TLV; ends quietly at the first that is cut off.
struct Tlvs<'a>(&'a [u8]);

impl<'a> Iterator for Tlvs<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[a, b], rest) = self.0.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([a & 1, b]));
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((a >> 1, value))
    }
}

fn ets(rest: &[u8]) -> Option<Ets> {
    let (&flags, rest) = rest.split_first()?;
    Some(Ets { class_of: nibbles(rest)?, bandwidth: eight(rest, 4)?, willing: flags & 0x80 != 0 })
}

/// Eight values of four bits, the first in the upper half of the first byte.
fn nibbles(bytes: &[u8]) -> Option<[u8; 8]> {
    let four: [u8; 4] = *bytes.first_chunk()?;
    Some(std::array::from_fn(|i| four[i / 2] >> if i % 2 == 0 { 4 } else { 0 } & 0x0f))
}

fn eight(bytes: &[u8], from: usize) -> Option<[u8; 8]> {
    bytes.get(from..)?.first_chunk().copied()
}

/// A chassis or port: a kind, then an address for the kind `mac`, a name for others.
fn identifier(value: &[u8], mac: u8) -> Option<String> {
    let (kind, rest) = value.split_first()?;
    if *kind == mac && rest.len() == 6 {
        return Some(rest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"));
    }
    text(rest)
}

/// A name from outside, as it may be shown; `None` when empty.
fn text(value: &[u8]) -> Option<String> {
    let text = plain(String::from_utf8_lossy(value).trim_matches('\0'));
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
#[path = "lldp_tests.rs"]
mod tests;
