use super::*;
use crate::host::net::netns::NetNs;
use crate::host::read::testing::{root_or_skip, veth_pair};

/// A message as the kernel sends it about one interface.
fn message(index: u32, name: &str, flags: u32, fill: impl FnOnce(Request) -> Request) -> Vec<u8> {
    let header = LinkHeader { hardware: libc::ARPHRD_ETHER, index, flags, change: 0 };
    let request = Request::new(libc::RTM_NEWLINK, 0, &header.bytes())
        .attr_text(libc::IFLA_IFNAME, name)
        .attr_u32(libc::IFLA_MTU, 1500);
    fill(request).payload()
}

fn info(request: Request, kind: &str, data: impl FnOnce(Request) -> Request) -> Request {
    request.nest(libc::IFLA_LINKINFO, |r| {
        r.attr_text(libc::IFLA_INFO_KIND, kind).nest(libc::IFLA_INFO_DATA, data)
    })
}

#[test]
fn a_nic_in_a_bond_is_physical_and_knows_its_master() {
    let up = flag(libc::IFF_UP);
    let payload = message(2, "enp3s0f0np0", up, |r| {
        r.attr(libc::IFLA_ADDRESS, &[0xb8, 0xce, 0xf6, 1, 2, 3])
            .attr(libc::IFLA_OPERSTATE, &[6])
            .attr_u32(libc::IFLA_MASTER, 9)
            .attr_u32(libc::IFLA_NUM_RX_QUEUES, 63)
            .attr_text(IFLA_PARENT_DEV_NAME, "0000:03:00.0")
            .nest(libc::IFLA_LINKINFO, |r| r.attr_text(4, "bond"))
    });
    let nic = Interface::parse(&payload).unwrap();
    assert_eq!((nic.name.as_str(), nic.index, nic.mtu), ("enp3s0f0np0", 2, 1500));
    assert_eq!(nic.kind, InterfaceKind::Physical);
    assert_eq!(nic.master, Some(9));
    assert_eq!(nic.device.as_deref(), Some("0000:03:00.0"));
    assert_eq!(nic.mac, Some([0xb8, 0xce, 0xf6, 1, 2, 3]));
    assert_eq!((nic.rx_queues, nic.xdp), (Some(63), None));
    assert!(nic.is_up());
}

#[test]
fn a_vlan_and_a_vxlan_know_what_is_below() {
    let tagged =
        message(5, "eth0.100", 0, |r| info(r.attr_u32(libc::IFLA_LINK, 2), "vlan", |r| r.attr(1, &[100, 0])));
    let tagged = Interface::parse(&tagged).unwrap();
    assert_eq!((tagged.kind, tagged.lower), (InterfaceKind::Vlan, vec![2]));

    let tunnel = message(6, "vx", 0, |r| info(r, "vxlan", |r| r.attr_u32(IFLA_VXLAN_LINK, 2)));
    assert_eq!(Interface::parse(&tunnel).unwrap().lower, [2]);
    let tunnel = message(6, "vx", 0, |r| info(r, "vxlan", |r| r.attr_u32(IFLA_VXLAN_LINK, 0)));
    assert!(Interface::parse(&tunnel).unwrap().lower.is_empty());
}

#[test]
fn a_link_into_another_namespace_is_not_below() {
    let moved = message(5, "mv0", 0, |r| {
        let r = r.attr_u32(libc::IFLA_LINK, 2).attr(libc::IFLA_LINK_NETNSID, &0i32.to_ne_bytes());
        info(r, "macvlan", |r| r)
    });
    let moved = Interface::parse(&moved).unwrap();
    assert_eq!((moved.kind, moved.lower), (InterfaceKind::Macvlan, vec![]));
}

#[test]
fn an_xdp_program_is_found_with_its_mode() {
    let with = |attached: u8, id: Option<(u16, u32)>| {
        let payload = message(2, "eth0", 0, |r| {
            r.nest(libc::IFLA_XDP, |r| {
                let r = r.attr(IFLA_XDP_ATTACHED, &[attached]);
                id.map_or_else(|| r.clone(), |(attr, id)| r.clone().attr_u32(attr, id))
            })
        });
        Interface::parse(&payload).unwrap().xdp
    };
    assert_eq!(with(0, None), None);
    let native = AttachedXdp { mode: XdpAttachment::Native, program_id: Some(12) };
    assert_eq!(with(1, Some((IFLA_XDP_PROG_ID, 12))), Some(native));
    let several = AttachedXdp { mode: XdpAttachment::Multiple, program_id: Some(13) };
    assert_eq!(with(4, Some((IFLA_XDP_SKB_PROG_ID, 13))), Some(several));
    let unknown = AttachedXdp { mode: XdpAttachment::Generic, program_id: None };
    assert_eq!(with(2, None), Some(unknown));
}

#[test]
fn a_port_without_link_is_not_up() {
    let up = flag(libc::IFF_UP);
    let state = |flags, state| {
        let payload = message(2, "eth0", flags, |r| r.attr(libc::IFLA_OPERSTATE, &[state]));
        Interface::parse(&payload).unwrap().is_up()
    };
    assert!(state(up, 6) && state(up, 0));
    assert!(!state(up, 2) && !state(up, 3) && !state(0, 6));
}

#[test]
fn cut_messages_are_no_interfaces_or_smaller_ones() {
    let payload = message(2, "eth0", 0, |r| info(r, "veth", |r| r));
    for end in 0..payload.len() {
        if let Some(cut) = Interface::parse(&payload[..end]) {
            assert_eq!(cut.name, "eth0");
        }
    }
    assert_eq!(Interface::parse(&[0; 64]), None);
}

#[test]
fn real_stacks_of_virtual_interfaces_are_read() {
    if !root_or_skip("real_stacks_of_virtual_interfaces_are_read") {
        return;
    }
    let pair = veth_pair(1500);
    let all = pair
        .left
        .run(|| {
            let make = |name: &str, kind: &str, fill: &dyn Fn(Request) -> Request| {
                let header = LinkHeader::default().bytes();
                let flags = netlink_packet_core::NLM_F_CREATE | netlink_packet_core::NLM_F_EXCL;
                let request = Request::new(libc::RTM_NEWLINK, flags, &header);
                let request = fill(request.attr_text(libc::IFLA_IFNAME, name));
                RouteSocket::open()?.request(
                    name,
                    info(request, kind, |r| match kind {
                        "vxlan" => r.attr_u32(1, 42).attr_u32(IFLA_VXLAN_LINK, pair.left_index),
                        _ => r,
                    }),
                )
            };
            make("br0", "bridge", &|r| r)?;
            make("mv0", "macvlan", &|r| r.attr_u32(libc::IFLA_LINK, pair.left_index))?;
            make("vx0", "vxlan", &|r| r)?;
            let bridge = list()?.into_iter().find(|i| i.name == "br0").unwrap().index;
            make("ve0", "veth", &|r| r.attr_u32(libc::IFLA_MASTER, bridge))?;
            list_with_hardware(&SysRoot::of_this_thread()?)
        })
        .unwrap()
        .unwrap();
    let find = |name: &str| all.iter().find(|i| i.name == name).unwrap();
    assert_eq!(find("lo").kind, InterfaceKind::Loopback);
    assert_eq!(find("br0").kind, InterfaceKind::Bridge);
    assert_eq!((&find("mv0").kind, &find("mv0").lower), (&InterfaceKind::Macvlan, &vec![pair.left_index]));
    assert_eq!((&find("vx0").kind, &find("vx0").lower), (&InterfaceKind::Vxlan, &vec![pair.left_index]));
    assert_eq!(find("ve0").master, Some(find("br0").index));
    assert_eq!(find("left0").rx_queues, Some(2));
}

#[test]
fn presence_differs_from_absence() {
    if !root_or_skip("presence_differs_from_absence") {
        return;
    }
    let netns = NetNs::anonymous().unwrap();
    let (lo, other) = netns.run(|| (exists(1).unwrap(), exists(77).unwrap())).unwrap();
    assert!(lo && !other);
    assert!(netns.run(|| get(77)).unwrap().unwrap_err().is_absent());
}

#[test]
fn tunnels_without_a_link_layer_begin_with_ip() {
    for hardware in [libc::ARPHRD_NONE, 519, libc::ARPHRD_TUNNEL, libc::ARPHRD_TUNNEL6, libc::ARPHRD_SIT] {
        assert_eq!(Framing::from_hardware(hardware), Framing::RawIp, "{hardware}");
    }
    assert_eq!(Framing::from_hardware(libc::ARPHRD_ETHER), Framing::Ethernet);
    // PPP and GRE have headers of their own.
    for hardware in [libc::ARPHRD_PPP, libc::ARPHRD_IPGRE, libc::ARPHRD_INFINIBAND] {
        assert_eq!(Framing::from_hardware(hardware), Framing::Other(hardware));
    }
}
