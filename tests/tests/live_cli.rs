//! `rocescope live` in use: error messages, effects on interfaces and other programs, and complete detachment after
//! any end.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::io::Write as _;
use std::time::{Duration, Instant};

use rocescope_tests::live::attached::{ForeignXdp, Hooks};
use rocescope_tests::live::program::{Ended, Program, Start, Tenant};
use rocescope_tests::live::wire::{Link, World};
use rocescope_tests::live::{frames, tcp};
use rocescope_tests::needs_root;
use rocescope_tests::oracle::craft::{self, Roce};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Watches `near0` and reports often.
const LINES: [&str; 6] = ["-i", "near0", "--output", "jsonl", "--interval", "50ms"];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn packets(report: &Value) -> u64 {
    number(&report["totals"]["packets"])
}

/// Both sums that hold in every report.
fn conserved(report: &Value) {
    let totals = &report["totals"];
    let sum = |values: &mut dyn Iterator<Item = &Value>| values.map(number).sum::<u64>();
    let skipped = sum(&mut totals["skipped"].as_object().unwrap().values());
    assert_eq!(packets(report), number(&totals["roce_packets"]) + skipped, "{totals}");
    let flows = sum(&mut report["flows"].as_array().unwrap().iter().map(|flow| &flow["packets"]));
    let lost = number(&totals["lost"]["flow_table_full"]) + number(&totals["lost"]["contended"]);
    let elsewhere = number(&totals["retired"]["packets"]) + lost;
    assert_eq!(number(&totals["roce_packets"]), flows + elsewhere, "{totals}");
}

/// Nothing of rocescope is attached any more; the kernel may need a moment after a kill.
fn nothing_is_attached(world: &World, link: &mut Link) {
    Hooks::until_gone(world, link).unwrap();
}

fn status(ended: &Ended) -> i32 {
    ended.status.code().unwrap_or_else(|| panic!("ended by a signal: {ended:?}"))
}

/// Runs `live` in the watched namespace and expects a failure with one sentence that contains all of `words`.
fn refused(world: &World, arguments: &[&str], words: &[&str]) {
    let how = Start { netns: Some(&world.near), ..Start::default() };
    let ended = Program::run(how, &[&["live"], arguments].concat()).unwrap();
    sentence(&ended, 1, words);
}

fn sentence(ended: &Ended, expected: i32, words: &[&str]) {
    assert_eq!(status(ended), expected, "{ended:?}");
    assert_eq!(ended.out, "", "{ended:?}");
    for word in words {
        assert!(ended.err.contains(word), "{word:?} is not in: {}", ended.err);
    }
    assert!(ended.err.starts_with("rocescope: ") || expected == 2, "{}", ended.err);
    assert!(!ended.err.contains("panicked") && !ended.err.contains("os error"), "{}", ended.err);
}

// ---------------------------------------------------------------------------------------------
// What is refused

#[test]
fn bad_usage_differs_from_failure() {
    for arguments in [
        &["live", "--hook", "kprobe"][..],
        &["live", "--interval", "0"],
        &["live", "--duration", "soon"],
        &["live", "--filter", "qp", "-i", "lo"],
        &["live", "--group", "alone"],
        &["live", "--max-flows", "0"],
        &["live", "surplus"],
        &["demo", "-i", "lo"],
    ] {
        let ended = Program::run(Start::default(), arguments).unwrap();
        assert_eq!(status(&ended), 2, "{arguments:?}: {ended:?}");
        assert!(!ended.err.is_empty() && ended.out.is_empty(), "{arguments:?}: {ended:?}");
    }
    // Without arguments it describes the host.
    for arguments in [&["--help"][..], &["live", "--help"], &["--version"], &[]] {
        let ended = Program::run(Start::default(), arguments).unwrap();
        assert_eq!((status(&ended), ended.err.as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn unknown_things_are_answered_with_what_there_is() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    world.link("near1", 1500).unwrap();
    refused(&world, &["-i", "eth7"], &["\"eth7\"", "near0 (veth)", "near1 (veth)"]);
    refused(&world, &["-i", "naer0"], &["\"naer0\"", "near0"]);
    refused(&world, &["-i", ""], &["near0 (veth)"]);
    refused(&world, &["-i", "a-name-longer-than-any-interface's"], &["near0 (veth)"]);
    refused(&world, &[], &["RDMA device", "-i", "near0 (veth)"]);
    refused(&world, &["-i", "near0", "--netns", "no-such-namespace"], &["\"no-such-namespace\""]);
    refused(&world, &["-i", "near0", "--netns", "4294967294"], &["process 4294967294"]);
    refused(&world, &["-i", "near0", "--netns", "/proc/self/ns/uts"], &["not a network namespace"]);
    refused(&world, &["-i", "near0", "--netns", "/no/such/file"], &["/no/such/file"]);
    refused(&world, &["-i", "near0", "--max-flows", "60000000"], &["--max-flows 60000000"]);
    nothing_is_attached(&world, &mut link);
}

#[test]
fn without_root_the_remedy_is_named() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let how = Start { netns: Some(&world.near), nobody: true, ..Start::default() };
    for arguments in [&["live", "-i", "near0"][..], &["live"]] {
        let ended = Program::run(how, arguments).unwrap();
        sentence(&ended, 1, &["root", "sudo", "CAP_NET_ADMIN", "CAP_BPF"]);
    }
    sentence(&Program::run(how, &["demo", "--output", "json"]).unwrap(), 1, &["root", "sudo"]);
    nothing_is_attached(&world, &mut link);
}

#[test]
fn interfaces_on_top_of_one_another_are_not_watched_together() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let other = world.link("near1", 1500).unwrap();
    let bridge = world.add("bridge", "br0", None).unwrap();
    world.enslave(other.index, bridge).unwrap();
    world.add("macvlan", "mv0", Some(link.index)).unwrap();
    world.add("vxlan", "vx0", Some(link.index)).unwrap();
    for (upper, lower) in [("br0", "near1"), ("mv0", "near0"), ("vx0", "near0")] {
        for pair in [["-i", upper, "-i", lower], ["-i", lower, "-i", upper]] {
            refused(&world, &pair, &[upper, lower, "cannot be watched together", "counted twice"]);
        }
    }
    nothing_is_attached(&world, &mut link);
    // Interfaces that are not stacked are accepted.
    let program = Program::live(&world.near, &["-i", "vx0", "-i", "near1", "--output", "json"]).unwrap();
    let ended = program.interrupt().unwrap();
    assert_eq!(status(&ended), 0, "{ended:?}");
    assert!(ended.err.contains("vx0 is down"), "{}", ended.err);
}

// ---------------------------------------------------------------------------------------------
// What is attached, and that it goes

#[test]
fn another_namespace_is_named_by_a_process_in_it() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let tenant = Tenant::of(&world.near).unwrap();
    let netns = tenant.id();
    let arguments = [&["live"], &LINES[..], &["--netns", &netns]].concat();
    let program = Program::watching(Start::default(), &arguments).unwrap();
    link.receive(&frames::sends(3, 5)).unwrap();
    program.reported(|report| packets(report) == 15).unwrap();
    assert_eq!(status(&program.interrupt().unwrap()), 0);
    nothing_is_attached(&world, &mut link);
}

#[test]
fn the_programs_of_others_stay() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let theirs = ForeignXdp::attach(&world, &link).unwrap();
    let before = Hooks::of(&world, &mut link).unwrap();
    assert!(before.xdp.is_some());
    for mode in ["auto", "native", "generic"] {
        let options = [&LINES[..], &["--hook", "xdp", "--xdp-mode", mode]].concat();
        let program = Program::live(&world.near, &options).unwrap();
        let during = Hooks::of(&world, &mut link).unwrap();
        assert_eq!((during.xdp, during.tc_ingress, during.tc_egress), (before.xdp, 1, 1), "{mode}");
        link.receive(&frames::sends(2, 4)).unwrap();
        program.reported(|report| packets(report) == 8).unwrap();
        let ended = program.interrupt().unwrap();
        assert_eq!(status(&ended), 0);
        for word in ["near0: TC ingress", "another XDP program", "which is kept"] {
            assert!(ended.err.contains(word), "{word}: {}", ended.err);
        }
        assert_eq!(Hooks::of(&world, &mut link).unwrap(), before, "{mode}");
    }
    drop(theirs);
    nothing_is_attached(&world, &mut link);
}

#[test]
fn every_end_leaves_nothing_attached() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    for hook in ["xdp", "tc"] {
        for signal in [Signal::INT, Signal::TERM] {
            for output in ["json", "text"] {
                let options = ["-i", "near0", "--hook", hook, "--output", output];
                let program = Program::live(&world.near, &options).unwrap();
                assert_ne!(Hooks::of(&world, &mut link).unwrap(), Hooks::default());
                link.receive(&frames::sends(2, 4)).unwrap();
                program.signal(signal).unwrap();
                let ended = program.end().unwrap();
                assert_eq!(status(&ended), 0, "{ended:?}");
                if output == "json" {
                    let report = ended.report().unwrap();
                    conserved(&report);
                    assert_eq!(report["schema"], "rocescope.report/1");
                } else {
                    assert!(ended.out.contains("10.8.0.2"), "{}", ended.out);
                }
                nothing_is_attached(&world, &mut link);
            }
        }
        let program = Program::live(&world.near, &["-i", "near0", "--hook", hook]).unwrap();
        program.signal(Signal::KILL).unwrap();
        assert_eq!(program.end().unwrap().status.code(), None);
        nothing_is_attached(&world, &mut link);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let how = Start { netns: Some(&world.near), closed_output: true, ..Start::default() };
    for output in ["jsonl", "json", "text"] {
        let options =
            ["live", "-i", "near0", "--output", output, "--interval", "50ms", "--duration", "300ms"];
        let ended = Program::run(how, &options).unwrap();
        assert_eq!(status(&ended), 0, "{output}: {ended:?}");
        assert_eq!(ended.err.trim(), "rocescope: near0: TC ingress and TC egress", "{output}");
        nothing_is_attached(&world, &mut link);
    }
    // Without --duration, only the closed pipe can end this one.
    let ended = Program::run(how, &[&["live"], &LINES[..]].concat()).unwrap();
    assert_eq!(status(&ended), 0, "{ended:?}");
    nothing_is_attached(&world, &mut link);
}

#[test]
fn promiscuous_mode_lasts_as_long_as_the_run() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    for (option, promiscuity) in [(None, 1), (Some("--no-promisc"), 0)] {
        let options: Vec<&str> = LINES.into_iter().chain(option).collect();
        let program = Program::live(&world.near, &options).unwrap();
        assert_eq!(Hooks::of(&world, &mut link).unwrap().promiscuity, promiscuity, "{option:?}");
        // To a MAC address that is not the interface's.
        link.receive(&frames::sends(1, 5)).unwrap();
        program.reported(|report| packets(report) == 5).unwrap();
        assert_eq!(status(&program.interrupt().unwrap()), 0);
        nothing_is_attached(&world, &mut link);
    }
}

// ---------------------------------------------------------------------------------------------
// While it runs

#[test]
fn the_rest_goes_on_when_an_interface_goes() {
    needs_root!();
    let (world, mut first) = World::with_link(1500).unwrap();
    let mut second = world.link("near1", 1500).unwrap();
    let options = [&LINES[..], &["-i", "near1"]].concat();
    let program = Program::live(&world.near, &options).unwrap();
    first.receive(&frames::sends(2, 5)).unwrap();
    program.reported(|report| packets(report) == 10).unwrap();
    world.delete(first.index).unwrap();
    program.wait_for_message(|text| text.contains("interface near0 was removed").then_some(())).unwrap();
    second.receive(&frames::sends(3, 5)).unwrap();
    let report = program.reported(|report| packets(report) == 25).unwrap();
    conserved(&report);
    let ingress: Vec<_> =
        report["links"].as_array().unwrap().iter().filter(|l| l["direction"] == "ingress").collect();
    let counted: Vec<_> =
        ingress.iter().map(|link| (link["name"].as_str().unwrap(), number(&link["packets"]))).collect();
    assert_eq!(counted, [("near0", 10), ("near1", 15)]);

    // With the last interface the run fails, but still reports.
    world.delete(second.index).unwrap();
    let ended = program.end().unwrap();
    assert_eq!(status(&ended), 1, "{ended:?}");
    assert!(ended.err.contains("all watched interfaces were removed"), "{}", ended.err);
    assert_eq!(packets(ended.lines().unwrap().last().unwrap()), 25);
}

#[test]
fn each_line_of_jsonl_is_a_whole_report_and_counts_on() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let options = ["-i", "near0", "--output", "jsonl", "--interval", "100ms", "--duration", "1s"];
    let program = Program::live(&world.near, &options).unwrap();
    let start = Instant::now();
    let mut sent = 0;
    for psn in 0..20 {
        let one_each: Vec<_> = (0..7).map(|qp| frames::send(qp, psn)).collect();
        sent += link.receive(&one_each).unwrap().frames;
        let counted = program.reported(|report| packets(report) >= sent).unwrap();
        assert_eq!(packets(&counted), sent);
        if start.elapsed() > Duration::from_millis(700) {
            break;
        }
    }
    let ended = program.end().unwrap();
    assert_eq!(status(&ended), 0, "{ended:?}");
    let lines = ended.lines().unwrap();
    // Ten and the last one on an otherwise idle machine.
    assert!((3..=12).contains(&lines.len()), "{} lines", lines.len());
    let (mut before, mut time) = (0, 0);
    for line in &lines {
        conserved(line);
        let (now, last) = (packets(line), number(&line["window"]["last_ns"]));
        assert!(now >= before && last > time, "{now} after {before}, {last} after {time}");
        // Two clocks are compared for each report, since either may be set meanwhile.
        let moved = number(&line["window"]["first_ns"]).abs_diff(number(&lines[0]["window"]["first_ns"]));
        assert!(moved < 1_000_000, "the start moved by {moved} ns");
        (before, time) = (now, last);
    }
    assert_eq!(before, sent);
    let flows = lines.last().unwrap()["flows"].as_array().unwrap().clone();
    assert!(
        flows.iter().all(|flow| flow["psn"]["gaps"] == 0 && number(&flow["packets"]) == sent / 7),
        "{flows:?}"
    );
    nothing_is_attached(&world, &mut link);
}

#[test]
fn two_interfaces_share_a_load() {
    needs_root!();
    let (world, mut first) = World::with_link(1500).unwrap();
    let mut second = world.link("near1", 1500).unwrap();
    let mut third = world.link("near2", 1500).unwrap();
    let all = [&LINES[..], &["-i", "near1", "-i", "near2"]].concat();
    for (group, names) in
        [(None, &["near0", "near1", "near2"][..]), (Some("near0,near2"), &["near0", "near2"])]
    {
        let options: Vec<&str> =
            all.iter().copied().chain(group.into_iter().flat_map(|g| ["--group", g])).collect();
        let program = Program::live(&world.near, &options).unwrap();
        first.receive(&frames::sends(1, 30)).unwrap();
        second.receive(&frames::sends(1, 10)).unwrap();
        third.receive(&frames::sends(1, 10)).unwrap();
        program.reported(|report| packets(report) == 50).unwrap();
        let ended = program.interrupt().unwrap();
        let report = ended.lines().unwrap().pop().unwrap();
        let imbalance = report["imbalance"].as_array().unwrap();
        let wanted = |entry: &&Value| entry["direction"] == "ingress" && entry["links"] == json!(names);
        let ingress = imbalance.iter().find(wanted).unwrap_or_else(|| panic!("{group:?}: {imbalance:?}"));
        let shares: Vec<f64> = names.iter().map(|name| if *name == "near0" { 30.0 } else { 10.0 }).collect();
        let (count, sum) = (shares.len() as f64, shares.iter().sum::<f64>());
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let close = |value: &Value, expected: f64| {
            assert!(
                (value.as_f64().unwrap() - expected).abs() < 1e-9,
                "{value} is not {expected}: {ingress}"
            );
        };
        close(&ingress["max_over_mean"], 30.0 * count / sum);
        close(&ingress["jain"], sum * sum / (count * squares));
        // Nothing was sent, so nothing can be unbalanced.
        let egress = imbalance.iter().find(|entry| entry["direction"] == "egress");
        assert!(
            egress.is_none_or(|entry| entry["max_over_mean"].is_null() && entry["jain"].is_null()),
            "{egress:?}"
        );
    }
}

#[test]
fn an_unknown_group_is_named() {
    needs_root!();
    let (world, _link) = World::with_link(1500).unwrap();
    let how = Start { netns: Some(&world.near), ..Start::default() };
    let options =
        ["live", "-i", "near0", "--group", "near0,rail9", "--duration", "100ms", "--output", "json"];
    let ended = Program::run(how, &options).unwrap();
    assert_eq!(status(&ended), 0);
    assert!(ended.err.contains("unknown link 'rail9'"), "{}", ended.err);
}

#[test]
fn idle_flows_retire_and_their_sums_stay() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let options = [&LINES[..], &["--idle", "300ms"]].concat();
    let program = Program::live(&world.near, &options).unwrap();
    let frames = frames::sends(6, 4);
    link.receive(&frames).unwrap();
    program.reported(|report| packets(report) == 24).unwrap();
    let report = program.reported(|report| number(&report["totals"]["retired"]["flows"]) == 6).unwrap();
    let retired = ["packets", "bytes", "lost"].map(|name| number(&report["totals"]["retired"][name]));
    assert_eq!(retired, [24, frames.iter().map(Vec::len).sum::<usize>() as u64, 0]);
    assert_eq!(report["flows"], json!([]));
    assert_eq!(report["entropy"]["five_tuples"], 1, "retired flows count");
    conserved(&report);
    // A returning flow starts again: its first packet is not a gap.
    link.receive(&[frames::send(0x100, 77)]).unwrap();
    let report = program.reported(|report| packets(report) == 25).unwrap();
    conserved(&report);
    let ended = program.interrupt().unwrap();
    let report = ended.lines().unwrap().pop().unwrap();
    conserved(&report);
    assert_eq!((packets(&report), number(&report["totals"]["lost"]["flow_table_full"])), (25, 0));
    for flow in report["flows"].as_array().unwrap() {
        assert_eq!((&flow["psn"]["first"], &flow["psn"]["gaps"]), (&json!(77), &json!(0)), "{flow}");
    }
}

#[test]
fn a_full_table_loses_no_count() {
    needs_root!();
    for hook in ["xdp", "tc"] {
        let (world, mut link) = World::with_link(1500).unwrap();
        let options = [&LINES[..], &["--max-flows", "4", "--hook", hook, "--log"]].concat();
        let program = Program::live(&world.near, &options).unwrap();
        link.receive(&frames::sends(8, 3)).unwrap();
        let report = program.reported(|report| packets(report) == 24).unwrap();
        conserved(&report);
        assert_eq!(report["totals"]["roce_packets"], 24);
        assert_eq!(report["totals"]["lost"]["flow_table_full"], 12, "{}", report["totals"]);
        assert_eq!(report["flows"].as_array().unwrap().len(), 4);
        // Diagnostics of the programs are printed during the run.
        program.wait_for_message(|text| text.contains("kernel: flow table full").then_some(())).unwrap();
        let ended = program.interrupt().unwrap();
        assert_eq!(status(&ended), 0);
        conserved(&ended.lines().unwrap().pop().unwrap());
    }
}

#[test]
fn what_the_filter_leaves_out_is_counted_as_such() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    for (filter, shown) in
        [("qp 0x101", 1), ("not qp 0x101", 3), ("host 10.8.0.0/24", 4), ("src 192.0.2.1", 0)]
    {
        let options = [&LINES[..], &["--filter", filter]].concat();
        let program = Program::live(&world.near, &options).unwrap();
        link.receive(&frames::sends(4, 5)).unwrap();
        let report = program.reported(|report| packets(report) == 20).unwrap();
        conserved(&report);
        assert_eq!(report["flows"].as_array().unwrap().len(), shown, "{filter}");
        let filtered = number(&report["totals"]["skipped"]["filtered"]);
        assert_eq!(filtered, 5 * (4 - shown as u64), "{filter}: {}", report["totals"]);
        assert_eq!(status(&program.interrupt().unwrap()), 0);
    }
}

#[test]
fn idle_flows_that_the_filter_excludes_stay_filtered() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let options = [&LINES[..], &["--idle", "300ms", "--filter", "qp 0x101"]].concat();
    let program = Program::live(&world.near, &options).unwrap();
    link.receive(&frames::sends(4, 5)).unwrap();
    program.reported(|report| packets(report) == 20).unwrap();
    let report = program.reported(|report| number(&report["totals"]["retired"]["flows"]) > 0).unwrap();
    conserved(&report);
    let totals = &report["totals"];
    let filtered = &totals["skipped"]["filtered"];
    assert_eq!((&totals["roce_packets"], filtered), (&json!(5), &json!(15)), "{totals}");
    assert_eq!((&totals["retired"]["flows"], &totals["retired"]["packets"]), (&json!(1), &json!(5)));
    let links = report["links"].as_array().unwrap();
    assert_eq!(links.iter().map(|link| number(&link["packets"])).sum::<u64>(), 5, "{links:?}");
    assert_eq!(status(&program.interrupt().unwrap()), 0);
}

#[test]
fn tcp_of_others_keeps_its_segmentation_offload() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    tcp::prepare(&world, &link).unwrap();
    let rate = |sent: &tcp::Stream| sent.bytes as f64 / sent.time.as_secs_f64();
    let without = tcp::stream(&world, &mut link, 16 << 20).unwrap();
    assert!(without.bytes / without.packets > 1500, "without rocescope: {without:?}");
    for (hook, keeps) in [(None, true), (Some("auto"), true), (Some("tc"), true), (Some("xdp"), false)] {
        let options: Vec<&str> =
            LINES.into_iter().chain(hook.into_iter().flat_map(|h| ["--hook", h])).collect();
        let program = Program::live(&world.near, &options).unwrap();
        let sent = tcp::stream(&world, &mut link, 16 << 20).unwrap();
        let ended = program.interrupt().unwrap();
        assert_eq!(status(&ended), 0);
        println!("--hook {}: {:.2} × the rate without", hook.unwrap_or("-"), rate(&sent) / rate(&without));
        // Larger on average than a packet of the link: segments were merged on receipt, if at all.
        assert_eq!(sent.bytes / sent.packets > 1500, keeps, "{hook:?}: {sent:?}");
        assert_eq!(ended.err.contains("turns off segmentation offload"), !keeps, "{hook:?}: {}", ended.err);
    }
}

#[test]
fn an_interface_without_a_link_layer_is_parsed_from_its_ip_header() {
    needs_root!();
    let world = World::new().unwrap();
    // The hardware types of tun and WireGuard (none), of ipip, ip6tnl and sit.
    for (hook, name, hardware) in [
        ("auto", "tun0", None),
        ("xdp", "tun1", None),
        ("auto", "wg0", Some(libc::ARPHRD_NONE)),
        ("auto", "ipip0", Some(libc::ARPHRD_TUNNEL)),
        ("auto", "ip6tnl0", Some(libc::ARPHRD_TUNNEL6)),
        ("auto", "sit0", Some(libc::ARPHRD_SIT)),
    ] {
        let mut tun = world.tun(name, [10, 8, 0, 1].into(), hardware).unwrap();
        let options = ["-i", name, "--hook", hook, "--output", "jsonl", "--interval", "50ms"];
        let program = Program::live(&world.near, &options).unwrap();
        // Without their Ethernet headers.
        for frame in frames::sends(5, 100) {
            tun.write_all(&frame[14..]).unwrap();
        }
        let transport = &frames::send(0x77, 5)[14 + 20 + 8..];
        let socket = world.near.run(|| std::net::UdpSocket::bind("10.8.0.1:49152")).unwrap().unwrap();
        for _ in 0..7 {
            socket.send_to(transport, "10.8.0.2:4791").unwrap();
        }
        let report = program.reported(|report| number(&report["totals"]["roce_packets"]) == 507).unwrap();
        conserved(&report);
        let flows = report["flows"].as_array().unwrap();
        let of = |direction: &str| -> Vec<&Value> {
            flows.iter().filter(|flow| flow["direction"] == direction).collect()
        };
        assert_eq!((of("ingress").len(), of("egress").len()), (5, 1), "{flows:?}");
        assert!(flows.iter().all(|flow| flow["vlan"].is_null() && flow["psn"]["gaps"] == 0), "{flows:?}");
        assert_eq!(status(&program.interrupt().unwrap()), 0);
    }
    // PPP has its own link header.
    let _ppp = world.tun("ppp0", [10, 9, 0, 1].into(), Some(512)).unwrap();
    refused(&world, &["-i", "ppp0"], &["ppp0", "neither Ethernet nor IP", "hardware type 512"]);
}

#[test]
fn packets_in_tunnels_that_only_a_replay_decodes_are_reported() {
    const GENEVE: [u8; 8] = [0, 0, 0x65, 0x58, 0, 0, 42, 0];
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let program = Program::live(&world.near, &LINES).unwrap();
    let inside = craft::ethernet(0x0800, &Roce::default().ipv4());
    let frames = vec![craft::tunnelled(6081, &GENEVE, &inside); 30];
    link.receive(&frames).unwrap();
    let report =
        program.reported(|report| number(&report["totals"]["skipped"]["tunnel_unparsed"]) == 30).unwrap();
    conserved(&report);
    let ended = program.interrupt().unwrap();
    assert_eq!(status(&ended), 0);
    assert_eq!(
        ended.err.matches("packets are inside tunnels that live does not decode").count(),
        1,
        "{}",
        ended.err
    );
    assert!(ended.err.contains("rocescope replay"), "{}", ended.err);
}

#[test]
fn a_links_mtu_is_that_of_now() {
    needs_root!();
    let (world, link) = World::with_link(1500).unwrap();
    let program = Program::live(&world.near, &[&LINES[..], &["--hook", "tc"]].concat()).unwrap();
    program.reported(|report| report["links"][0]["mtu"] == 1500).unwrap();
    world.shrink(&link, 1400).unwrap();
    program.reported(|report| report["links"][0]["mtu"] == 1400).unwrap();
    assert_eq!(status(&program.interrupt().unwrap()), 0);
}
