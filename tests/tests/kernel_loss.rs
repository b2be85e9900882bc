//! Live runs and replay report the same loss for the same packets.
//!
//! Each capture's frames go through the kernel programs at their own times, and their reports go the same way as in a
//! live run, from pairing to the loss figures. Replay gets the same frames. IPv4 identifications are removed for
//! both, since the programs do not report them.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;

use rocescope::host::kernel::clock::WallClock;
use rocescope::metrics::loss::{FlowLoss, Loss, Metrics};
use rocescope::sample::Sample;
use rocescope::source::live::Tables;
use rocescope::source::live::ecn::Ecn;
use rocescope::source::live::loss::Losses;
use rocescope::source::live::pairing::Pairs;
use rocescope_common::account::Event;
use rocescope_common::wire::frame::{Kernel, Tag};
use rocescope_common::wire::{Entry, Meta, parse};
use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::kernel::frames::{self, Frame};
use rocescope_tests::kernel::machine::{Hook, Machines};
use rocescope_tests::kernel::{available, replayed, test_run};
use rocescope_tests::oracle::captures;
use rocescope_tests::sim::scenarios;

const MAX_FLOWS: u32 = 4096;
/// Offset of the identification in the IPv4 header.
const IDENTIFICATION: usize = 4;

/// Frames as a hook gets them, without IPv4 identifications.
fn as_given(frames: &[Frame]) -> Vec<Frame> {
    let frames = frames.iter().filter(|frame| frame.data.len() >= test_run::LEAST);
    // Captures for robustness tests contain longer packets than a kernel can have.
    let frames = frames.filter(|frame| frame.wire_len <= 65_536).map(|frame| {
        let mut frame = frame.cut(test_run::LINEAR);
        let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: frame.wire_len, tag: Tag::NONE };
        if let Ok(headers) = parse::<Kernel>(&frame.data.as_slice(), meta, &mut ())
            && headers.family == 4
            && headers.roce_version == 2
        {
            let at = headers.ip_offset as usize + IDENTIFICATION;
            frame.data[at..at + 2].fill(0);
        }
        frame
    });
    frames.collect()
}

/// Result of a live run on the same packets.
struct Lived {
    loss: Loss,
    ecn: rocescope::metrics::ecn::Metrics,
    /// Slots whose latency was measured from their first packet on.
    flows: usize,
}

fn live(machines: &mut Machines, frames: &[Frame]) -> Lived {
    live_from(machines, frames, 0)
}

/// The same without reports before frame number `from`: the run has just begun, and learns of existing flows from
/// readings of the counters.
fn live_from(machines: &mut Machines, frames: &[Frame], from: usize) -> Lived {
    let mut machine = machines.take(Hook::TcIngress).unwrap();
    let clock = WallClock::unix();
    let link = u16::try_from(machine.link()).unwrap();
    let (mut pairs, mut losses, mut ecn) = (Pairs::default(), Losses::default(), Ecn::new(0, 1 << 30));
    pairs.link(link, 0);
    for (at, frame) in frames.iter().enumerate() {
        machine.send_unheard(frame).unwrap();
        let records = machine.records().unwrap();
        if at < from {
            continue;
        }
        if at == from && from > 0 {
            let reading = Tables::default().read(&machine.programs).unwrap();
            pairs.reading(&mut machine.programs, &reading, |_| None).unwrap();
            losses.changes(&mut machine.programs, &pairs);
        }
        for record in records {
            pairs.event(&mut machine.programs, &record, &clock).unwrap();
            losses.changes(&mut machine.programs, &pairs);
            if let Some(slot) = machine.programs.slot_of(&record.key) {
                losses.event(slot, &record, &pairs, &clock);
                if record.events & Event::CNP != 0 {
                    ecn.cnp(slot, record.time_ns, record.missing);
                }
            }
        }
    }
    let reading = Tables::default().read(&machine.programs).unwrap();
    losses.reading(&reading.flows, &machine.programs, Some(&clock));
    ecn.reading(&reading.flows, frames.last().map_or(0, |frame| frame.time_ns));
    let loss = losses.metrics(&reading.flows, &machine.programs, &pairs, &clock);
    let ecn = ecn.metrics(|slot| pairs.reverse(slot), std::iter::once(link), true);
    machines.put(machine);
    Lived { loss, ecn, flows: reading.flows.len() }
}

/// The compared part: a run of packets has a single time.
fn comparable(loss: &FlowLoss) -> impl PartialEq + std::fmt::Debug + use<> {
    loss.requests.map(|mut metrics| {
        for episodes in [&mut metrics.upstream, &mut metrics.downstream] {
            (episodes.longest_ns, episodes.first_ns, episodes.last_ns) = (0, 0, 0);
            episodes.total_ns = 0;
        }
        metrics.last_retransmission_ns = 0;
        // Live runs see no single ACK or response, so that the silence before a repeated READ is unknown.
        metrics.timeouts_acked = 0;
        // Events have no length of a message.
        metrics.stuck_bytes = None;
        metrics.timeouts -= u64::from(metrics.read_timeouts);
        if metrics.timeouts == 0 || metrics.read_timeouts > 0 {
            (metrics.read_timeouts, metrics.timeout_wait_ns, metrics.timeout_range_ns) = (0, 0, (0, 0));
            metrics.timeout_retransmitted = 0;
        }
        metrics
    })
}

/// Recovery times must agree within one per cent: replay dates each packet, the programs a run of packets.
fn recovery_differs(ours: &FlowLoss, theirs: &FlowLoss) -> bool {
    let times = |loss: &FlowLoss| {
        let of = |metrics: &Metrics| [metrics.upstream.total_ns, metrics.downstream.total_ns];
        loss.requests.as_ref().map_or([0; 2], of)
    };
    times(ours).iter().zip(times(theirs)).any(|(ours, theirs)| ours.abs_diff(theirs) > theirs / 100)
}

#[test]
fn loss_is_what_replay_says() {
    if !available() {
        return;
    }
    let mut machines = Machines::new(MAX_FLOWS);
    let mut found = Vec::new();
    let (mut known, mut troubled, mut naks) = (0, 0, 0);
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    let mut paths = captures::own().unwrap();
    paths.extend(captures::further().unwrap());
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(frames) = frames::read(&path).unwrap() else { continue };
        let frames = as_given(&frames);
        let lived = live(&mut machines, &frames);
        let replay = replayed::whole(&frames).unwrap().metrics.loss.unwrap();
        // NAKs of every flow are reported, with or without latency measurement.
        for (slot, theirs) in &replay.naks {
            naks += theirs.codes.iter().map(|reported| reported.count).sum::<u64>() + theirs.rnr.count;
            let ours = lived.loss.naks(*slot);
            if ours != *theirs {
                found.push(format!("{name} slot {slot}:\n  live   {ours:?}\n  replay {theirs:?}"));
            }
        }
        let slots = lived.loss.known.clone().unwrap();
        assert!(slots.len() <= lived.flows);
        for slot in slots {
            if lived.loss.flow(slot).unfollowed.is_some() {
                continue;
            }
            known += 1;
            let (ours, theirs) = (lived.loss.flow(slot), replay.flow(slot));
            if let Some(metrics) = theirs.requests {
                troubled += 1;
                *sums.entry("lost").or_default() += metrics.lost;
                *sums.entry("recovered").or_default() += metrics.recovered;
                *sums.entry("retransmitted").or_default() += metrics.retransmitted;
                *sums.entry("rereads").or_default() += metrics.rereads;
                *sums.entry("after").or_default() += metrics.downstream.count;
            }
            let (a, b) = (comparable(&ours), comparable(&theirs));
            if format!("{a:?}") != format!("{b:?}") || recovery_differs(&ours, &theirs) {
                found.push(format!("{name} slot {slot}:\n  live   {ours:?}\n  replay {theirs:?}"));
            }
        }
    }
    println!("{known} flows, {troubled} with loss or retransmissions: {sums:?}; {naks} NAKs");
    assert!(naks > 50, "{naks}");
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    assert!(troubled > 5 && sums["lost"] > 10 && sums["retransmitted"] > 100, "{troubled}: {sums:?}");
}

/// Paths with reordering, and with loss: receivers send NAKs in both cases. Live runs distinguish them as replay
/// does.
#[test]
fn reordering_differs_from_loss_as_in_a_replay() {
    if !available() {
        return;
    }
    let cases = [
        ("reordering-hop-go-back-n", true),
        ("reordering-retransmitted", true),
        ("loss-upstream-send-selective", false),
        ("loss-runs", false),
    ];
    let mut machines = Machines::new(MAX_FLOWS);
    for (name, late) in cases {
        let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == name).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let run = scenario.run(1, folder.path()).unwrap();
        let frames = as_given(&frames::read(&run.files[0]).unwrap().unwrap());
        let lived = live(&mut machines, &frames).loss;
        let replay = replayed::whole(&frames).unwrap().metrics.loss.unwrap();
        assert_eq!(
            lived.known.as_ref().unwrap().len(),
            lived.flows.len(),
            "{name}: every flow with loss is followed"
        );
        let mut doubted = (0, 0);
        for slot in replay.flows.keys() {
            let [ours, theirs] = [&lived, &replay].map(|loss| loss.flow(*slot).requests.unwrap());
            let close = |ours: u64, theirs: u64| ours.abs_diff(theirs) <= 1 + theirs / 20;
            assert!(close(ours.lost, theirs.lost), "{name}: {ours:?}, {theirs:?}");
            assert!(close(ours.doubtful, theirs.doubtful), "{name}: {ours:?}, {theirs:?}");
            assert_eq!(ours.timeouts, theirs.timeouts, "{name}");
            doubted = (doubted.0 + ours.doubtful, doubted.1 + ours.lost);
        }
        assert!(
            doubted.1 > 20 && (doubted.0 * 2 >= doubted.1) == late,
            "{name}: {doubted:?} doubted of lost"
        );
    }
}

/// A run that starts amid losses detects later ones, and counts no earlier one.
#[test]
fn losses_are_followed_from_the_middle_on() {
    const LOSSES: [&str; 2] = ["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"];
    if !available() {
        return;
    }
    let mut machines = Machines::new(MAX_FLOWS);
    let (mut flows, mut lost) = (0, 0);
    for name in LOSSES {
        let frames = as_given(&frames::read(&captures::folder().join(name)).unwrap().unwrap());
        let whole = replayed::whole(&frames).unwrap();
        for part in 1..4 {
            let from = frames.len() * part / 4;
            let lived = live_from(&mut machines, &frames, from).loss;
            let before = replayed::whole(&frames[..=from]).unwrap();
            let after = |sample: &Sample, slot| sample.metrics.loss.as_ref().unwrap().flow(slot).requests;
            for slot in lived.known.clone().unwrap() {
                let ours = lived.flow(slot);
                let Some(unfollowed) = ours.unfollowed else { continue };
                let counted = before.flows.iter().find(|flow| flow.slot == slot).unwrap();
                let psn = &counted.stats.psn;
                assert_eq!(unfollowed.packets, counted.stats.packets, "{name} {part} slot {slot}");
                assert_eq!((unfollowed.missing, unfollowed.repeats), (psn.missing, psn.repeats));
                let [then, at_end] = [&before, &whole].map(|sample| after(sample, slot).unwrap_or_default());
                let metrics = ours.requests.unwrap_or_default();
                // Packets lost earlier and retransmitted since are in neither, nor are those being retransmitted.
                let since = at_end.lost - then.lost;
                let most = then.unfilled + at_end.upstream.largest;
                let lost_since = metrics.lost;
                assert!(
                    lost_since <= since && lost_since + most >= since,
                    "{name} {part}: {lost_since} of {since}"
                );
                // One whose NAK was not recorded, and one that had begun.
                let since = at_end.downstream.count - then.downstream.count;
                assert!(
                    metrics.downstream.count <= since,
                    "{name} {part}: {:?} of {since}",
                    metrics.downstream
                );
                assert!(
                    metrics.downstream.count + 2 >= since,
                    "{name} {part}: {:?} of {since}",
                    metrics.downstream
                );
                flows += 1;
                lost += metrics.lost + metrics.downstream.count;
            }
        }
    }
    assert!(flows >= 6 && lost > 60, "{flows} flows, {lost} losses");
}

/// Data and ACKs of a connection with some marked packets and some CNPs.
fn congested() -> Vec<Frame> {
    let (there, back) = (Net::v4([10, 8, 0, 1], [10, 8, 0, 2]), Net::v4([10, 8, 0, 2], [10, 8, 0, 1]));
    let mut frames = Vec::new();
    let mut send = |time_ns: u64, net: &Net, transport: &Transport| {
        let data = craft::ethernet(Mac::SRC, Mac::DST, &net.roce(50_000, transport));
        frames.push(Frame { time_ns, wire_len: u32::try_from(data.len()).unwrap(), data });
    };
    for psn in 0..4_000u32 {
        let now = 1_700_000_000_000_000_000 + u64::from(psn) * 10_000;
        let tos = if psn > 100 && psn % 37 == 0 { 3 } else { 2 };
        let data = Transport { ack_req: true, ..Transport::new(0x04, 0x100, psn).payload(vec![1; 64]) };
        send(now, &there.clone().tos(tos), &data);
        send(now + 3_000, &back, &Transport::ack(0x200, psn, 0, psn));
        if psn > 100 && psn % 50 == 3 {
            send(now + 4_000 + u64::from(psn), &back, &Transport::cnp(0x200));
        }
    }
    frames
}

#[test]
fn notifications_are_what_replay_says() {
    if !available() {
        return;
    }
    let mut captured = vec![("congested".to_owned(), congested())];
    for path in captures::further().unwrap() {
        if let Some(frames) = frames::read(&path).unwrap() {
            captured.push((path.display().to_string(), as_given(&frames)));
        }
    }
    let mut machines = Machines::new(MAX_FLOWS);
    let mut found = Vec::new();
    for (name, frames) in captured {
        let replay = replayed::whole(&frames).unwrap().metrics.ecn.unwrap();
        if replay.cnps.is_empty() {
            continue;
        }
        let lived = live(&mut machines, &frames);
        assert_eq!(lived.ecn.cnps.len(), replay.cnps.len(), "{name}");
        for (slot, theirs) in &replay.cnps {
            let ours = &lived.ecn.cnps[slot];
            println!("{name} slot {slot}: {} CNPs, {:?}", theirs.count, theirs.delay);
            if (ours.count, ours.first_ns, ours.last_ns, ours.min_gap_ns)
                != (theirs.count, theirs.first_ns, theirs.last_ns, theirs.min_gap_ns)
            {
                found.push(format!("{name} slot {slot}:\n  live   {ours:?}\n  replay {theirs:?}"));
            }
            // Kernel events have a resolution of 16 ns.
            let close = match (ours.delay, theirs.delay) {
                (Some(ours), Some(theirs)) => {
                    ours.count == theirs.count && theirs.max - ours.max < 16 && ours.p50 == theirs.p50
                }
                (ours, theirs) => ours == theirs,
            };
            if name == "congested" {
                assert!(theirs.delay.is_some_and(|delay| delay.count > 50), "{theirs:?}");
                assert_eq!(ours.answers, theirs.answers);
            }
            if (name == "congested" || ours.answers.is_some())
                && !(close && ours.without_mark == theirs.without_mark)
            {
                found.push(format!("{name} slot {slot}:\n  live   {ours:?}\n  replay {theirs:?}"));
            }
        }
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}
