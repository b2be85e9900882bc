//! Compares the schedule with the accounting: both count the same frames independently.

use std::collections::{BTreeMap, HashSet};

use rocescope_common::account::{FlowKey, observe};
use rocescope_common::wire::SkipReason;
use rocescope_common::wire::frame::{Entry, Full, Meta, Tag, parse};
use rocescope_common::wire::icrc;

use super::*;
use crate::sample::{Stats, address};

const CYCLE: Duration = BRIEF;

fn until(scenario: &mut Scenario, end: Duration) -> impl Iterator<Item = Scheduled> {
    let end = u64::try_from(end.as_nanos()).unwrap();
    scenario.by_ref().take_while(move |s| s.at_ns < end)
}

struct CountedFrames {
    flows: BTreeMap<TruthKey, Stats>,
    skipped: BTreeMap<SkipReason, u64>,
}

fn link(uplink: Uplink, direction: Direction) -> u16 {
    u16::try_from(uplink.index() * 2).unwrap() + u16::from(direction == Direction::Egress)
}

fn count(scheduled: impl Iterator<Item = Scheduled>) -> CountedFrames {
    let mut counted = CountedFrames { flows: BTreeMap::new(), skipped: BTreeMap::new() };
    for Scheduled { at_ns, uplink, direction, frame } in scheduled {
        let wire_len = u32::try_from(frame.len()).unwrap();
        let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len, tag: Tag::NONE };
        match parse::<Full>(&frame.as_slice(), meta, &mut ()) {
            Ok(parsed) => {
                assert_eq!(icrc::check(&frame, &parsed), Some(true));
                let key = FlowKey::of(&parsed, link(uplink, direction));
                let key = TruthKey {
                    uplink,
                    direction,
                    src: address(key.family, key.src).ip().unwrap(),
                    dst: address(key.family, key.dst).ip().unwrap(),
                    dest_qp: key.dest_qp,
                };
                observe(counted.flows.entry(key).or_default(), &parsed, at_ns);
            }
            Err(reason) => *counted.skipped.entry(reason).or_default() += 1,
        }
    }
    counted
}

fn seen(stats: &Stats) -> FlowTruth {
    FlowTruth {
        packets: stats.packets,
        bytes: stats.bytes,
        payload_bytes: stats.payload_bytes,
        ce: stats.ecn()[3],
        cnp: stats.cnp_packets,
        gaps: stats.psn.gaps,
        missing: stats.psn.missing,
        retransmissions: stats.psn.repeats,
        acks: stats.acks,
        naks: stats.rare.naks[0],
        rnr_naks: stats.rare.rnr_naks,
    }
}

#[test]
fn the_accounting_finds_the_truth() {
    let mut scenario = Scenario::new(7, CYCLE);
    // Slightly more than one cycle, ending anywhere.
    let counted = count(until(&mut scenario, CYCLE + Duration::from_millis(3_777)));
    let mut truth = scenario.truth().clone();
    // `take_while` has consumed one frame more than it returned.
    let total: u64 = counted.flows.values().map(|f| f.packets).sum();
    let skipped: u64 = counted.skipped.values().sum();
    assert_eq!(truth.total().packets + truth.other_packets, total + skipped + 1);

    // Again, without losing that frame.
    let frames = usize::try_from(total + skipped).unwrap();
    let mut scenario = Scenario::new(7, CYCLE);
    let counted = count(scenario.by_ref().take(frames));
    truth.clone_from(scenario.truth());
    assert_eq!(counted.flows.len(), truth.flows.len());
    for (key, stats) in &counted.flows {
        assert_eq!(seen(stats), truth.flows[key], "{key:?}");
        assert_eq!(stats.psn.restarts, 0, "{key:?}");
        assert_eq!(stats.rare.payload_unknown, 0, "{key:?}");
        assert_eq!(stats.rare.naks[1..], [0; 5], "{key:?}");
        if stats.psn.seen != 0 {
            assert_eq!(stats.psn.first, 0, "NCCL starts every queue pair at PSN 0: {key:?}");
        }
    }
    assert_eq!(counted.skipped.values().sum::<u64>(), truth.other_packets);
    for reason in [SkipReason::Arp, SkipReason::Lldp, SkipReason::Tcp] {
        assert!(counted.skipped[&reason] > 0, "{}", reason.name());
    }
    assert_eq!(counted.skipped.len(), 3);
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let take = |seed| Scenario::new(seed, CYCLE).take(5_000).collect::<Vec<_>>();
    assert_eq!(take(1), take(1));
    assert_ne!(take(1), take(2));
}

/// Growth of the truth in each episode of one cycle.
fn by_episode(cycle: Duration) -> BTreeMap<Episode, (FlowTruth, [u64; 2])> {
    let mut scenario = Scenario::new(3, cycle);
    let whole = u64::try_from(scenario.round().as_nanos()).unwrap();
    let mut result = BTreeMap::new();
    let mut before = FlowTruth::default();
    let mut egress = [0; 2];
    let mut current = Episode::Healthy;
    loop {
        let scheduled = scenario.next().unwrap();
        let episode = scenario.episode_at(scheduled.at_ns);
        if episode != current || scheduled.at_ns >= whole {
            let now = scenario.truth().total();
            let gained = FlowTruth {
                packets: now.packets - before.packets,
                ce: now.ce - before.ce,
                cnp: now.cnp - before.cnp,
                gaps: now.gaps - before.gaps,
                missing: now.missing - before.missing,
                retransmissions: now.retransmissions - before.retransmissions,
                naks: now.naks - before.naks,
                rnr_naks: now.rnr_naks - before.rnr_naks,
                ..FlowTruth::default()
            };
            assert!(result.insert(current, (gained, egress)).is_none(), "{current:?} came twice");
            (before, current, egress) = (now, episode, [0; 2]);
            if scheduled.at_ns >= whole {
                return result;
            }
        }
        if scheduled.direction == Direction::Egress {
            egress[scheduled.uplink.index()] += scheduled.frame.len() as u64;
        }
    }
}

#[test]
fn each_episode_shows_its_ill_and_no_other() {
    for seconds in [5, 12, 35] {
        let episodes = by_episode(Duration::from_secs(seconds));
        assert_eq!(episodes.keys().copied().collect::<Vec<_>>(), Episode::ALL, "{seconds} s");
        for (episode, (t, egress)) in &episodes {
            let what = format!("{episode:?} in {seconds} s: {t:?}, egress {egress:?}");
            assert!(t.packets > 500, "{what}");
            let congested = *episode == Episode::Congestion;
            assert_eq!((t.ce > 0, t.cnp > 0), (congested, congested), "{what}");
            let lossy = *episode == Episode::Loss;
            assert_eq!((t.gaps > 0, t.missing > 0, t.naks > 0), (lossy, lossy, lossy), "{what}");
            assert_eq!(t.rnr_naks > 0, *episode == Episode::SlowReceiver, "{what}");
            let repeats = lossy || *episode == Episode::SlowReceiver;
            assert_eq!(t.retransmissions > 0, repeats, "{what}");
            if lossy {
                assert!(t.missing >= t.gaps && t.naks > t.gaps && t.retransmissions > t.missing, "{what}");
            }
            if congested {
                // Of every two CNPs one answers marks that are set downstream of this host's port.
                let per_cnp = t.ce as f64 / t.cnp as f64;
                assert!((0.5..=10.0).contains(&per_cnp), "{per_cnp} CE per CNP: {what}");
            }
            let share = egress[0] as f64 / (egress[0] + egress[1]) as f64;
            let crowded = *episode == Episode::BadHashing;
            assert_eq!(share > 0.7, crowded, "{what}");
            assert!(crowded || (0.4..0.6).contains(&share), "{what}");
        }
    }
}

#[test]
fn rates_are_modest_and_time_never_goes_back() {
    for cycle in [Duration::from_secs(5), CYCLE, WATCHED] {
        let mut scenario = Scenario::new(11, cycle);
        let whole = scenario.round();
        let mut last = 0;
        let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
        for scheduled in until(&mut scenario, whole) {
            assert!(scheduled.at_ns >= last);
            assert!(scheduled.frame.len() <= LINK_MTU as usize + 14);
            last = scheduled.at_ns;
            *windows.entry(last / 100_000_000).or_default() += 1;
        }
        let most = windows.values().copied().max().unwrap();
        assert!(most <= 2_000, "{most} packets in 100 ms of a cycle of {cycle:?}");
        assert!(last > u64::try_from(whole.as_nanos()).unwrap() * 9 / 10);
    }
}

#[test]
fn the_second_job_has_few_source_ports() {
    let ports = |first: usize| {
        let all = fabric::connections();
        let of_job = all.iter().skip(first).take(fabric::PER_JOB);
        of_job.map(|c| c.out.src_port).collect::<HashSet<_>>().len()
    };
    assert_eq!(ports(0), fabric::PER_JOB);
    assert_eq!(ports(fabric::PER_JOB), 2);
}

#[test]
fn acknowledgements_name_requests_that_were_sent() {
    let mut scenario = Scenario::new(5, CYCLE);
    let connections = fabric::connections();
    // By connection and requesting side: highest PSN sent, highest message number acknowledged.
    let mut asked: BTreeMap<(usize, bool), (u32, u32)> = BTreeMap::new();
    for scheduled in until(&mut scenario, CYCLE) {
        let wire_len = u32::try_from(scheduled.frame.len()).unwrap();
        let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len, tag: Tag::NONE };
        let Ok(frame) = parse::<Full>(&scheduled.frame.as_slice(), meta, &mut ()) else { continue };
        let egress = scheduled.direction == Direction::Egress;
        let ends_at = |c: &Connection| c.dest_qp(scheduled.direction) == frame.dest_qp;
        let index = connections.iter().position(ends_at).unwrap();
        if frame.opcode == 0x81 {
            assert_eq!((frame.tos, frame.src_port, frame.psn), (0xC2, 0, 0));
            continue;
        }
        assert_eq!(frame.tos >> 2, 26);
        if frame.opcode == 0x11 {
            let (psn, msn) = asked.get_mut(&(index, !egress)).unwrap();
            assert!(frame.psn <= *psn, "{index}: acknowledges {} of {psn}", frame.psn);
            let reported = frame.aeth & 0x00FF_FFFF;
            assert!(reported == *msn || reported == *msn + 1, "{index}: {reported} after {msn}");
            *msn = reported;
        } else {
            let (psn, _) = asked.entry((index, egress)).or_default();
            *psn = (*psn).max(frame.psn);
        }
    }
    assert_eq!(asked.len(), connections.len() * 2);
}

/// A little-endian pcap file with nanosecond timestamps.
fn pcap<'a>(frames: impl Iterator<Item = &'a Scheduled>) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xA1B2_3C4D, 0x0004_0002, 0, 0, 65_535, 1u32] {
        file.extend(word.to_le_bytes());
    }
    for Scheduled { at_ns, frame, .. } in frames {
        let length = frame.len() as u64;
        for number in [at_ns / 1_000_000_000, at_ns % 1_000_000_000, length, length] {
            file.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn tshark_takes_every_packet_for_infiniband() {
    use std::process::Command;

    if !Command::new("tshark").arg("--version").output().is_ok_and(|o| o.status.success()) {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "tshark must be there where CI=true");
        eprintln!("SKIP: tshark_takes_every_packet_for_infiniband needs tshark");
        return;
    }
    let mut scenario = Scenario::new(9, Duration::from_secs(5));
    let whole = scenario.round();
    // All frames that are not full data packets, and some of those.
    let of_interest = |(number, s): &(usize, Scheduled)| s.frame.len() < 300 || number % 11 == 0;
    let frames: Vec<_> =
        until(&mut scenario, whole).enumerate().filter(of_interest).map(|(_, s)| s).collect();
    let roce = frames.iter().filter(|s| s.frame[12..14] == [8, 0] && s.frame[23] == 17).count();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.pcap");
    std::fs::write(&path, pcap(frames.iter())).unwrap();
    let count = |filter: &str| {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&path).args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
        let output = command.args(["-T", "fields", "-e", "frame.number", "-Y", filter]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert!(roce > 1_000);
    assert_eq!(count("udp.dstport == 4791 && infiniband.bth"), roce);
    assert_eq!(count("_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0"), 0);
    assert_eq!(count("arp || lldp || tcp"), frames.len() - roce);
    assert!(count("infiniband.aeth.syndrome.opcode == 1") > 0, "RNR NAKs");
    assert!(count("infiniband.aeth.syndrome.error_code == 0 && infiniband.aeth.syndrome.opcode == 3") > 0);
}
