//! Kinds of findings: a word for where there is room for no more.

use super::{Finding, Hop, catalog, ids};

/// Declares the kinds, causes before their effects: each with its word in the STATE column, its badge and its meaning.
macro_rules! problems {
    ($($kind:ident: $word:literal, $badge:literal, $meaning:literal;)+) => {
        /// A kind of finding where there is room for one word only, causes before their effects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Problem {
            $(#[doc = $meaning] $kind,)+
        }

        impl Problem {
            /// Every kind, causes first.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$kind,)+];

            /// Its word in the STATE column.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$kind => $word,)+ }
            }

            /// Its badge in the header.
            pub const fn badge(self) -> &'static str {
                match self { $(Self::$kind => $badge,)+ }
            }

            /// Meaning of the word, for the help.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$kind => $meaning,)+ }
            }
        }
    };
}

problems! {
    Capture: "DROP", "CAPTURE INCOMPLETE",
        "packets missing from the counters of rocescope";
    Duplicates: "DUP", "DUPLICATES",
        "packets duplicated by the capture or the network";
    Settings: "CONF", "SETTINGS",
        "settings of host, NIC, switch or traffic class";
    Device: "NIC", "NIC COUNTERS",
        "errors or discards counted by the NIC";
    Pause: "PFC", "PFC",
        "priority flow control stops the sender";
    Icrc: "ICRC", "ICRC ERRORS",
        "packets corrupted on the path (invalid ICRC)";
    Refused: "NAK", "FATAL NAK",
        "request refused: remote access, operational or invalid request error";
    Loss: "LOSS", "LOSS",
        "packets lost, or NAKed for a PSN sequence error";
    NotReady: "RNR", "RNR",
        "receiver not ready: no receive buffer posted";
    Silent: "PEER", "PEER SILENT",
        "no response from the peer, or a dead queue pair";
    Reordering: "REOR", "REORDERING",
        "packets out of order, which their senders retransmit";
    Retransmission: "RETX", "RETRANSMISSIONS",
        "large share of retransmitted packets";
    Incast: "INCA", "INCAST",
        "incast: many senders to one receiver at the same time";
    Congestion: "CE", "CONGESTION",
        "CE-marked data: a queue on the path is above its ECN threshold";
    NoCnp: "CNP0", "NO CNP",
        "no CNPs from a receiver of CE-marked data: its senders keep their rate";
    Notification: "CNP", "CNP",
        "unexpected CNPs, or ECN not in use";
    Latency: "SLOW", "LATENCY",
        "long tail of request latency";
    Hashing: "ECMP", "ECMP HASHING",
        "few 5-tuples carry most bytes: ECMP cannot balance them";
    Imbalance: "LOAD", "UNEVEN LOAD",
        "parallel links carry unequal load";
    Stall: "STOP", "JOB STALLED",
        "the job stopped communicating, or waits for a rank";
    Step: "STEP", "SLOW STEPS",
        "straggler, or steps of the job getting longer";
    Foreign: "ISOL", "ISOLATION",
        "traffic of another tenant or application";
}

impl Problem {
    /// True for packets that were lost, or, as information, may have been.
    pub fn is_loss(self) -> bool {
        self == Self::Loss
    }

    /// True for packets that did not arrive whole, in order and accepted, and for recovery from it.
    pub fn is_of_delivery(self) -> bool {
        use Problem::{Icrc, Loss, NotReady, Refused, Reordering, Retransmission, Silent};
        matches!(self, Icrc | Loss | NotReady | Refused | Reordering | Retransmission | Silent)
    }

    /// The kind of a finding; `None` for an id that is not known.
    pub fn of(finding: &Finding) -> Option<Self> {
        // Packets arrive at the tap out of order: that is why their senders retransmit.
        if finding.id == ids::RETRY_STORM && finding.place.hop == Some(Hop::Upstream) {
            return Some(Self::Reordering);
        }
        Some(finding.subject.problem.unwrap_or(catalog::entry(finding.id)?.problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_fits_its_column_and_is_on_the_page() {
        let page = include_str!("../../../docs/tui.md");
        for kind in Problem::ALL {
            assert!(kind.word().len() <= 4 && !kind.meaning().is_empty(), "{kind:?}");
            let row = format!("| `{}` | {} |", kind.word(), kind.meaning());
            assert!(page.contains(&row), "docs/tui.md has no row {row}");
        }
    }
}
