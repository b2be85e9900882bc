//! The layers of each frame, as tshark sees them.
//!
//! The captures in `data/encap` are real tunnels and mirrors. The paths below say how deep a parser
//! must get in each of them; `replay_vs_tshark` shows that RoCE inside such layers is found.

use rocescope_tests::oracle::{captures, layers, tshark};

/// Capture, the most frequent path in it, and how many frames have that path.
const EXPECTED: [(&str, &str, usize); 33] = [
    ("arkime_gre-erspan-vxlan.pcap", "eth:ip:gre:erspan:eth:ip:udp:vxlan:eth:ip", 7),
    ("arkime_gre-erspan.pcap", "eth:ip:gre:erspan:eth:ip", 4),
    ("arkime_mpls-basic.pcap", "eth:ip", 23),
    ("tcpdump_802.1ad_QinQ.pcap", "eth:vlan:vlan", 2),
    ("tcpdump_dcb_pfc.pcap", "eth", 4),
    ("tcpdump_erspan-type-i-1.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 2),
    ("tcpdump_erspan-type-i-2.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 2),
    ("tcpdump_erspan-type-i-3.pcap", "eth:ip:gre:erspan:eth:vlan", 1),
    ("tcpdump_erspan-type-i-4.pcap", "eth:ip:gre:erspan:eth:ip", 80),
    ("tcpdump_erspan-type-ii-1.pcap", "eth:ip:gre:erspan:eth:ip", 1),
    ("tcpdump_erspan-type-ii-2.pcap", "eth:ip:gre:erspan:eth:ip:udp", 16),
    ("tcpdump_erspan-type-ii-3.pcap", "eth:ip:gre:erspan:eth", 70),
    ("tcpdump_erspan-type-iii-ft-0.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 9),
    ("tcpdump_erspan-type-iii-ft-7.pcap", "eth:ip:gre:erspan", 58),
    ("tcpdump_erspan-type-iii-pb-1.pcap", "raw:ipv6:gre:erspan", 1),
    ("tcpdump_geneve-gcp.pcap", "eth:ip:udp:geneve:ip", 1),
    ("tcpdump_geneve.pcap", "eth:ip:udp:geneve:eth:ip", 39),
    ("tcpdump_gre-heapoverflow-1.pcap", "eth:ip", 1),
    ("tcpdump_mpls-label-heapoverflow.pcap", "eth:mpls", 1),
    ("tcpdump_mpls-over-udp.pcap", "eth:ip:udp:mpls:ip", 2),
    ("tcpdump_nsh-over-vxlan-gpe.pcap", "eth:ip:udp", 1),
    ("tcpdump_various_gre.pcap", "eth", 49),
    ("tcpdump_vxlan.pcap", "eth:ip:udp:vxlan:eth:ip", 8),
    ("xdp2_QinQ.pcap", "eth:vlan:vlan", 2),
    ("xdp2_gre-within-gre.pcap", "eth:ip:gre:ip:gre:ip", 624),
    ("xdp2_ipip.pcap", "eth:ip:ip", 10),
    ("xdp2_ipv4frags.pcap", "eth:ip", 3),
    ("xdp2_ipv6-udp-fragmented.pcap", "eth:ipv6:udp", 3),
    ("xdp2_vxlan.pcap", "eth:ip:udp:vxlan:eth:ip", 8),
    ("zeek_erspan.pcap", "eth:ip:gre:eth:ip", 190),
    ("zeek_erspanII.pcap", "eth:ip:gre:erspan:eth:ip", 4),
    ("zeek_erspanIII.pcap", "eth:ip:gre:erspan:eth:ip", 2),
    ("zeek_gre-erspan3-dot1q.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 2),
];

/// Paths of all frames of a capture.
fn paths(name: &str) -> Vec<String> {
    let rows = tshark::read(&captures::folder().join("encap").join(name)).expect("tshark");
    rows.iter().map(|row| layers::normalised(row.text("frame.protocols", 0).unwrap_or_default())).collect()
}

#[test]
fn tshark_gets_as_deep_as_the_captures_are() {
    if !tshark::available().unwrap() {
        return;
    }
    for (name, path, frames) in EXPECTED {
        let found = paths(name).iter().filter(|found| *found == path).count();
        assert_eq!(found, frames, "{name}: {path}");
    }
}
