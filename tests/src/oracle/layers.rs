//! Reduces tshark's `frame.protocols` to the layers that carry RoCE.
//!
//! Rules: `ethertype` and IPv6 extension headers are not layers, an 802.1ad tag is a `vlan` like any other, and the
//! path ends before the first layer that never carries RoCE (`data` and everything above a transport).

/// Layers that may precede a RoCE packet, by tshark's names.
pub(super) const CARRIERS: [&str; 15] = [
    "eth",
    "sll",
    "raw",
    "vlan",
    "ieee8021ad",
    "ip",
    "ipv6",
    "udp",
    "gre",
    "erspan",
    "vxlan",
    "geneve",
    "mpls",
    "nsh",
    "infiniband",
];

/// Layers of one frame, outermost first, for instance `eth:vlan:ip:udp:vxlan:eth:ip:udp:infiniband`.
pub fn normalised(protocols: &str) -> String {
    let path: Vec<_> = protocols
        .split(':')
        .filter(|name| *name != "ethertype" && !name.starts_with("ipv6."))
        .take_while(|name| CARRIERS.contains(name))
        .map(|name| if name == "ieee8021ad" { "vlan" } else { name })
        .collect();
    path.join(":")
}

/// Differences between two lists of layer paths, frame by frame, as sentences.
///
/// `ours` may end early only if `may_stop` allows it; it gets both paths.
pub fn differences(ours: &[String], theirs: &[String], may_stop: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    if ours.len() != theirs.len() {
        found.push(format!("rocescope gives {} frames, tshark {}", ours.len(), theirs.len()));
    }
    for (index, (our, their)) in ours.iter().zip(theirs).enumerate() {
        let prefix = their.starts_with(our.as_str());
        if our != their && !(prefix && may_stop(our, their)) {
            found.push(format!("frame {}: rocescope {our}, tshark {their}", index + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_layers_are_left_out() {
        assert_eq!(
            normalised("eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ipv6:ipv6.fraghdr:udp:data"),
            "eth:vlan:vlan:ipv6:udp"
        );
        assert_eq!(normalised("eth:llc:stp"), "eth");
    }

    #[test]
    fn an_early_stop_must_be_allowed() {
        let (ours, theirs) = (vec!["eth:ip".to_owned()], vec!["eth:ip:gre".to_owned()]);
        assert_eq!(differences(&ours, &theirs, |_, _| false).len(), 1);
        assert!(differences(&ours, &theirs, |_, _| true).is_empty());
        assert_eq!(differences(&theirs, &ours, |_, _| true).len(), 1);
    }
}
