//! The devices of watched interfaces, read periodically.
//!
//! Everything is read through [`HostRoot`] and [`Queries`], so that tests can use recorded hosts. A counter that
//! cannot be read is left out: nothing here returns an error.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::context::ask::{Asker, Clock, Port};
use super::lives::{Change, Follower};
use super::port::PortWatch;
use crate::doctor::check::{self, Status};
use crate::doctor::facts::HostFacts;
use crate::entity::contexts::{ContextSample, Contexts};
use crate::entity::devices::{Devices, Setting};
use crate::entity::lives::{Calls, Lists, Lives};
use crate::entity::owners::Owners;
use crate::ethernet::lldp::Neighbour;
use crate::host::net::stack;
use crate::host::process::pods::PodInterfaces;
use crate::host::rdma::device;
use crate::host::rdma::device::{Hardware, Identity, Protocol};
use crate::host::rdma::fwctl::Firmware;
use crate::host::rdma::nldev::{self, Query, QueuePair};
use crate::host::read::HostRoot;
use crate::host::read::queries::Queries;
use crate::host::{pci, rdma};
use crate::source::devices::listed::{Addresses, QueuePairs};
use crate::util::system::kernel_version;

/// The RoCE ports of the watched interfaces.
#[derive(Debug, Default)]
pub struct Watch {
    ports: Vec<PortWatch>,
    interfaces: Vec<String>,
    facts: Option<HostFacts>,
    settings: Vec<Setting>,
    heard: BTreeMap<String, Neighbour>,
    notes: Vec<String>,
    follower: Follower,
    lives: Arc<Lives>,
    lists: Lists,
    asker: Asker,
    contexts: Arc<Contexts>,
    no_probes: bool,
}

impl Watch {
    /// The ports with RoCE over these interfaces, over interfaces below them or bonds that contain them, and all
    /// ports of these `devices` (including EFA), which may have no interface here.
    pub fn new(root: &HostRoot, kernel: &dyn Queries, interfaces: &[String], devices: &[String]) -> Self {
        let present = rdma::list(root.sys());
        // Without a device the query itself would make the kernel load modules.
        let answers = if present.is_empty() { Vec::new() } else { answers(kernel, Query::Devices) };
        let known: Vec<nldev::Device> =
            answers.iter().filter_map(|answer| nldev::Device::parse(answer)).collect();
        let all = kernel.interfaces().unwrap_or_default();
        let related = stack::related(interfaces, &all);
        let mut ports = Vec::new();
        for device in &present {
            let known = known.iter().find(|known| known.name == device.name);
            let identity = Identity::of(root, device, known);
            // EFA is not RoCE, but has similar counters: it is included if named explicitly.
            let is_named = devices.contains(&device.name);
            if identity.protocol != Protocol::Roce && !(is_named && identity.protocol == Protocol::Efa) {
                continue;
            }
            let address = pci::address_behind(root, &format!("/sys/class/infiniband/{}/device", device.name));
            let off = || {
                let answer = kernel.parameter(address.as_deref()?, "enable_roce").ok()?;
                Some(!device::is_on(&answer)?)
            };
            let hidden = !identity.software && off() != Some(true);
            let watched =
                |name: &Option<String>| is_named || name.as_ref().is_some_and(|name| related.contains(name));
            ports.extend(device.ports.iter().filter(|port| watched(&port.interface)).map(|port| {
                let bottoms = port.interface.iter().flat_map(|name| stack::bottoms(name, &all));
                let index = known.map(|known| known.index);
                let mut watch = PortWatch::new(device, port, index, identity.clone(), hidden, bottoms);
                let place = (device.name.as_str(), port.number);
                watch.hardware = Hardware::of(root, place, address.as_deref(), known);
                let lies_on = |name: &&String| {
                    let below = stack::related(std::slice::from_ref(*name), &all);
                    !watch.carries(name) && port.interface.as_ref().is_some_and(|own| below.contains(own))
                };
                watch.above = interfaces.iter().filter(lies_on).cloned().collect();
                watch.elsewhere = !all.iter().any(|one| Some(&one.name) == port.interface.as_ref());
                watch
            }));
        }
        Self { ports, interfaces: interfaces.to_vec(), ..Self::default() }
    }

    /// Finds the interfaces of ports without one here in the network namespaces of pods. `addresses` are those of the
    /// devices.
    pub fn find_pods(&mut self, root: &HostRoot, addresses: &Addresses) {
        if !self.ports.iter().any(|port| port.elsewhere) {
            return;
        }
        let pods = PodInterfaces::read(root);
        for port in self.ports.iter_mut().filter(|port| port.elsewhere) {
            let own = addresses.iter().find(|(device, _)| *device == port.device);
            port.pod = own.and_then(|(_, gids)| pods.of(gids)).cloned();
        }
    }

    /// True once any counter of any port has been read.
    pub fn is_readable(&self) -> bool {
        self.ports.iter().any(PortWatch::is_readable)
    }

    /// True if the packets of every port bypass the interfaces.
    pub fn hides_all(&self) -> bool {
        let hidden = |name: &String| {
            let mut ports = self.ports.iter().filter(|p| p.carries(name)).peekable();
            ports.peek().is_some() && ports.all(|port| port.hidden)
        };
        !self.ports.is_empty() && self.interfaces.iter().all(hidden)
    }

    /// Inputs of a report: the interface of each port, or else its device.
    pub fn inputs(&self) -> Vec<String> {
        let mut inputs: Vec<String> = Vec::new();
        for port in &self.ports {
            let input = port.interface.as_ref().unwrap_or(&port.device);
            if !inputs.contains(input) {
                inputs.push(input.clone());
            }
        }
        inputs
    }

    /// Device and port of each, as text.
    pub fn labels(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("{}/{}", port.device, port.number)).collect()
    }

    /// True if there is no RoCE port.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// A sentence about each port whose packets bypass programs on its interface.
    pub fn notes(&self) -> Vec<String> {
        let hidden = self.ports.iter().filter(|port| port.hidden);
        let hidden = hidden
            .map(|port| {
                if port.driver() == Some("efa") {
                    return format!(
                        "{} is an Elastic Fabric Adapter, whose transport (SRD) is no RoCE: showing its counters",
                        port.device
                    );
                }
                format!(
                    "{} handles RoCE in hardware, so its packets bypass {}: showing its \
                     counters (DEVICES in the report, screen 5); `rocescope doctor` lists ways to capture its packets",
                    port.device,
                    port.passed()
                )
            });
        hidden.chain(self.notes.iter().cloned()).collect()
    }

    /// Reads the counters of all ports, at a time by the monotonic clock and as Unix time.
    pub fn read_counters(&mut self, root: &HostRoot, kernel: &dyn Queries, now_ns: (u64, u64)) {
        for port in &mut self.ports {
            port.read_counters(root, kernel, now_ns);
        }
    }

    /// Applies the queue pairs read at Unix time `time_ns`.
    pub fn take_qps(&mut self, found: &QueuePairs, time_ns: u64) {
        for port in &mut self.ports {
            port.take_qps(found, time_ns);
        }
        self.follower.listed(found);
        let ports: Vec<Port> = self.ports.iter().filter_map(PortWatch::query_port).collect();
        let mut past_verbs: Vec<QueuePair> = self.follower.past_verbs().collect();
        for qp in past_verbs.iter_mut().filter(|qp| self.asker.reaches(&qp.device)) {
            let first = || ports.iter().find(|port| port.device == qp.device).map(|port| port.number);
            qp.port = qp.port.or_else(first);
        }
        self.asker.take_past_verbs(past_verbs);
        let unlisted = ports.iter().filter(|port| !found.is_complete(&port.device));
        self.asker.keep(unlisted.map(|port| port.device.clone()).collect());
        let named: Vec<_> = found.list.iter().map(|(qp, _)| self.follower.with_peer(qp)).collect();
        let listed = found.list.iter().zip(&named).map(|((qp, _), named)| named.as_ref().unwrap_or(qp));
        self.asker.take_qps(&ports, listed);
        // Without those of queue pairs that are gone, or whose number is in use again.
        let asker = &self.asker;
        let is_known = |qp: &ContextSample| asker.has_read(&qp.device, qp.lqpn);
        if !self.contexts.qps.iter().all(is_known) {
            Arc::make_mut(&mut self.contexts).qps.retain(is_known);
        }
    }

    /// Records the cost of listing queue pairs, and which watched devices listed none.
    pub fn note_list(&mut self, found: &QueuePairs, took_ns: u64) {
        self.lists.lists += 1;
        self.lists.queries += found.list.len() as u64;
        self.lists.took_ns = self.lists.took_ns.saturating_add(took_ns);
        let devices: BTreeSet<&String> = self.ports.iter().map(|port| &port.device).collect();
        let why = |device: &String| Some((device.clone(), found.why_unlisted(device)?.to_owned()));
        self.lists.unlisted = devices.into_iter().filter_map(why).collect();
    }

    /// Enables reading the NIC's contexts of queue pairs, with at most this many queries per second; 0 disables it.
    pub fn query_contexts(&mut self, per_second: u32) {
        self.asker = Asker::new(per_second);
    }

    /// Leaves out the probes of the kernel's control path.
    pub fn leave_out_probes(&mut self) {
        self.no_probes = true;
    }

    /// True if queue pairs may be followed by probes of the kernel.
    pub const fn may_probe(&self) -> bool {
        !self.no_probes
    }

    /// Also queries the firmware for contexts; `notes` name what cannot be queried.
    pub fn use_firmware(&mut self, firmware: Box<dyn Firmware>, notes: Vec<String>) {
        self.asker.use_firmware(firmware);
        self.notes = notes;
    }

    /// Reads the contexts that are due.
    pub fn read_contexts(&mut self, kernel: &dyn Queries, clock: &dyn Clock) {
        self.asker.run(kernel, clock);
        let shown = self.asker.take_shown();
        if !shown.is_empty() {
            let now_ns = clock.monotonic_ns();
            self.note_clock(clock.unix_ns(now_ns).cast_signed().saturating_sub(now_ns.cast_signed()));
        }
        for (life, query) in shown {
            self.follower.shown(life, query);
        }
    }

    /// True if there are contexts to read.
    pub fn reads_contexts(&self) -> bool {
        self.asker.is_active()
    }

    /// True if contexts are read as soon as there are queue pairs.
    pub const fn may_read_contexts(&self) -> bool {
        self.asker.may_ask()
    }

    /// Compares the counters of each port with the previous reading, to attribute errors to queue pairs, and to count
    /// the packets of the contexts read before. Includes these contexts in samples, with counts up to them.
    pub fn note_counters(&mut self, monotonic_ns: u64) {
        for port in &self.ports {
            self.asker.take_counters(&port.device, port.number, port.counted(), monotonic_ns);
        }
        self.contexts = self.asker.sample();
    }

    /// Number of queue pairs that exceeded their retries, from the ports' counters.
    pub fn given_up(&self) -> u64 {
        self.ports.iter().map(PortWatch::given_up).fold(0, u64::saturating_add)
    }

    /// Number of events so far that show the death of a queue pair.
    pub const fn deaths(&self) -> u64 {
        self.follower.deaths()
    }

    /// The driver of a watched device.
    pub fn driver(&self, device: &str) -> Option<String> {
        self.ports.iter().find(|port| port.device == device)?.driver().map(str::to_owned)
    }

    /// Notes the calls seen and missed up to the changes that follow.
    pub fn note_calls(&mut self, calls: &Calls) {
        self.follower.note_calls(calls);
    }

    /// Notes the distance of the wall clock from the monotonic one, before changes and lists.
    pub fn note_clock(&mut self, offset_ns: i64) {
        self.follower.note_clock(offset_ns);
    }

    /// Applies control path changes of queue pairs of watched devices.
    pub fn take_lives(&mut self, changes: Vec<Change>) {
        for change in changes {
            let device = match &change {
                Change::Is(life, _) | Change::Found(life, _) => &life.device,
                Change::Ended { device, .. } => device,
                Change::Event(event) | Change::Kept(event) => &event.device,
            };
            if self.ports.iter().any(|port| port.device == *device) {
                if matches!(change, Change::Ended { .. }) {
                    self.asker.ended(device);
                }
                self.follower.take(change);
            }
        }
    }

    /// Includes the applied changes in samples, with the calls seen so far, or the reason why none can be seen.
    pub fn share_lives(&mut self, calls: Result<Calls, &str>) {
        let (calls, unavailable) = match calls {
            Ok(calls) => (calls, None),
            Err(why) => (self.lives.calls.clone(), Some(why)),
        };
        self.lives = self.follower.sample(&calls, unavailable);
    }

    /// Adds the connected queue pairs of the control path to the listed ones, newest first.
    pub fn add_lives(&self, owners: &mut Owners) {
        let connected = self.lives.qps.iter().filter_map(|life| Some((life, life.rqpn?)));
        // A list already contains most of them.
        let mut connected: Vec<_> = connected
            .filter(|(life, rqpn)| {
                !owners.knows(&life.device, (life.lqpn, *rqpn), (life.pid, life.made_in()))
            })
            .collect();
        connected.sort_by_key(|(life, _)| (life.control.is_over(), Reverse(life.control.creation_order())));
        for (life, rqpn) in connected {
            owners.learn(&life.device, (life.lqpn, rqpn), life.made_in(), || life.owner());
        }
    }

    /// Evaluates these settings of the host, as doctor does.
    pub fn learn(&mut self, mut facts: HostFacts) {
        for (name, neighbour) in &self.heard {
            if let Some(interface) = facts.interfaces.iter_mut().find(|known| known.name == *name) {
                interface.neighbour = Some(neighbour.clone());
            }
        }
        for port in &mut self.ports {
            port.learn(&facts);
        }
        self.facts = Some(facts);
        self.judge();
    }

    /// Records the LLDP announcement of an interface's switch.
    pub fn hear(&mut self, interface: &str, neighbour: Neighbour) {
        if self.heard.get(interface) == Some(&neighbour) {
            return;
        }
        let known = self.facts.iter_mut().flat_map(|facts| &mut facts.interfaces);
        if let Some(known) = known.into_iter().find(|known| known.name == interface) {
            known.neighbour = Some(neighbour.clone());
        }
        self.heard.insert(interface.to_owned(), neighbour);
        self.judge();
    }

    fn judge(&mut self) {
        let Some(facts) = &self.facts else { return };
        // Other interfaces and devices do not belong to this run.
        let mut others: BTreeSet<String> = facts.interfaces.iter().map(|i| i.name.clone()).collect();
        for device in &facts.devices {
            others.insert(device.name.clone());
            others.extend(device.ports.iter().map(|port| format!("{}/{}", device.name, port.port.number)));
        }
        for name in &self.interfaces {
            others.remove(name);
        }
        for port in &self.ports {
            others.remove(&port.device);
            others.remove(&format!("{}/{}", port.device, port.number));
        }
        let found = check::check(facts)
            .into_iter()
            .filter(|check| check.verdict >= Status::Warning && !others.contains(&check.subject));
        self.settings = found
            .map(|check| Setting {
                check: check.id,
                subject: check.subject,
                critical: check.verdict == Status::Critical,
                value: check.value,
                why: check.why,
                change: check.change,
            })
            .collect();
    }

    /// All readings so far.
    pub fn sample(&self) -> Devices {
        Devices {
            ports: self.ports.iter().map(PortWatch::sample).collect(),
            settings: self.settings.clone(),
            neighbours: self.heard.iter().map(|(name, heard)| (name.clone(), heard.clone())).collect(),
            lives: Arc::clone(&self.lives),
            lists: self.lists.clone(),
            contexts: Arc::clone(&self.contexts),
            posts: Arc::default(),
            kernel: kernel_version(),
        }
    }
}

/// The answers to a query, or none.
fn answers(kernel: &dyn Queries, query: Query) -> Vec<Vec<u8>> {
    kernel.rdma(query).unwrap_or_default()
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "unusual_tests.rs"]
mod unusual;
