use super::*;
use crate::host::net::interface::list_with_hardware;
use crate::host::rdma::{self, LinkLayer, RdmaPort};
use crate::host::read::sysfs::SysRoot;
use crate::host::read::testing::{interface, root_or_skip, veth_pair};

fn host() -> Vec<Interface> {
    let mut eth0 = interface("eth0", 2, InterfaceKind::Physical);
    eth0.master = Some(4);
    let mut eth1 = interface("eth1", 3, InterfaceKind::Physical);
    eth1.master = Some(4);
    let bond = interface("bond0", 4, InterfaceKind::Bond);
    let mut vlan = interface("bond0.100", 5, InterfaceKind::Vlan);
    vlan.lower = vec![4];
    let mut tunnel = interface("vx0", 6, InterfaceKind::Vxlan);
    tunnel.lower = vec![7];
    let mut eth2 = interface("eth2", 7, InterfaceKind::Physical);
    eth2.admin_up = false;
    let mut port = interface("veth9", 8, InterfaceKind::Veth);
    port.master = Some(9);
    let bridge = interface("br0", 9, InterfaceKind::Bridge);
    let mut macvlan = interface("mv0", 10, InterfaceKind::Macvlan);
    macvlan.lower = vec![7];
    let lo = interface("lo", 1, InterfaceKind::Loopback);
    vec![lo, eth0, eth1, bond, vlan, tunnel, eth2, port, bridge, macvlan]
}

fn device(name: &str, link_layer: LinkLayer, interfaces: &[Option<&str>]) -> RdmaDevice {
    let ports = (1..)
        .zip(interfaces)
        .map(|(number, interface)| RdmaPort { number, link_layer, interface: interface.map(str::to_owned) })
        .collect();
    RdmaDevice { name: name.to_owned(), driver: None, ports }
}

fn devices() -> Vec<RdmaDevice> {
    vec![
        device("mlx5_0", LinkLayer::Ethernet, &[Some("eth0")]),
        device("mlx5_1", LinkLayer::Ethernet, &[Some("eth1")]),
        device("mlx5_9", LinkLayer::InfiniBand, &[None]),
        device("mlx5_8", LinkLayer::Ethernet, &[Some("pod0")]),
        device("mlx5_7", LinkLayer::Ethernet, &[None]),
    ]
}

fn names(wanted: &[&str]) -> Vec<String> {
    resolve(&wanted.iter().map(|&n| n.to_owned()).collect::<Vec<_>>(), &host(), &devices())
        .unwrap()
        .targets
        .into_iter()
        .map(|target| target.name)
        .collect()
}

fn error(wanted: &[&str]) -> String {
    resolve(&wanted.iter().map(|&n| n.to_owned()).collect::<Vec<_>>(), &host(), &devices())
        .unwrap_err()
        .to_string()
}

#[test]
fn without_a_name_it_is_every_interface_with_an_rdma_device() {
    assert_eq!(names(&[]), ["eth0", "eth1"]);
    let text = resolve(&[], &host(), &[]).unwrap_err().to_string();
    assert!(text.contains("-i") && text.contains("eth0 (physical)"), "{text}");
    assert!(!text.contains("lo (") && text.contains("eth2 (physical, down)"), "{text}");
}

#[test]
fn names_keep_their_order_and_count_once() {
    assert_eq!(names(&["eth1", "mlx5_0", "eth0", "mlx5_1"]), ["eth1", "eth0"]);
    assert_eq!(names(&["lo"]), ["lo"]);
}

#[test]
fn every_kind_of_stack_is_refused_with_its_reason() {
    for (pair, reason) in [
        (["bond0", "eth0"], "eth0 is a member of the bond bond0"),
        (["eth1", "bond0"], "eth1 is a member of the bond bond0"),
        (["bond0.100", "bond0"], "bond0.100 is a VLAN on bond0"),
        (["eth0", "bond0.100"], "bond0.100 (VLAN) is stacked on eth0"),
        (["vx0", "eth2"], "eth2 is the underlay of the VXLAN vx0"),
        (["veth9", "br0"], "veth9 is a port of the bridge br0"),
        (["mv0", "eth2"], "mv0 is a macvlan on eth2"),
    ] {
        let text = error(&pair);
        assert!(text.contains(reason), "{text}");
        assert!(pair.iter().all(|name| text.contains(name)), "{text}");
    }
    assert!(error(&["mlx5_0", "bond0"]).contains("member of the bond"));
}

#[test]
fn neighbours_are_not_stacked() {
    assert_eq!(names(&["eth0", "eth1", "eth2", "veth9"]).len(), 4);
    assert_eq!(names(&["mv0", "vx0"]).len(), 2);
    // An index missing from this namespace, and a loop, end the search.
    let (mut a, mut b) = (interface("a", 1, InterfaceKind::Veth), interface("b", 2, InterfaceKind::Veth));
    a.lower = vec![77];
    let both = ["a".to_owned(), "b".to_owned()];
    assert!(resolve(&both, &[a.clone(), b.clone()], &[]).is_ok());
    (a.lower, b.lower) = (vec![2], vec![1]);
    assert!(resolve(&both, &[a, b], &[]).is_err());
}

#[test]
fn an_unknown_name_is_answered_with_the_closest() {
    assert!(error(&["ethO"]).contains("did you mean eth0?"), "{}", error(&["ethO"]));
    assert!(error(&["mlx5_00"]).contains("did you mean mlx5_0?"));
    let far = error(&["wlan0"]);
    assert!(!far.contains("did you mean") && far.contains("Interfaces: eth0"), "{far}");
    assert!(error(&[""]).contains("no network interface"));
}

#[test]
fn a_device_without_an_interface_here_says_why() {
    assert!(error(&["mlx5_9"]).contains("InfiniBand"));
    let all = ["mlx5_8", "mlx5_0", "mlx5_7", "mlx5_8"].map(str::to_owned);
    let Chosen { targets, without_interface } = resolve(&all, &host(), &devices()).unwrap();
    assert_eq!(targets.len(), 1, "the others have counters");
    let [(first, elsewhere), (second, unknown)] = &without_interface[..] else {
        panic!("{without_interface:?}")
    };
    assert_eq!((first.as_str(), second.as_str()), ("mlx5_8", "mlx5_7"));
    assert!(elsewhere.contains("pod0") && elsewhere.contains("--netns"), "{elsewhere}");
    assert!(unknown.contains("does not report"), "{unknown}");
    // Without a name all devices are selected, except InfiniBand.
    let without = resolve(&[], &host(), &devices()).unwrap().without_interface;
    assert_eq!(without.len(), 2, "{without:?}");
}

#[test]
fn silence_to_come_is_foretold() {
    let wanted = ["eth2".to_owned(), "eth0".to_owned()];
    let notes = notes(&resolve(&wanted, &host(), &[]).unwrap().targets);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("eth2 is down"), "{notes:?}");
}

#[test]
fn the_interfaces_of_a_real_host_are_chosen() {
    if !root_or_skip("the_interfaces_of_a_real_host_are_chosen") {
        return;
    }
    let chosen = |wanted: &[String]| {
        let root = SysRoot::of_this_thread()?;
        resolve(wanted, &list_with_hardware(&root)?, &rdma::list(&root))
    };
    let pair = veth_pair(1500);
    let targets = pair.left.run(|| chosen(&["left0".to_owned()])).unwrap().unwrap();
    assert_eq!(targets.targets[0].index, pair.left_index);
    assert!(pair.left.run(|| chosen(&["right0".to_owned()])).unwrap().is_err());
}
