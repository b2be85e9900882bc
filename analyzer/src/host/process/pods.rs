//! Interfaces in the network namespaces of pods: by address, without entering those namespaces, and by kind.
//!
//! The interface of an SR-IOV function that a pod was given (Multus, SR-IOV device plugin) is in the pod's network
//! namespace, where the host does not see it, while its RDMA device stays visible (`rdma system`: shared). The device's
//! GIDs are the addresses of that interface, and `/proc/PID/net` of the pod's processes lists these.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Container;
use crate::host::net::interface::{self, InterfaceKind};
use crate::host::net::netns::NetNs;
use crate::host::read::HostRoot;

/// Maximum number of network namespaces read.
const MAX_NAMESPACES: usize = 1024;

/// An interface in the network namespace of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodInterface {
    /// Label of the pod, as for its processes.
    pub pod: String,
    /// A process of that namespace, here.
    pub pid: u32,
    /// Name of the interface in the namespace; `None` if no route leads to its address.
    pub name: Option<String>,
}

/// The interfaces of pods, by address.
#[derive(Debug, Default)]
pub struct PodInterfaces(HashMap<IpAddr, Option<PodInterface>>);

impl PodInterfaces {
    /// Reads the network namespaces of all processes in containers, except that of the calling thread.
    pub fn read(root: &HostRoot) -> Self {
        let mut found = Self::default();
        for (pid, pod) in namespaces(root) {
            let Some(pod) = pod else { continue };
            for (address, name) in addresses(root, pid) {
                let interface = PodInterface { pod: pod.clone(), pid, name };
                let another = |known: &mut Option<PodInterface>| *known = None;
                found.0.entry(address).and_modify(another).or_insert(Some(interface));
            }
        }
        found
    }

    /// The interface that has one of these GIDs; `None` if no pod or several pods have them.
    pub fn of(&self, gids: &[Ipv6Addr]) -> Option<&PodInterface> {
        let mut all = gids.iter().filter_map(|gid| self.0.get(&IpAddr::from(*gid).to_canonical())?.as_ref());
        let first = all.next()?;
        all.all(|other| other.pid == first.pid).then_some(first)
    }
}

/// The network namespaces of all processes, except that of the calling thread: a process of each, with the label of its
/// pod if one of them has any.
fn namespaces(root: &HostRoot) -> Vec<(u32, Option<String>)> {
    let Ok(own) = root.link_name("/proc/thread-self/ns/net") else { return Vec::new() };
    let mut found: BTreeMap<String, (u32, Option<String>)> = BTreeMap::new();
    let mut pids: Vec<u32> =
        root.list("/proc").unwrap_or_default().iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        let Ok(namespace) = root.link_name(&format!("/proc/{pid}/ns/net")) else { continue };
        let known = found.get(&namespace);
        let is_full = known.is_none() && found.len() >= MAX_NAMESPACES;
        if namespace == own || is_full || known.is_some_and(|(_, pod)| pod.is_some()) {
            continue;
        }
        // A process of the host may be in it too, to set it up.
        let pod = Container::of(root, pid).and_then(|container| container.label());
        if known.is_none() || pod.is_some() {
            found.insert(namespace, (pid, pod));
        }
    }
    found.into_values().collect()
}

/// The interfaces of a kind in other network namespaces: a process of each, and its place in words, as `net1 of pod
/// trainer-0`. A thread enters these namespaces, one after the other, as far as it may (CAP_SYS_ADMIN).
pub fn elsewhere(root: &HostRoot, is_wanted: impl Fn(&InterfaceKind) -> bool + Send) -> Vec<(u32, String)> {
    let list = move |(pid, pod): (u32, Option<String>)| {
        NetNs::open(&format!("/proc/{pid}/ns/net")).ok()?.enter().ok()?;
        let of = pod.map_or_else(|| format!("process {pid}"), |pod| format!("pod {pod}"));
        let wanted = interface::list().ok()?.into_iter().filter(|interface| is_wanted(&interface.kind));
        Some(wanted.map(|interface| (pid, format!("{} of {of}", interface.name))).collect::<Vec<_>>())
    };
    let all = namespaces(root);
    std::thread::scope(|scope| {
        let enter = || all.into_iter().filter_map(list).flatten().collect::<Vec<_>>();
        let thread = std::thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, enter);
        thread.map_or_else(|_| Vec::new(), |thread| thread.join().unwrap_or_default())
    })
}

/// The addresses in the network namespace of a process, each with the name of its interface, without those of loopback.
fn addresses(root: &HostRoot, pid: u32) -> Vec<(IpAddr, Option<String>)> {
    let table = |name: &str| root.text(&format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let routes = table("route");
    let v4 = local_v4(&table("fib_trie")).into_iter().map(|own| (own.into(), interface_to(&routes, own)));
    let inet6 = table("if_inet6");
    let v6 = inet6.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = Ipv6Addr::from(u128::from_str_radix(words.next()?, 16).ok()?);
        Some((IpAddr::from(address), words.next_back().map(str::to_owned)))
    });
    v4.chain(v6).filter(|(address, _)| !address.is_loopback()).collect()
}

/// The own addresses in a `/proc/net/fib_trie`, each once: its tables list them twice.
fn local_v4(trie: &str) -> BTreeSet<Ipv4Addr> {
    let mut latest: Option<Ipv4Addr> = None;
    let mut found = BTreeSet::new();
    for line in trie.lines().map(str::trim) {
        if let Some(leaf) = line.strip_prefix("|-- ") {
            latest = leaf.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(latest);
        }
    }
    found
}

/// The interface to whose network a `/proc/net/route` takes an address: of those without a gateway, the smallest
/// network.
fn interface_to(routes: &str, address: Ipv4Addr) -> Option<String> {
    let own = u32::from_ne_bytes(address.octets());
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let (to, gateway, mask) = (number(1)?, number(2)?, number(7)?);
        let name = words.first()?;
        (gateway == 0 && own & mask == to).then(|| (mask.count_ones(), (*name).to_owned()))
    };
    let best: Option<(u32, String)> = routes.lines().filter_map(route).max();
    best.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::{root_or_skip, tree};

    /// As Linux 6.1 prints it for an interface with 10.9.0.2/24, beside loopback.
    const TRIE: &str = "Main:
  +-- 0.0.0.0/0 3 0 5
     +-- 10.9.0.0/24 2 0 2
        +-- 10.9.0.0/30 2 0 2
           |-- 10.9.0.0
              /24 link UNICAST
           |-- 10.9.0.2
              /32 host LOCAL
        |-- 10.9.0.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
Local:
  +-- 0.0.0.0/0 3 0 5
           |-- 10.9.0.2
              /32 host LOCAL
";
    const INET6: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
fe80000000000000024211fffe090002 02 40 20 80     net1
";
    const CGROUP: &str =
        "0::/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-x.scope";

    fn routes() -> String {
        let hex = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let row = |name: &str, to: [u8; 4], mask: [u8; 4]| {
            format!("{name}\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n", hex(to), hex(mask))
        };
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        head.to_owned()
            + &row("eth0", [10, 0, 0, 0], [255, 0, 0, 0])
            + &row("net1", [10, 9, 0, 0], [255, 255, 255, 0])
    }

    #[test]
    fn a_gid_leads_to_the_interface_of_a_pod() {
        let routes = routes();
        let root = tree(&[
            ("proc/thread-self/ns/net", "-> net:[1]"),
            ("proc/1/ns/net", "-> net:[1]"),
            // A process of the host that set the namespace up.
            ("proc/70/ns/net", "-> net:[2]"),
            ("proc/70/cgroup", "0::/system.slice/crio.service"),
            ("proc/71/ns/net", "-> net:[2]"),
            ("proc/71/cgroup", CGROUP),
            ("proc/71/net/fib_trie", TRIE),
            ("proc/71/net/route", &routes),
            ("proc/71/net/if_inet6", INET6),
            ("proc/71/root/etc/hostname", "trainer-0"),
        ]);
        let pods = PodInterfaces::read(&HostRoot::at(root.path()));
        let own = PodInterface { pod: "trainer-0".into(), pid: 71, name: Some("net1".into()) };
        let gids = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Ipv6Addr>>();
        assert_eq!(pods.of(&gids(&["fe80::242:11ff:fe09:2"])), Some(&own));
        assert_eq!(pods.of(&gids(&["fe80::1", "::ffff:10.9.0.2"])), Some(&own));
        assert_eq!(pods.of(&gids(&["::ffff:127.0.0.1", "::1", "fe80::1"])), None);
    }

    #[test]
    fn an_address_of_two_pods_names_neither() {
        let files = |pid: u32| {
            let at = |name: &str| format!("proc/{pid}/{name}");
            [
                (at("ns/net"), format!("-> net:[{pid}]")),
                (at("cgroup"), CGROUP.to_owned()),
                (at("net/if_inet6"), INET6.to_owned()),
            ]
        };
        let mut all = vec![("proc/thread-self/ns/net".to_owned(), "-> net:[1]".to_owned())];
        all.extend([71, 72].into_iter().flat_map(files));
        let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let root = tree(&all);
        let pods = PodInterfaces::read(&HostRoot::at(root.path()));
        assert_eq!(pods.of(&["fe80::242:11ff:fe09:2".parse().unwrap()]), None);
    }

    /// Loopback stands for a function of a NIC, which no test can make.
    #[test]
    fn interfaces_of_a_kind_are_found_where_another_process_is() {
        if !root_or_skip("interfaces_of_a_kind_are_found_where_another_process_is") {
            return;
        }
        let there = NetNs::anonymous().unwrap();
        let mut process =
            there.run(|| std::process::Command::new("sleep").arg("600").spawn()).unwrap().unwrap();
        let before = NetNs::current().unwrap();
        let found = |wanted: InterfaceKind| {
            let all = elsewhere(&HostRoot::here().unwrap(), |kind| *kind == wanted);
            all.into_iter().find(|(pid, _)| *pid == process.id()).map(|(_, place)| place)
        };
        let (loopback, physical) = (found(InterfaceKind::Loopback), found(InterfaceKind::Physical));
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(loopback.as_ref().is_some_and(|place| place.starts_with("lo of ")), "{loopback:?}");
        assert_eq!(physical, None);
        assert!(NetNs::current().unwrap().is_same(&before), "the calling thread stays where it was");
    }

    #[test]
    fn broken_tables_give_nothing() {
        assert_eq!(local_v4("/32 host LOCAL\n|-- x\n/32 host LOCAL\n"), BTreeSet::new());
        assert_eq!(interface_to("a b c\n\u{0}", Ipv4Addr::LOCALHOST), None);
    }
}
