//! Differences of kernels before 6.6, on which TC programs attach as filters of a clsact queueing discipline, which
//! outlive their process. `cargo xtask test --vm` runs these tests on such a kernel; elsewhere they are ignored.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::Path;
use std::time::{Duration, Instant};

use rocescope::host::kernel::{KernelFacts, KernelVersion};
use rocescope::host::net::filters::{self, Filter};
use rocescope::host::net::hook::{FRAGS_SINCE, TCX_SINCE};
use rocescope::host::net::interface;
use rocescope::host::net::netns::NetNs;
use rocescope::host::net::veth;
use rocescope::host::netlink::{Attrs, LinkHeader, Request, RouteSocket, TcHeader};
use rocescope_tests::live::frames;
use rocescope_tests::live::program::{Ended, Program};
use rocescope_tests::live::wire::{Link, World};
use rustix::process::Signal;
use serde_json::{Value, json};

const WHY: &str = "for kernels before 6.6: `cargo xtask test --vm`";
const LINES: [&str; 6] = ["-i", "near0", "--output", "jsonl", "--interval", "100ms"];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn packets(report: &Value) -> u64 {
    number(&report["totals"]["packets"])
}

/// Asserts that this is such a kernel; returns its version.
fn on_an_old_kernel() -> KernelVersion {
    let facts = KernelFacts::read(Path::new("/"));
    let version = facts.version.unwrap();
    assert!(version < TCX_SINCE, "{facts:?}: {WHY}");
    version
}

/// The filters on an interface of the watched namespace.
fn filters(world: &World, index: u32) -> Vec<Filter> {
    world.near.run(|| filters::list(index)).unwrap().unwrap()
}

/// True if an interface has a clsact queueing discipline.
fn has_clsact(netns: &NetNs, index: u32) -> bool {
    let dump = netns.run(|| {
        let header = TcHeader { index, ..TcHeader::default() };
        let request = Request::new(libc::RTM_GETQDISC, 0, &header.bytes());
        RouteSocket::open().unwrap().dump("list queueing disciplines", libc::RTM_NEWQDISC, &request).unwrap()
    });
    dump.unwrap().iter().any(|payload| {
        TcHeader::parse(payload).unwrap().index == index
            && Attrs::after(payload, TcHeader::LEN).text(libc::TCA_KIND).as_deref() == Some("clsact")
    })
}

fn add_clsact(world: &World, index: u32) {
    let create = u16::try_from(libc::NLM_F_CREATE | libc::NLM_F_EXCL).unwrap();
    let header = TcHeader { index, handle: 0xffff_0000, parent: 0xffff_fff1, info: 0 };
    let request =
        Request::new(libc::RTM_NEWQDISC, create, &header.bytes()).attr_text(libc::TCA_KIND, "clsact");
    let added = world.near.run(|| RouteSocket::open().unwrap().request("add a clsact", request));
    added.unwrap().unwrap();
}

/// rocescope's programs loaded in the kernel.
fn loaded() -> Vec<String> {
    let all = aya::programs::loaded_programs().map(Result::unwrap);
    all.filter_map(|program| program.name_as_str().map(str::to_owned))
        .filter(|name| name.starts_with(filters::NAME_PREFIX))
        .collect()
}

/// Nothing of rocescope is left: no filter, queueing discipline, XDP program, loaded program or promiscuous mode. The
/// kernel frees programs a moment after their last user has ended.
fn nothing_is_left(world: &World, link: &mut Link) {
    assert_eq!(filters(world, link.index), []);
    assert!(!has_clsact(&world.near, link.index), "an empty clsact is left");
    assert_eq!(world.near.run(|| interface::get(link.index)).unwrap().unwrap().xdp, None);
    assert_eq!(link.near_counted().unwrap().promiscuity, 0);
    let late = Instant::now() + Duration::from_secs(10);
    while !loaded().is_empty() {
        assert!(Instant::now() < late, "still loaded: {:?}", loaded());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The last report of a successful run, with the two sums that hold in every report.
fn last_report(ended: &Ended) -> Value {
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let report = ended.lines().unwrap().pop().unwrap();
    let totals = &report["totals"];
    let skipped: u64 = totals["skipped"].as_object().unwrap().values().map(number).sum();
    assert_eq!(packets(&report), number(&totals["roce_packets"]) + skipped, "{totals}");
    let flows: u64 = report["flows"].as_array().unwrap().iter().map(|flow| number(&flow["packets"])).sum();
    let lost = number(&totals["lost"]["flow_table_full"]) + number(&totals["lost"]["contended"]);
    let elsewhere = number(&totals["retired"]["packets"]) + lost;
    assert_eq!(number(&totals["roce_packets"]), flows + elsewhere, "{totals}");
    report
}

/// Flows of one link and direction.
fn flows<'a>(report: &'a Value, direction: &str) -> Vec<&'a Value> {
    report["flows"].as_array().unwrap().iter().filter(|flow| flow["direction"] == direction).collect()
}

#[test]
#[ignore = "for kernels before 6.6"]
fn filters_count_and_go_with_their_run() {
    on_an_old_kernel();
    let sends = frames::sends(4, 10);
    for hook in ["tc", "xdp"] {
        let (world, mut link) = World::with_link(1500).unwrap();
        let program = Program::live(&world.near, &[&LINES[..], &["--hook", hook]].concat()).unwrap();
        let attached = filters(&world, link.index);
        let names: Vec<_> = attached.iter().map(|filter| filter.name.as_deref().unwrap()).collect();
        let ours = ["rocescope_tc_ingress", "rocescope_tc_egress"];
        assert_eq!(names, if hook == "tc" { &ours[..] } else { &ours[1..] });
        assert!(
            attached.iter().all(|filter| filter.is_ours() && filter.handle == program.id()),
            "{attached:?}"
        );
        assert_eq!(attached.iter().filter(|filter| filter.ingress).count(), names.len() - 1);
        link.receive(&sends).unwrap();
        link.transmit(&sends).unwrap();
        program.reported(|report| packets(report) == 80).unwrap();
        let report = last_report(&program.interrupt().unwrap());
        for direction in ["ingress", "egress"] {
            let flows = flows(&report, direction);
            assert_eq!(flows.len(), 4, "{direction}");
            assert!(flows.iter().all(|flow| flow["packets"] == 10 && flow["psn"]["gaps"] == 0), "{flows:?}");
        }
        nothing_is_left(&world, &mut link);
    }
}

#[test]
#[ignore = "for kernels before 6.6"]
fn what_a_killed_run_left_goes_with_the_next() {
    on_an_old_kernel();
    let (world, mut link) = World::with_link(1500).unwrap();
    let options = [&LINES[..], &["--hook", "tc"]].concat();
    let killed = Program::live(&world.near, &options).unwrap();
    killed.signal(Signal::KILL).unwrap();
    let handle = killed.id();
    assert_eq!(killed.end().unwrap().status.code(), None);
    let left = filters(&world, link.index);
    assert_eq!(
        left.len(),
        2,
        "filters must outlive a kill on this kernel, or the test proves nothing: {left:?}"
    );
    assert!(left.iter().all(|filter| filter.is_ours() && filter.handle == handle), "{left:?}");

    let next = Program::live(&world.near, &options).unwrap();
    let handles: Vec<u32> = filters(&world, link.index).iter().map(|filter| filter.handle).collect();
    assert_eq!(handles, [next.id(), next.id()]);
    link.receive(&frames::sends(2, 5)).unwrap();
    next.reported(|report| packets(report) == 10).unwrap();
    last_report(&next.interrupt().unwrap());
    nothing_is_left(&world, &mut link);
}

#[test]
#[ignore = "for kernels before 6.6"]
fn runs_beside_one_another_leave_each_other_alone() {
    on_an_old_kernel();
    let (world, mut link) = World::with_link(1500).unwrap();
    let options = [&LINES[..], &["--hook", "tc"]].concat();
    let first = Program::live(&world.near, &options).unwrap();
    let second = Program::live(&world.near, &options).unwrap();
    assert_eq!(filters(&world, link.index).len(), 4);
    link.receive(&frames::sends(2, 5)).unwrap();
    for program in [&first, &second] {
        program.reported(|report| packets(report) == 10).unwrap();
    }
    last_report(&first.interrupt().unwrap());
    let handles: Vec<u32> = filters(&world, link.index).iter().map(|filter| filter.handle).collect();
    assert_eq!(handles, [second.id(), second.id()]);
    link.receive(&frames::sends(2, 5)).unwrap();
    second.reported(|report| packets(report) == 20).unwrap();
    last_report(&second.interrupt().unwrap());
    nothing_is_left(&world, &mut link);
}

#[test]
#[ignore = "for kernels before 6.6"]
fn the_queueing_discipline_of_others_stays() {
    on_an_old_kernel();
    let (world, link) = World::with_link(1500).unwrap();
    add_clsact(&world, link.index);
    let program = Program::live(&world.near, &[&LINES[..], &["--hook", "tc"]].concat()).unwrap();
    assert_eq!(filters(&world, link.index).len(), 2);
    last_report(&program.interrupt().unwrap());
    assert_eq!(filters(&world, link.index), []);
    assert!(has_clsact(&world.near, link.index));
}

/// Adds a VLAN 100 interface on top of another, and sets it up.
fn add_vlan(netns: &NetNs, lower: u32, name: &str) -> u32 {
    const VLAN_ID: u16 = 1; // IFLA_VLAN_ID
    let create = u16::try_from(libc::NLM_F_CREATE | libc::NLM_F_EXCL).unwrap();
    let request = Request::new(libc::RTM_NEWLINK, create, &LinkHeader::default().bytes())
        .attr_text(libc::IFLA_IFNAME, name)
        .attr_u32(libc::IFLA_LINK, lower)
        .nest(libc::IFLA_LINKINFO, |info| {
            info.attr_text(libc::IFLA_INFO_KIND, "vlan")
                .nest(libc::IFLA_INFO_DATA, |data| data.attr(VLAN_ID, &100u16.to_ne_bytes()))
        });
    let made = netns.run(|| {
        RouteSocket::open().unwrap().request("make a VLAN", request).unwrap();
        let index = veth::index_of(name).unwrap();
        veth::set_up(index).unwrap();
        index
    });
    made.unwrap()
}

/// On a VLAN interface the tag is metadata of the packet, not part of it.
#[test]
#[ignore = "for kernels before 6.6"]
fn a_tag_beside_the_packet_is_seen_by_tc_and_not_by_xdp() {
    on_an_old_kernel();
    let sends = frames::sends(1, 10);
    let length = sends[0].len() as u64;
    for (hook, ingress_vlan, ingress_bytes) in
        [("tc", json!(100), 10 * (length + 4)), ("xdp", Value::Null, 10 * length)]
    {
        let (world, mut link) = World::with_link(1500).unwrap();
        let near = add_vlan(&world.near, link.index, "near0.100");
        let peer = world.far.run(|| veth::index_of("peer-near0")).unwrap().unwrap();
        let far = add_vlan(&world.far, peer, "far.100");
        let program = Program::live(&world.near, &[&LINES[..], &["--hook", hook]].concat()).unwrap();
        // Sends from the VLAN interfaces rather than those below.
        let port = |netns: &NetNs, index| {
            netns.run(|| rocescope::source::demo::play::Port::open(index)).unwrap().unwrap()
        };
        let (near_port, far_port) = (port(&world.near, near), port(&world.far, far));
        for frame in &sends {
            near_port.send(frame).unwrap();
            far_port.send(frame).unwrap();
        }
        program.reported(|report| number(&report["totals"]["roce_packets"]) == 20).unwrap();
        let report = last_report(&program.interrupt().unwrap());
        let (arrived, left) = (flows(&report, "ingress"), flows(&report, "egress"));
        assert_eq!((arrived.len(), left.len()), (1, 1));
        let of = |flow: &Value| (flow["vlan"].clone(), number(&flow["packets"]), number(&flow["bytes"]));
        assert_eq!(of(arrived[0]), (ingress_vlan, 10, ingress_bytes), "{hook}");
        assert_eq!(of(left[0]), (json!(100), 10, 10 * (length + 4)), "{hook}");
        nothing_is_left(&world, &mut link);

        // On the VLAN interface itself the tag has been removed.
        let options = ["-i", "near0.100", "--output", "jsonl", "--interval", "100ms", "--hook", "tc"];
        let program = Program::live(&world.near, &options).unwrap();
        for frame in &sends {
            far_port.send(frame).unwrap();
        }
        program.reported(|report| number(&report["totals"]["roce_packets"]) == 10).unwrap();
        let report = last_report(&program.interrupt().unwrap());
        assert_eq!(of(flows(&report, "ingress")[0]), (json!(0), 10, 10 * length));
        link.near_counted().unwrap();
    }
}

/// Frames longer than a page reach native XDP in several buffers on these kernels as well; before 5.18, TC is used
/// instead.
#[test]
#[ignore = "for kernels before 6.6"]
fn jumbo_frames_are_counted_whole() {
    let has_native = on_an_old_kernel() >= FRAGS_SINCE;
    let frames = frames::whole(9000).unwrap();
    let total: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
    assert!(frames.iter().any(|frame| frame.len() > 4096));
    for hook in [&["--hook", "xdp", "--xdp-mode", "native"][..], &["--hook", "tc"]] {
        let (world, mut link) = World::with_link(9000).unwrap();
        let program = Program::live(&world.near, &[&LINES[..], hook].concat()).unwrap();
        let sent = link.receive(&frames).unwrap();
        assert_eq!(sent.dropped, 0);
        program.reported(|report| packets(report) == sent.frames).unwrap();
        let ended = program.interrupt().unwrap();
        let report = last_report(&ended);
        let attached =
            if hook.contains(&"tc") || !has_native { "near0: TC ingress" } else { "near0: native XDP" };
        assert!(ended.err.contains(attached), "{}", ended.err);
        assert_eq!(number(&report["totals"]["bytes"]), total, "{hook:?}");
        nothing_is_left(&world, &mut link);
    }
}
