//! The fields of the filter language, and its documentation: this table makes the help of the command line, the help
//! screen and `docs/filters.md`.

use std::fmt::Write as _;

use super::value::Unit;

/// A field of packets as well as of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// Source or destination address.
    Host,
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Destination queue pair.
    Qp,
    /// UDP source port.
    Port,
    /// VLAN id.
    Vlan,
    /// DSCP.
    Dscp,
    /// Link.
    Link,
    /// Opcode.
    Opcode,
}

impl Core {
    /// Name of the field in the language.
    pub fn name(self) -> &'static str {
        CORE.iter().find(|field| field.core == self).map_or("", |field| field.names[0])
    }

    /// The kind of value it takes, with an example.
    pub(super) const fn wanted(self) -> (&'static str, &'static str) {
        match self {
            Self::Host | Self::Source | Self::Destination => {
                ("an address or a prefix", "10.0.0.1, 10.0.0.0/24 or fd00::/8")
            }
            Self::Qp => ("a queue pair number from 0 to 0xffffff", "17 or 0x11"),
            Self::Port => ("a UDP port from 0 to 65535", "49152"),
            Self::Vlan => ("a VLAN ID from 0 to 4095", "100"),
            Self::Dscp => ("a DSCP from 0 to 63", "26"),
            Self::Link => ("the name of a link", "eth0"),
            Self::Opcode => ("an opcode", "RC_ACKNOWLEDGE, SEND_ONLY, CNP or 0x11"),
        }
    }

    /// The largest value of a number.
    pub(super) const fn most(self) -> u32 {
        match self {
            Self::Qp => 0xFF_FFFF,
            Self::Port => 0xFFFF,
            Self::Vlan => 4095,
            _ => 63,
        }
    }
}

/// A field of packets as well as of flows, and its documentation.
#[derive(Clone, Copy, Debug)]
pub struct CoreField {
    /// Field that is described.
    pub core: Core,
    /// Its name, and others that mean the same.
    pub names: &'static [&'static str],
    /// Its usage, for help and documentation.
    pub usage: &'static str,
    /// Meaning of the field, for the help.
    pub help: &'static str,
}

/// The fields of packets: `--filter`, `--view-filter` and `/` know them.
pub const CORE: &[CoreField] = &[
    CoreField {
        core: Core::Host,
        names: &["host", "net", "peer"],
        usage: "host NET",
        help: "source or destination address: 10.0.0.1, 10.0.0.0/24, 10.0.0, fd00::/8",
    },
    CoreField {
        core: Core::Source,
        names: &["src"],
        usage: "src NET",
        help: "source address; also src host NET, src net NET",
    },
    CoreField {
        core: Core::Destination,
        names: &["dst"],
        usage: "dst NET",
        help: "destination address; also dst host NET, dst net NET",
    },
    CoreField { core: Core::Qp, names: &["qp"], usage: "qp N", help: "destination queue pair: 17, 0x11" },
    CoreField {
        core: Core::Port,
        names: &["port"],
        usage: "port N",
        help: "UDP source port; the destination port of RoCEv2 is always 4791",
    },
    CoreField {
        core: Core::Vlan,
        names: &["vlan"],
        usage: "vlan [N]",
        help: "VLAN ID of the outermost tag, 0 for none; without a number, any tag",
    },
    CoreField { core: Core::Dscp, names: &["dscp"], usage: "dscp N", help: "DSCP" },
    CoreField {
        core: Core::Link,
        names: &["link"],
        usage: "link NAME",
        help: "link, as reports name it; * stands for any characters",
    },
    CoreField {
        core: Core::Opcode,
        names: &["opcode"],
        usage: "opcode NAME",
        help: "RC_SEND_ONLY, SEND_ONLY (any transport), CNP, 0x11",
    },
];

/// A field of rows on the screen: a figure, a text or one of several words.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name of the field in the language.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// The form of its values.
    pub unit: Unit,
    /// Meaning of the field, for the help.
    pub help: &'static str,
}

/// A field that a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldRef {
    /// A field of packets.
    Core(Core),
    /// A field of rows, by its place in the vocabulary.
    Row(usize),
}

/// Fields that an error names of many: with the sentence before them they fit into two lines of 80 columns.
const NEAR: usize = 6;

/// The fields of rows, besides those of packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vocabulary {
    fields: &'static [Field],
}

impl Vocabulary {
    /// With these fields of rows.
    pub const fn new(fields: &'static [Field]) -> Self {
        Self { fields }
    }

    /// Field number `at`; `None` beyond the last.
    pub fn get(self, at: usize) -> Option<&'static Field> {
        self.fields.get(at)
    }

    /// The field of a name in lower case; those of packets come first.
    pub(super) fn find(self, name: &str) -> Option<FieldRef> {
        if let Some(field) = CORE.iter().find(|field| field.names.contains(&name)) {
            return Some(FieldRef::Core(field.core));
        }
        let is = |field: &Field| field.name == name || field.aliases.contains(&name);
        self.fields.iter().position(is).map(FieldRef::Row)
    }

    /// The fields that packets have not.
    pub fn of_rows(self) -> impl Iterator<Item = (usize, &'static Field)> {
        self.fields
            .iter()
            .enumerate()
            .filter(|(_, field)| !CORE.iter().any(|core| core.names[0] == field.name))
    }

    /// In which words of which fields `text` occurs.
    pub(super) fn words_with(self, text: &str) -> Vec<(usize, u64)> {
        let found = self.of_rows().filter_map(|(at, field)| match field.unit {
            Unit::Words(words) => Some((at, bits_with(words(), text))).filter(|(_, bits)| *bits != 0),
            _ => None,
        });
        found.collect()
    }

    /// The names of the fields nearest to a word that is none: first those whose name or help has the word, then those
    /// written most like it. With the number of the others.
    pub(super) fn names_near(self, word: &str) -> String {
        let core = CORE.iter().map(|field| (field.names, &[][..], field.help));
        let rows =
            self.of_rows().map(|(_, field)| (std::slice::from_ref(&field.name), field.aliases, field.help));
        let mut all: Vec<(usize, usize, &str)> = core
            .chain(rows)
            .map(|(names, aliases, help)| {
                let written = || names.iter().chain(aliases).copied();
                let is_about = |text: &str| !word.is_empty() && text.to_lowercase().contains(word);
                let about = usize::from(!written().chain([help]).any(is_about));
                let slips = written().map(|name| strsim::damerau_levenshtein(word, name)).min();
                (about, slips.unwrap_or(usize::MAX), names.first().copied().unwrap_or_default())
            })
            .collect();
        // Those of packets, which are asked for most, come first of equal ones.
        all.sort_by_key(|(about, slips, _)| (*about, *slips));
        let near: Vec<&str> = all.iter().take(NEAR).map(|(.., name)| *name).collect();
        match all.len() - near.len() {
            0 => near.join(", "),
            more => format!("{} and {more} more, see the help", near.join(", ")),
        }
    }

    /// The names of fields, for an error; of packets alone when `source`.
    pub(super) fn names(self, source: bool) -> String {
        let core = CORE.iter().map(|field| field.names[0]);
        let rows = self.of_rows().filter(|_| !source).map(|(_, field)| field.name);
        core.chain(rows).collect::<Vec<_>>().join(", ")
    }
}

/// A bit for each of `words` in which `text` occurs.
pub(super) fn bits_with(words: &[String], text: &str) -> u64 {
    words
        .iter()
        .take(64)
        .enumerate()
        .filter(|(_, word)| word.contains(text))
        .fold(0, |bits, (at, _)| bits | 1 << at)
}

/// Meaning of the field `event`.
pub const OF_EVENT: &str = "on the events screen: the kind of event; figures are those of its flow";

/// The rules of the language but its fields: form and meaning.
pub const RULES: &[(&str, &str)] = &[
    ("ce > 1%", "a figure compares: < <= = != >= >, with k M G T, % or ns us ms s; see the columns"),
    ("nak", "a figure alone: above 0"),
    ("state loss", "the state, process, pod, transport or tunnel contains this"),
    ("event nak", OF_EVENT),
    ("rail0 10.0.1", "other words: they occur in addresses, QP, link, state, process or pod"),
    ("and or not ( )", "join tests; `and` may be left out"),
];

/// The fields of packets as lines of help, for the command line.
pub fn source_help() -> String {
    let mut text = String::from("Filters (--filter, --view-filter, / in the terminal UI):\n");
    // Writing to a string cannot fail.
    for field in CORE {
        let _ = writeln!(text, "  {:<12} {}", field.usage, field.help);
    }
    text.push_str(
        "  joined with and, or, not and ( ): 'src 10.0.0.0/24 and not opcode CNP'\n\n\
         --view-filter and / also take figures and text: 'ce > 1% or retx > 0', 'p99 > 1ms',\n\
         'state loss process python'. RoCE packets that do not match --filter are counted as filtered.",
    );
    text
}

/// The tables of `docs/filters.md`, in Markdown.
pub fn markdown(vocabulary: Vocabulary) -> String {
    let mut text = String::from("| test | matches |\n|---|---|\n");
    for field in CORE {
        let _ = writeln!(text, "| `{}` | {} |", field.usage, field.help);
    }
    text.push_str(
        "\n`--view-filter` and `/` know these as well:\n\n| field | value | meaning |\n|---|---|---|\n",
    );
    for (_, field) in vocabulary.of_rows() {
        let names = std::iter::once(&field.name).chain(field.aliases).map(|name| format!("`{name}`"));
        let (kind, example) = field.unit.example();
        let value = match field.unit {
            Unit::Words(words) => {
                words().iter().filter(|word| !word.ends_with('+')).cloned().collect::<Vec<_>>().join(", ")
            }
            Unit::Text => kind.to_owned(),
            _ => format!("{kind}: {example}"),
        };
        let _ = writeln!(text, "| {} | {value} | {} |", names.collect::<Vec<_>>().join(", "), field.help);
    }
    text
}
