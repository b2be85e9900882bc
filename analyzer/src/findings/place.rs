//! The place of a finding: links, and the position on the path.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::sample::Direction;
use crate::util::layout::tap_name;

/// Place of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// Tap: an interface or a capture file. Null: no single tap.
    pub tap: Option<String>,
    /// Name of the link. Null: no single link.
    pub link: Option<String>,
    /// Names of the links where several are one place, in order, at most 16: rails on which the same hosts lose
    /// packets. Empty: one link, or none.
    #[serde(serialize_with = "first_links")]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub links: Vec<String>,
    /// Links of the place beyond those in `links`, 0 if these are all. Unit: links.
    pub more_links: u64,
    /// Direction of the links. Null: replay, or no single direction.
    pub direction: Option<Direction>,
    /// `upstream` or `downstream` of the tap, or the two taps between which it is. Null: not known.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub hop: Option<Hop>,
    /// Switch and port at the other end, as LLDP names them; of several links all of them, joined by commas, at most 16
    /// of them. Null: no LLDP neighbour.
    pub switch_port: Option<String>,
}

/// Position of a place on the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hop {
    /// Upstream of the tap.
    Upstream,
    /// Downstream of the tap.
    Downstream,
    /// The end that sends the requests.
    Requester,
    /// The end that answers the requests.
    Responder,
    /// Between two taps.
    Between {
        /// The tap nearer the sender, or one of the two.
        from: String,
        /// The other tap.
        to: String,
        /// It is known which is nearer the sender.
        ordered: bool,
    },
}

impl Hop {
    const ENDS: [Self; 4] = [Self::Upstream, Self::Downstream, Self::Requester, Self::Responder];
    /// Between two taps, by whether their order is known.
    const ARROWS: [(&str, bool); 2] = [(" → ", true), (" ↔ ", false)];

    /// Between two taps, the first nearer the sender.
    pub(super) fn between(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self::Between { from: from.into(), to: to.into(), ordered: true }
    }

    /// `upstream` and `downstream`: a side of the tap; `None` for another position.
    pub const fn side(&self) -> Option<&'static str> {
        match self {
            Self::Upstream => Some("upstream"),
            Self::Downstream => Some("downstream"),
            _ => None,
        }
    }

    /// A position from a report. An arrow in the name of one of two taps is no separator where the other is known.
    pub(super) fn read(text: &str, known: Option<&str>) -> Option<Self> {
        if let Some(end) = Self::ENDS.into_iter().find(|end| end.to_string() == text) {
            return Some(end);
        }
        let splits = Self::ARROWS.iter().flat_map(|(arrow, ordered)| {
            text.match_indices(arrow).filter_map(move |(at, arrow)| {
                let (from, to) = (text.get(..at)?, text.get(at + arrow.len()..)?);
                Some(Self::Between { from: from.to_owned(), to: to.to_owned(), ordered: *ordered })
            })
        });
        let has_known = |one: &Self| match one {
            Self::Between { from, to, .. } => [from, to].iter().any(|tap| Some(tap.as_str()) == known),
            _ => false,
        };
        splits.clone().find(has_known).or_else(|| splits.into_iter().next())
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upstream => out.write_str("upstream"),
            Self::Downstream => out.write_str("downstream"),
            Self::Requester => out.write_str("requester"),
            Self::Responder => out.write_str("responder"),
            Self::Between { from, to, ordered } => {
                let arrow = Self::ARROWS.iter().find(|(_, of)| of == ordered).map_or("", |(arrow, _)| arrow);
                write!(out, "{from}{arrow}{to}")
            }
        }
    }
}

impl Serialize for Hop {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Links of a place that are listed in a report, and their switch ports.
pub(super) const MAX_LINKS: usize = 16;

fn first_links<S: Serializer>(links: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(links.iter().take(MAX_LINKS))
}

impl Place {
    /// Names of its links; of a place from a recording those that its report lists.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.link.iter().chain(&self.links).map(String::as_str)
    }

    /// True if this link is the place, or one of the links that are.
    pub fn has(&self, link: &str) -> bool {
        self.names().any(|name| name == link)
    }

    /// True if it is a host: its links are those at which the packets were seen.
    pub const fn is_host(&self) -> bool {
        matches!(self.hop, Some(Hop::Requester | Hop::Responder))
    }

    /// Its links in words, `None` where there are none: `rail0`, `rail0, rail1`.
    pub fn in_words(&self) -> Option<String> {
        let mut names: Vec<String> = self.names().map(tap_name).collect();
        if names.len() > MOST_LINKS {
            // A place from a recording has not the names of all.
            let count = match self.more_links {
                0 => names.len() as u64,
                more => more.saturating_add(MAX_LINKS as u64),
            };
            names.truncate(1);
            names.push(format!("{} more", count - 1));
        }
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Links of a place that are named one by one.
const MOST_LINKS: usize = 4;
