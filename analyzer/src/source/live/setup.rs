//! Start of a live run: packets and counters, or only counters if no program can be attached or the device has no
//! interface here.

use anyhow::{Error, Result, anyhow};

use super::config::Config;
use super::control::Notices;
use super::counters_only::CountersOnly;
use super::source::{Loaded, Source};
use crate::host::kernel::{Capability, KernelFacts, KernelVersion, PrivilegeNeeds, preflight};
use crate::host::net::hook::TCX_SINCE;
use crate::host::net::interface::{self, Interface, InterfaceKind};
use crate::host::net::select::{self, Chosen};
use crate::host::process::pods;
use crate::host::rdma::fwctl::Fwctl;
use crate::host::read::sysfs::SysRoot;
use crate::host::{HostError, rdma};
use crate::sandbox::{self, Plan};
use crate::source::devices::watch::Watch;
use crate::source::nccl::address::RasAddress;

/// A source that is ready to run.
pub(super) enum Prepared {
    /// Programs are attached, and device counters are read.
    Packets(Box<Source>),
    /// Device counters only.
    Counters(Box<CountersOnly>),
}

impl Prepared {
    /// Privileges that its thread needs from now on.
    pub(super) fn needs(&self) -> Plan {
        let mut plan = Plan { netlink: true, bpf: true, ..Plan::parser() };
        if let Self::Packets(_) = self {
            let facts = KernelFacts::read(std::path::Path::new("/"));
            if facts.version.is_none_or(|version| version < TCX_SINCE) {
                plan = plan.keeping(Capability::NetAdmin, "TC filters are removed at the end");
            }
            if facts.version.is_none_or(|version| version < MAPS_BY_DESCRIPTOR) {
                plan = plan.keeping(Capability::Bpf, "reading maps, before Linux 5.19");
            }
        }
        plan
    }
}

impl Prepared {
    /// The capabilities that threads keep after set-up, one sentence for each that keeps any. Call it before they are
    /// given up.
    pub(super) fn kept(&self) -> Vec<String> {
        let others = match self {
            Self::Packets(source) => source.kept(),
            Self::Counters(counting) => counting.kept(),
        };
        let own = ("source", sandbox::kept(&self.needs()));
        sandbox::kept_by([own].into_iter().chain(others))
    }
}

/// First kernel on which a process without CAP_BPF may use maps that it has open, regardless of
/// kernel.unprivileged_bpf_disabled.
const MAPS_BY_DESCRIPTOR: KernelVersion = KernelVersion::new(5, 19, 0);

/// Attaches as configured, on the calling thread, whose network namespace it changes; continues with counters if
/// nothing else is available.
///
/// # Errors
/// If neither packets nor counters are available, with reason and remedy.
pub(super) fn prepare(mut config: Config) -> Result<(Prepared, Notices)> {
    let mut notes = Notices::new();
    notes.extend(config.nccl_ras.as_ref().and_then(RasAddress::notice));
    let Visible { facts, fit, targets, elsewhere, hidden, watch } = visible(&config)?;
    notes.extend(select::notes(&targets));
    notes.extend(hidden.map(|hidden| format!("not watched, in other network namespaces: {hidden}")));
    let why = match &fit {
        Err(error) => Some(error.to_string()),
        Ok(()) => targets.is_empty().then(|| elsewhere.join("; ")),
    };
    if let Some(why) = why {
        let counting = CountersOnly::start(config, watch, &targets, &why)?;
        notes.push(format!("counters of {} only, no packets: {why}", counting.labels()));
        return Ok((Prepared::Counters(Box::new(counting)), notes));
    }
    if config.promiscuous && facts.capabilities.is_some_and(|held| !held.has(Capability::NetRaw)) {
        config.promiscuous = false;
        notes.push(
            "no promiscuous mode (CAP_NET_RAW missing): packets to other hosts' addresses, as on a mirror port, \
             may not be received, and LLDP is not available"
                .to_owned(),
        );
    }
    notes.extend(watch.notes());
    notes.extend(elsewhere.into_iter().map(|why| format!("counters only, no packets: {why}")));
    match Loaded::attach(&config, targets.clone(), facts.version) {
        Ok(mut loaded) => {
            notes.append(&mut loaded.notes);
            Ok((Prepared::Packets(Box::new(Source::new(loaded, config, watch))), notes))
        }
        // If all RoCE bypasses the programs, a failure to attach is not fatal.
        Err(error) if watch.hides_all() => {
            let counting = CountersOnly::start(config, watch, &targets, &format!("{error:#}"))?;
            notes.push(format!("no program is attached, so non-RDMA traffic is not counted: {error:#}"));
            Ok((Prepared::Counters(Box::new(counting)), notes))
        }
        Err(error) => Err(error),
    }
}

/// The facts and interfaces that a run sees on this host.
pub(super) struct Visible {
    facts: KernelFacts,
    /// An error if privileges or kernel do not allow programs.
    fit: Result<(), HostError>,
    targets: Vec<Interface>,
    /// Reasons why devices have no interface here.
    elsewhere: Vec<String>,
    /// Interfaces in other network namespaces, each with the option that watches it.
    hidden: Option<String>,
    watch: Watch,
}

/// Finds the interfaces and devices, on the calling thread, whose network namespace it changes. Attaches nothing.
///
/// # Errors
/// As [`prepare`].
pub(super) fn visible(config: &Config) -> Result<Visible> {
    let facts = KernelFacts::read(std::path::Path::new("/"));
    let fit = preflight(&facts, PrivilegeNeeds { netns: config.netns.is_some() });
    if let Some(netns) = &config.netns {
        netns.enter().map_err(|error| unless(&fit, error.into()))?;
    }
    let hidden = hidden(config);
    let (chosen, watch) = resolve(config).map_err(|error| {
        let error = hidden
            .iter()
            .fold(error, |error, hidden| anyhow!("{error} In other network namespaces: {hidden}."));
        unless(&fit, error)
    })?;
    let Chosen { targets, without_interface } = chosen;
    let elsewhere: Vec<String> = without_interface.into_iter().map(|(_, why)| why).collect();
    if watch.is_empty() && (targets.is_empty() || fit.is_err()) {
        return Err(unless(&fit, anyhow!(elsewhere.join("; "))));
    }
    Ok(Visible { facts, fit, targets, elsewhere, hidden, watch })
}

/// The functions of NICs that pods were given, `net1 of pod trainer-0 (--netns 4711)`, where the run watches what it
/// finds; `None` without any.
fn hidden(config: &Config) -> Option<String> {
    let is_chosen = config.netns.is_some() || !config.interfaces.is_empty();
    if is_chosen || !config.host.is_running() {
        return None;
    }
    listed(pods::elsewhere(&config.host.root().ok()?, |kind| *kind == InterfaceKind::Physical))
}

/// The first of these interfaces, each with the option that watches it, and the number of the others.
fn listed(mut all: Vec<(u32, String)>) -> Option<String> {
    const MOST: usize = 8;
    all.sort_unstable();
    let left_out = match all.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let named: Vec<String> =
        all.iter().take(MOST).map(|(pid, place)| format!("{place} (--netns {pid})")).collect();
    (!named.is_empty()).then(|| named.join(", ") + &left_out)
}

/// The error to report: missing privileges or an unsuitable kernel take precedence, since that error has the remedy.
fn unless(fit: &Result<(), HostError>, error: Error) -> Error {
    match fit {
        Err(unfit) => anyhow!(unfit.to_string()),
        Ok(()) => error,
    }
}

/// Resolves the user's names to interfaces and their RDMA devices.
fn resolve(config: &Config) -> Result<(Chosen, Watch)> {
    let root = SysRoot::of_this_thread()?;
    let all = interface::list_with_hardware(&root)?;
    let host_root = config.host.root()?;
    let devices = rdma::list(host_root.sys());
    let chosen = select::resolve(&config.interfaces, &all, &devices)?;
    let names: Vec<String> = chosen.targets.iter().map(|target| target.name.clone()).collect();
    let without: Vec<String> = chosen.without_interface.iter().map(|(name, _)| name.clone()).collect();
    let mut watch = Watch::new(&host_root, config.host.ask(), &names, &without);
    watch.query_contexts(config.qp_queries);
    if !config.qp_probes {
        watch.leave_out_probes();
    }
    if config.fwctl {
        let (fwctl, notes) = Fwctl::open(&host_root);
        watch.use_firmware(Box::new(fwctl), notes);
    }
    Ok((chosen, watch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_in_pods_are_listed_with_the_option_that_watches_them() {
        let place = |pid: u32| (pid, format!("net1 of pod trainer-{pid}"));
        assert_eq!(listed(Vec::new()), None);
        let two = listed(vec![place(12), place(7)]).unwrap();
        assert_eq!(two, "net1 of pod trainer-7 (--netns 7), net1 of pod trainer-12 (--netns 12)");
        let ten = listed((1..=10).map(place).collect()).unwrap();
        assert!(ten.ends_with("trainer-8 (--netns 8), and 2 more"), "{ten}");
    }
}
