//! Queue pairs of which no packet is seen, over what a fabric hashes and over ports, rails and planes: from source
//! ports that drivers compute or contexts hold.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ecmp::{self, Ecmp};
use super::entropy::{QpSpread, Spread, Weight};
use super::imbalance::{is_named, jain, max_over_mean};
use super::{Device, DeviceQp, Options, QpSource, TupleEntropy};
use crate::entity::devices::{Devices, PortSample};
use crate::sample::{Address, Direction, Tuple};
use crate::util::source_port::why_unknown;
use crate::util::system::KernelVersion;

/// Paths of queue pairs that send and whose packets bypass rocescope. They are part of neither `entropy`, `imbalance`
/// nor `ecmp`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpPaths {
    /// Connected queue pairs of the watched ports that can send, and of which no packet is in `flows`. Unit: queue
    /// pairs.
    pub qps: u64,
    /// Those among them whose 5-tuple is known: the figures up to `ecmp` are theirs. Unit: queue pairs.
    pub known: u64,
    /// Reasons for which the 5-tuple of the others is not known, with their number. Unit: queue pairs.
    pub unknown: BTreeMap<String, u64>,
    /// Weight of a queue pair in the figures up to `ecmp`. `bytes`: PSNs that it sent × path MTU, an upper bound of its
    /// bytes, where that is known of each of them. `queue_pairs`: each counts as 1.
    pub weighted_by: &'static str,
    /// Distribution of the weights over their 5-tuples.
    #[serde(flatten)]
    pub tuples: TupleEntropy,
    /// Model of hashing them over equal uplinks, as `ecmp`, with weights for bytes. Null: `--ecmp` is not given, or as
    /// `entropy_bits`.
    pub ecmp: Option<Ecmp>,
    /// Balance over the watched ports. Null: fewer than two.
    pub ports: Option<QpBalance>,
    /// Balance over the rails of `--rail`. Null: fewer than two of them have a watched port.
    pub rails: Option<QpBalance>,
    /// Balance over the planes of multi-plane ports that the NIC's own contexts name. Null: fewer than two planes.
    pub planes: Option<QpBalance>,
    /// Spread of the weights of each sending address over queue pairs and 5-tuples.
    #[serde(skip)]
    pub spreads: Vec<QpSpread>,
}

impl QpPaths {
    /// True if the bytes of each queue pair whose 5-tuple is known are known.
    pub fn is_by_bytes(&self) -> bool {
        self.weighted_by == WeightedBy::Bytes.name()
    }
}

/// Balance of queue pairs over what they share.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpBalance {
    /// Weight of a queue pair here, as `qp_paths.weighted_by`: `bytes` where those of each queue pair of these parts
    /// are known.
    pub weighted_by: &'static str,
    /// Parts that share the load, idle ones included.
    pub parts: Vec<QpPart>,
    /// Load of the busiest over the mean. Unit: ratio. Null: all are idle.
    pub max_over_mean: Option<f64>,
    /// Jain's index over the loads, as `imbalance[].jain`. Unit: ratio. Null: all are idle.
    pub jain: Option<f64>,
}

/// The queue pairs of a port, rail or plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpPart {
    /// Name: device and port, the rail, or the number of the plane.
    pub name: String,
    /// Queue pairs. Unit: queue pairs.
    pub qps: u64,
    /// Sum of their weights. Unit: as `weighted_by`.
    pub load: u64,
    /// PSNs that they sent. Unit: packets. Null: not known exactly of each of them.
    pub sent_packets: Option<u64>,
}

impl QpBalance {
    /// True if loads are bytes.
    pub fn is_by_bytes(&self) -> bool {
        self.weighted_by == WeightedBy::Bytes.name()
    }

    /// Over these parts, idle ones included, and these queue pairs with the part of each.
    fn of(names: impl Iterator<Item = String>, senders: &[(String, &Sender<'_>)]) -> Option<Self> {
        let weighted_by = WeightedBy::of(senders.iter().map(|(_, sender)| *sender));
        let idle = |name: String| (name.clone(), QpPart { name, sent_packets: Some(0), ..QpPart::default() });
        let mut parts: BTreeMap<String, QpPart> =
            names.chain(senders.iter().map(|(name, _)| name.clone())).map(idle).collect();
        for (name, sender) in senders {
            if let Some(part) = parts.get_mut(name) {
                part.qps += 1;
                part.load = part.load.saturating_add(weighted_by.weight(sender));
                let sent = part.sent_packets.zip(sender.qp.exactly_sent());
                part.sent_packets = sent.map(|(sum, own)| sum.saturating_add(own));
            }
        }
        let loads: Vec<f64> = parts.values().map(|part| part.load as f64).collect();
        (parts.len() > 1).then(|| Self {
            weighted_by: weighted_by.name(),
            parts: parts.into_values().collect(),
            max_over_mean: max_over_mean(&loads),
            jain: jain(&loads),
        })
    }
}

/// A queue pair with its port.
struct Sender<'a> {
    device: &'a Device,
    qp: &'a DeviceQp,
    /// PSNs sent × path MTU; `None` where either is not known.
    bytes: Option<u64>,
}

/// The weight of a queue pair among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeightedBy {
    Bytes,
    QueuePairs,
}

impl WeightedBy {
    /// Bytes if those of each are known and any was sent: a sum of bytes and of queue pairs would mean nothing.
    fn of<'a>(senders: impl Iterator<Item = &'a Sender<'a>>) -> Self {
        let sum = senders.map(|sender| sender.bytes).try_fold(0_u64, |sum, of| Some(sum.saturating_add(of?)));
        if sum > Some(0) { Self::Bytes } else { Self::QueuePairs }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::QueuePairs => "queue_pairs",
        }
    }

    fn weight(self, sender: &Sender<'_>) -> u64 {
        match self {
            Self::Bytes => sender.bytes.unwrap_or(0),
            Self::QueuePairs => 1,
        }
    }
}

/// Null without such queue pairs.
pub(super) fn paths(devices: &[Device], watched: &Devices, options: &Options) -> Option<QpPaths> {
    let hidden = |qp: &&DeviceQp| sends(qp) && !qp.sources.contains(&QpSource::Packets);
    let all = devices.iter().flat_map(|device| device.every_qp().filter(hidden).map(move |qp| (device, qp)));
    let senders: Vec<Sender<'_>> =
        all.map(|(device, qp)| Sender { device, qp, bytes: qp.sent_bytes_at_most() }).collect();
    if senders.is_empty() {
        return None;
    }
    let mut unknown: BTreeMap<String, u64> = BTreeMap::new();
    let mut known: Vec<(&Sender<'_>, Weight)> = Vec::new();
    for sender in &senders {
        match tuple_of(sender, watched.kernel) {
            Ok(weight) => known.push((sender, weight)),
            Err(why) => *unknown.entry(why).or_default() += 1,
        }
    }
    let weighted_by = WeightedBy::of(known.iter().map(|(sender, _)| *sender));
    let weights: Vec<Weight> = known
        .into_iter()
        .map(|(sender, weight)| Weight { bytes: weighted_by.weight(sender), ..weight })
        .collect();
    let by_qp = by(&weights, |weight| Weight { tuple: Tuple { src_port: 0, ..weight.tuple }, ..*weight });
    let by_tuple = by(&weights, |weight| Weight { dest_qp: 0, ..*weight });
    let ecmp = options.ecmp.and_then(|uplinks| ecmp::of_weights(uplinks, "queue pairs", &by_tuple, &by_qp));
    let spreads = QpSpread::by_sender(&by_tuple, &by_qp);
    Some(QpPaths {
        qps: senders.len() as u64,
        known: weights.len() as u64,
        unknown,
        weighted_by: weighted_by.name(),
        tuples: Spread::over(by_tuple.iter().copied(), Some(0)).entropy().tuples,
        ecmp,
        ports: ports(&senders),
        rails: rails(&senders, &watched.ports, options),
        planes: planes(&senders),
        spreads,
    })
}

/// True if a queue pair has one peer and may send to it.
fn sends(qp: &DeviceQp) -> bool {
    matches!(qp.kind, Some("RC" | "UC" | "XRC_INI"))
        && matches!(qp.state, None | Some("RTS" | "SQD"))
        && qp.rqpn.is_some()
        && !qp.control.is_over()
}

/// The 5-tuple of a queue pair without a weight, or the reason for which it is not known.
fn tuple_of(Sender { device, qp, .. }: &Sender<'_>, kernel: Option<KernelVersion>) -> Result<Weight, String> {
    let control = &qp.control;
    let Some(dst) = control.dst else {
        return Err("neither the control path nor a context shows its peer".to_owned());
    };
    let Some(src_port) = control.udp_port else {
        let driver = device.driver.as_deref().unwrap_or("the driver");
        return Err(why_unknown(driver, kernel));
    };
    let Some(src) = control.src else { return Err("its source address was not seen".to_owned()) };
    let ((family, src), (_, dst)) = (Address::from(src).words(), Address::from(dst).words());
    Ok(Weight {
        tuple: Tuple { family, src, dst, src_port },
        dest_qp: qp.rqpn.unwrap_or(0),
        direction: Some(Direction::Egress),
        bytes: 0,
    })
}

/// Sums of the weights that `key` makes equal but for their bytes.
fn by(weights: &[Weight], key: impl Fn(&Weight) -> Weight) -> Vec<Weight> {
    let mut sums: Vec<Weight> = weights.iter().map(key).collect();
    sums.sort_unstable();
    sums.dedup_by(|more, sum| {
        let same = (more.tuple, more.dest_qp) == (sum.tuple, sum.dest_qp);
        sum.bytes = if same { sum.bytes.saturating_add(more.bytes) } else { sum.bytes };
        same
    });
    sums
}

/// The queue pairs that have a part, with it.
fn placed<'a>(
    senders: &'a [Sender<'a>],
    part: impl Fn(&Sender<'_>) -> Option<String>,
) -> Vec<(String, &'a Sender<'a>)> {
    senders.iter().filter_map(|sender| Some((part(sender)?, sender))).collect()
}

/// Over the ports that have such queue pairs: one without may be for something else, or have no cable.
fn ports(senders: &[Sender<'_>]) -> Option<QpBalance> {
    let port =
        |Sender { device, .. }: &Sender<'_>| Some(format!("{}/{}", device.name, device.port.unwrap_or(0)));
    QpBalance::of(std::iter::empty(), &placed(senders, port))
}

fn rails(senders: &[Sender<'_>], watched: &[PortSample], options: &Options) -> Option<QpBalance> {
    let rail = |interface: Option<&str>| {
        let name = interface?;
        options.rails.iter().find(|(link, _)| is_named(name, link)).map(|(_, rail)| rail.clone())
    };
    let all = watched.iter().filter_map(|port| rail(port.interface.as_deref()));
    QpBalance::of(all, &placed(senders, |sender| rail(sender.device.interface.as_deref())))
}

fn planes(senders: &[Sender<'_>]) -> Option<QpBalance> {
    // Planes are counted from 1: one that nobody uses is idle.
    let last = senders.iter().filter_map(|sender| sender.qp.plane).max()?;
    let plane = |sender: &Sender<'_>| sender.qp.plane.map(|plane| plane.to_string());
    QpBalance::of((1..=last).map(|plane| plane.to_string()), &placed(senders, plane))
}

/// All figures of a path set, with that what-if.
#[cfg(test)]
pub(crate) fn example(ecmp: Option<Ecmp>) -> QpPaths {
    let part = QpPart { name: "mlx5_0/1".into(), qps: 1, load: 4_096, sent_packets: Some(1) };
    let balance =
        QpBalance { weighted_by: "bytes", parts: vec![part], max_over_mean: Some(1.0), jain: Some(1.0) };
    QpPaths {
        qps: 2,
        known: 1,
        unknown: [("its source address was not seen".to_owned(), 1)].into(),
        weighted_by: "bytes",
        tuples: TupleEntropy {
            five_tuples: 1,
            source_ports: 1,
            entropy_bits: Some(0.0),
            normalized: Some(1.0),
            effective_flows: Some(1.0),
            top_share: Some(1.0),
        },
        ecmp,
        ports: Some(balance.clone()),
        rails: Some(balance.clone()),
        planes: Some(balance),
        spreads: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Facts, fixtures};
    use crate::entity::contexts::{ContextSample, Contexts};
    use crate::entity::lives::Lives;

    fn facts(driver: &str, given: &[fixtures::HiddenQp], options: &Options) -> Facts {
        Facts::of(&fixtures::hidden_qps(driver, given), options)
    }

    #[test]
    fn computed_ports_give_five_tuples_and_their_spread() {
        let options = Options {
            ecmp: Some(2),
            rails: vec![("eth0".into(), "rail0".into()), ("eth1".into(), "rail1".into())],
            ..Options::default()
        };
        let even = [
            (17, 2, Some(50_000), Some(100), None),
            (18, 2, Some(50_001), Some(100), None),
            (19, 3, Some(50_000), Some(100), None),
            // The same 5-tuple as the one before: one flow to the fabric.
            (20, 3, Some(50_000), Some(100), None),
        ];
        let found = facts("mlx5_ib", &even, &options).qp_paths.unwrap();
        assert_eq!((found.qps, found.known, found.unknown.len()), (4, 4, 0));
        assert_eq!((found.weighted_by, found.tuples.five_tuples, found.tuples.source_ports), ("bytes", 3, 2));
        // A quarter, a quarter and a half: 1.5 bits.
        assert!((found.tuples.entropy_bits.unwrap() - 1.5).abs() < 1e-12);
        assert!((found.tuples.top_share.unwrap() - 0.5).abs() < 1e-12);
        let ecmp = found.ecmp.unwrap();
        assert_eq!((ecmp.sets[0].five_tuples, ecmp.sets[0].bytes), (3, 400 * 4_096));
        assert_eq!(ecmp.sets[0].cases[1].five_tuples, 4, "each queue pair with a port of its own");
        let rails = found.rails.unwrap();
        let loads: Vec<_> = rails.parts.iter().map(|part| (part.qps, part.load, part.sent_packets)).collect();
        assert_eq!(loads, [(4, 400 * 4_096, Some(400)), (0, 0, Some(0))], "the idle one counts: {rails:?}");
        assert!((rails.max_over_mean.unwrap() - 2.0).abs() < 1e-12);
        assert_eq!((found.ports, found.planes), (None, None), "the other port may be for something else");
    }

    /// Also beyond those that a report lists.
    #[test]
    fn all_queue_pairs_count() {
        let many: Vec<fixtures::HiddenQp> = (0..10_000)
            .map(|at| (17 + at, 2, u16::try_from(50_000 + at % 100).ok(), Some(1), None))
            .collect();
        let found = facts("mlx5_ib", &many, &Options::default()).qp_paths.unwrap();
        assert_eq!((found.qps, found.known, found.tuples.source_ports), (10_000, 10_000, 100));
    }

    #[test]
    fn without_bytes_of_each_a_queue_pair_weighs_one() {
        let given = [(17, 2, Some(50_000), Some(1_000), Some(1)), (18, 2, Some(50_001), None, Some(3))];
        let found = facts("mlx5_ib", &given, &Options::default()).qp_paths.unwrap();
        assert_eq!((found.weighted_by, found.ecmp, found.rails), ("queue_pairs", None, None));
        assert!((found.tuples.effective_flows.unwrap() - 2.0).abs() < 1e-12);
        let planes = found.planes.unwrap();
        let loads: Vec<(&str, u64)> =
            planes.parts.iter().map(|part| (part.name.as_str(), part.load)).collect();
        assert_eq!(loads, [("1", 1), ("2", 0), ("3", 1)]);
        assert!((planes.max_over_mean.unwrap() - 1.5).abs() < 1e-12);
    }

    /// Each figure is of the queue pairs in it: those of a plane have a context, and others need not.
    #[test]
    fn a_balance_is_by_bytes_where_those_of_its_own_queue_pairs_are_known() {
        let given = [
            (17, 2, Some(50_000), Some(300), Some(1)),
            (18, 2, Some(50_001), Some(100), Some(2)),
            (19, 2, None, None, None),
        ];
        let found = facts("mlx5_ib", &given, &Options::default()).qp_paths.unwrap();
        assert_eq!((found.known, found.weighted_by), (2, "bytes"), "both 5-tuples that are known");
        assert!((found.tuples.top_share.unwrap() - 0.75).abs() < 1e-12);
        let planes = found.planes.unwrap();
        let loads: Vec<(u64, u64)> = planes.parts.iter().map(|part| (part.qps, part.load)).collect();
        assert_eq!((planes.weighted_by, &loads[..]), ("bytes", &[(1, 300 * 4_096), (1, 100 * 4_096)][..]));
        assert!((planes.max_over_mean.unwrap() - 1.5).abs() < 1e-12);
        let rails = Options {
            rails: vec![("eth0".into(), "0".into()), ("eth1".into(), "1".into())],
            ..Options::default()
        };
        let rails = facts("mlx5_ib", &given, &rails).qp_paths.unwrap().rails.unwrap();
        let loads: Vec<_> = rails.parts.iter().map(|part| (part.qps, part.load, part.sent_packets)).collect();
        assert_eq!((rails.weighted_by, &loads[..]), ("queue_pairs", &[(3, 3, None), (0, 0, Some(0))][..]));
    }

    /// Of a queue pair that was made before the run past the verbs, there is nothing but its context.
    #[test]
    fn a_context_gives_the_own_address_where_no_command_was_seen() {
        let mut life = fixtures::qp_life(17, 1_017);
        (life.control.src, life.control.udp_port) = (None, Some(50_000));
        let mut sample =
            fixtures::with_lives(fixtures::port(), Lives { qps: vec![life].into(), ..Lives::default() });
        let paths = |sample: &_| Facts::of(sample, &Options::default()).qp_paths.unwrap();
        let unknown: Vec<String> = paths(&sample).unknown.into_keys().collect();
        assert_eq!(unknown, ["its source address was not seen"]);
        let context = ContextSample {
            device: "mlx5_0".into(),
            port: 1,
            lqpn: 17,
            src: "10.0.0.1".parse().ok(),
            ..ContextSample::default()
        };
        Arc::make_mut(&mut sample.devices).contexts =
            Arc::new(Contexts { qps: vec![context], ..Contexts::default() });
        assert_eq!((paths(&sample).known, paths(&sample).unknown), (1, BTreeMap::new()));
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        let given = [(17, 2, None, Some(10), None), (18, 2, None, Some(10), None)];
        let found = facts("bnxt_re", &given, &Options::default()).qp_paths.unwrap();
        assert_eq!(
            (found.qps, found.known, found.tuples.five_tuples, found.tuples.entropy_bits),
            (2, 0, 0, None)
        );
        let why = "bnxt_re leaves the UDP source port to the firmware".to_owned();
        assert_eq!(found.unknown, BTreeMap::from([(why, 2)]));
        let mlx5 = facts("mlx5_ib", &given, &Options::default()).qp_paths.unwrap();
        assert_eq!(
            mlx5.unknown.keys().collect::<Vec<_>>(),
            ["the flow label, from which the UDP source port follows, was not seen"]
        );
        let rxe = facts("rxe", &given, &Options::default()).qp_paths.unwrap();
        let why = rxe.unknown.keys().next().unwrap();
        assert!(why.starts_with("before kernel 5.17, rxe has another rule"), "{why}");
        assert_eq!(facts("mlx5_ib", &[], &Options::default()).qp_paths, None);
    }
}
