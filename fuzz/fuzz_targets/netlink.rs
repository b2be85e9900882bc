//! Any bytes as netlink responses of the kernel: datagrams, and the payload of each kind of response.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::host::net::dcb::{self, Dcb};
use rocescope::host::net::drops::RxDrops;
use rocescope::host::net::filters::Filter;
use rocescope::host::net::interface::Interface;
use rocescope::host::netlink::{Attrs, LinkHeader, Request, answers};
use rocescope::host::rdma::device;
use rocescope::host::rdma::nldev::{self, Query};
use rocescope_fuzz::seeds;

const SEQUENCE: u32 = 7;

/// Responses built like requests, whose format is the same: header, then attributes.
fn made() -> Vec<Vec<u8>> {
    let link = LinkHeader { hardware: 1, index: 7, flags: 2, change: 3 }.bytes();
    let qp = |r: Request| r.attr_u32(21, 17).attr_u32(22, 18).attr(26, &[2]).attr(27, &[3]).attr_u32(28, 1);
    let counter = |r: Request| r.attr_text(82, "rx_write").attr(83, &7u64.to_ne_bytes()).attr(95, &[1]);
    let all = [
        Request::new(16, 0, &link)
            .attr_text(3, "eth2")
            .attr_u32(4, 1500)
            .nest(18, |r| r.attr_text(1, "vlan").nest(2, |r| r.attr_u32(1, 5)))
            .attr(libc_stats64(), &[1; 200]),
        Request::new(0x1401, 0, &[])
            .attr_u32(1, 0)
            .attr_text(2, "mlx5_0")
            .attr_text(5, "28.1")
            .attr_text(67, "roce"),
        Request::new(0x140a, 0, &[]).attr_text(2, "mlx5_0").nest(19, |r| r.nest(20, qp).nest(20, qp)),
        Request::new(0x1411, 0, &[]).attr_text(2, "mlx5_0").nest(80, |r| r.nest(81, counter)),
        Request::new(0x1411, 0, &[]).attr_text(2, "mlx5_0").nest(77, |r| {
            r.nest(78, |r| r.attr_u32(79, 1).nest(19, |r| r.nest(20, qp)).nest(80, |r| r.nest(81, counter)))
        }),
        Request::new(0x1413, 0, &[]).attr(85, &[5; 64]),
        Request::new(78, 0, &[0, 21, 0, 0]).attr_text(1, "eth2").attr(14, &[5]).nest(13, |r| {
            r.attr(2, &[8; 136]).attr(1, &[1; 59]).nest(3, |r| r.attr(7, &[5, 3, 26, 0])).attr(10, &[1; 44])
        }),
        Request::new(16, 0, &[1, 2, 0, 0]).attr(1, &22u16.to_ne_bytes()),
        Request::new(44, 0, &[0; 20])
            .attr_text(1, "bpf")
            .nest(2, |r| r.attr_text(7, "rocescope").attr_u32(11, 3)),
        Request::new(2, 0, &(-22i32).to_ne_bytes()),
    ];
    let mut datagrams: Vec<Vec<u8>> = all.map(|request| request.finish(SEQUENCE)).to_vec();
    datagrams.push(datagrams.concat());
    datagrams
}

/// `IFLA_STATS64`.
const fn libc_stats64() -> u16 {
    23
}

/// All parsers of the payload of a response.
fn read(payload: &[u8]) {
    let attrs = Attrs::new(payload);
    let whole: usize = attrs.iter().map(|(_, value)| value.len() + 4).sum();
    assert!(whole <= payload.len(), "attributes are longer than their message");
    for (kind, value) in attrs.iter() {
        assert!(attrs.get(kind).is_some_and(|first| first.len() == value.len() || first != value));
    }
    let _device = nldev::Device::parse(payload);
    for qp in nldev::queue_pairs(payload) {
        // Values that the kernel reports before they are known must be unknown, not 0.
        assert!(qp.rqpn != Some(0) && qp.pid != Some(0));
    }
    let (_counters, _optional) = (nldev::counters(payload), nldev::optional_counters(payload));
    let _mode = nldev::binding_mode(payload);
    let _qp_counters = nldev::qp_counters(payload);
    assert!(nldev::qp_context(payload).is_none_or(|context| context.len() <= payload.len()));
    if let Some(dcb) = Dcb::parse(payload) {
        for dscp in 0..64 {
            assert!(dcb.priority_of_dscp(dscp).is_none() || dcb.maps_dscp());
        }
    }
    let _interface = Interface::parse(payload);
    if let Some(drops) = RxDrops::parse(payload) {
        assert_eq!(drops.since(drops), Some(RxDrops::default()));
    }
    let _filter = Filter::parse(payload).map(|filter| filter.is_ours());
    let (_family, _is_on) = (device::family(payload), device::is_on(payload));
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    let _queries = (Query::Devices.kind(), dcb::request("eth2"));
    let (mut interrupted, mut total) = (false, 0);
    let end = answers("ask", SEQUENCE, input, &mut interrupted, &mut |_, payload| {
        total += payload.len();
        read(payload);
    });
    assert!(total <= input.len());
    if let Some(Err(error)) = end {
        assert!(error.to_string().contains("ask"));
    }
    read(input);
});
