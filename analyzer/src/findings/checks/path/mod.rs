//! Faults of a path: it rewrites headers, or delivers only small packets.

mod black_hole;
mod rewritten;

use crate::findings::ids;
use crate::findings::{Better, Entry, Family, Finding, Input, Measure, Problem, RequiredData, Unit, label};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[REWRITTEN, BLACK_HOLE],
    limits: &[Limits::META],
    evidence: &[
        label("changed", "fields changed", Unit::Text),
        label("changed_ratio", "share of the packets with the old value", Unit::Ratio),
        label("compared", "packets compared", Unit::Count).summed(),
        label("router_hops", "routers between the taps", Unit::Text),
        label("certainty", "certainty", Unit::Text),
        label("large", "large packets lost", Unit::Count).summed(),
        label("largest_passed", "largest payload that arrived meanwhile, bytes", Unit::Count),
        label("smallest_vanished", "smallest payload lost, bytes", Unit::Count),
        label("largest_vanished", "largest payload lost, bytes", Unit::Count),
        label("small", "small packets that arrived", Unit::Count).summed(),
        label("retries", "retries of the same request, most of a QP", Unit::Count),
    ],
    check,
};

pub(super) const REWRITTEN: Entry = Entry {
    id: ids::PATH_REWRITTEN,
    of_queue_pairs: true,
    rank: 205,
    needs: &[RequiredData::Taps],
    measure: Some(Measure::ratio("changed_ratio")),
    title: "A hop changes packets",
    meaning: "The same packets have another DSCP, ECN codepoint or 802.1p priority at the second tap. Downstream of that hop they use other queues: often the default class, which is neither \
              lossless nor ECN-enabled. Without ECT no switch can mark them, and with marks removed DCQCN does not reduce its rate: congestion becomes loss.\n\
              \n\
              Or payload and headers that must not change are others: with a wrong ICRC a device corrupts them, and receivers drop the packets; with a correct ICRC a device has recomputed it, and receivers accept the changed packets.",
    computed: "Per pair of taps: packets that both saw (`taps[].packets_matched`) whose field differs (`taps[].changed`). A CE mark on an ECN-capable packet is not a change, nor is a \
               lower time to live; the range of hop counts is evidence only.\n\
               \n\
               A warning from path.packets packets with the same change of DSCP, ECN or priority; for marks that are removed (CE to ECT) also from the share path.cleared, since a \
               retransmission may be taken for the marked original.\n\
               \n\
               Contents are compared by the ICRC that they need, of frames that are whole at both taps and right at the first, and alike in payload length, AETH, DMA length and AckReq: \
               a warning from icrc.packets packets. Info where payloads shrink with it: the switch trims packets.",
    advice: "Find the hop between the two taps that rewrites: trust mode of its ports (trust dscp, not trust port or pcp), remarking policies, tunnels that do not copy DSCP and ECN (RFC 6040), firewalls and virtual switches. Make \
             the sender's value survive to the receiver, or map the new value to the lossless, ECN-enabled class at every hop downstream.",
    caveat: "Some fabrics rewrite DSCP by design, at the boundary of a tenant; then check that the new value is lossless and ECN-enabled on the rest of the path.",
    ..Entry::of(Problem::Settings)
};

pub(super) const BLACK_HOLE: Entry = Entry {
    id: ids::PATH_MTU_BLACK_HOLE,
    of_queue_pairs: true,
    rank: 155,
    needs: &[RequiredData::Loss, RequiredData::Taps],
    measure: Some(Measure { name: "largest_passed", unit: Unit::Bytes, better: Better::More, grades: false }),
    title: "Path MTU black hole: only small packets arrive",
    meaning: "All packets above a size are lost and smaller ones arrive: a port on the path has a smaller MTU than the queue pairs use. RoCE sends no ICMP and never reduces its path MTU: \
              connections come up, small messages pass, and the first large message is retried at full size until the queue pair dies.",
    computed: "Certain, critical: with two taps, at least path.large packets between two hosts are lost (also at the end of a queue pair), all larger than every packet (where larger ones passed before: every packet since the first loss of a queue pair that retries in vain) between these \
               hosts that both taps saw, of which at least path.small arrive meanwhile.\n\
               \n\
               Likely, a warning: at a tap where both directions are captured, at least two queue pairs (or one that had smaller requests acknowledged) retry requests in vain \
               (flows[].loss.stuck of at least 2), none as large between these hosts was ever acknowledged, and at least path.small packets of smaller size are on queue pairs whose \
               requests are, while the others retry.\n\
               \n\
               The size of a READ is that of its largest response. One that is repeated in vain has not arrived, though its responses may pass the tap.",
    advice: "Compare the MTU of each port on the path with the path MTU plus headers: 4,096 bytes of payload need an IP MTU of at least 4,156 (IPv4), jumbo frames of 9,000 fit all. Test it with `ping -M do -s 4128` (IPv4: 28 bytes of headers). \
             Raise the MTU of that port, or lower the path MTU of the connections until then (NCCL uses active_mtu of `ibv_devinfo`).",
    caveat: "A filter by size, or a firewall that drops fragments of tunnels, looks the same. At one tap, requests that fail for another reason than their size may look alike. \
             A live run keeps no sizes of single packets: replay a capture.",
    ..Entry::of(Problem::Loss)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "path";
    packets: u64 = 10,
        "minimum packets with the same change of a header field",
        "A hop that rewrites affects every packet of its path; single ones may be matched wrongly";
    cleared: f64 = 0.5,
        "minimum share of CE-marked packets that lose their mark",
        "With constant IPv4 identifications, a lost marked packet and its unmarked retransmission are the same packet to the comparison; that is rare, while a hop that clears marks clears all of them";
    large: u64 = 10,
        "minimum large packets lost",
        "Ten consecutive losses of large packets alone are not random: random loss spares no small ones";
    small: u64 = 20,
        "minimum smaller packets that arrive meanwhile",
        "Shows that the path works: by chance alone, a path that loses half would not let twenty pass";
}

fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    rewritten::check(input, found);
    black_hole::check(input, found);
}
