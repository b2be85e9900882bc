//! What a run can be about: packets and counters, or counters alone where no program can be attached
//! or the device has no interface here.

use anyhow::{Error, Result, anyhow};

use super::Config;
use super::counting::Counting;
use super::source::{Loaded, Source};
use crate::host::kernel::{Capability, KernelFacts, Needs, preflight};
use crate::host::select::{self, Chosen};
use crate::host::sysfs::SysRoot;
use crate::host::{HostError, interface, rdma};
use crate::source::devices::watch::Watch;

/// What there is to say at the start.
pub(super) type Notes = Vec<String>;

/// A source that is ready to run.
pub(super) enum Begun {
    /// Programs are attached; devices are read beside.
    Packets(Box<Source>),
    /// Devices alone.
    Counters(Box<Counting>),
}

/// Attaches as configured, on the calling thread, whose network namespace it enters; goes on with
/// counters where that is all there is.
///
/// # Errors
/// When nothing at all can be read: why, and what would help.
pub(super) fn begin(mut config: Config) -> Result<(Begun, Notes)> {
    let facts = KernelFacts::read(std::path::Path::new("/"));
    let mut notes = Notes::new();
    let fit = preflight(&facts, Needs { netns: config.netns.is_some() });
    if let Some(netns) = &config.netns {
        netns.enter().map_err(|error| unless(&fit, error.into()))?;
    }
    let (chosen, watch) = look(&config).map_err(|error| unless(&fit, error))?;
    let Chosen { targets, without_interface } = chosen;
    let elsewhere: Vec<String> = without_interface.into_iter().map(|(_, why)| why).collect();
    if watch.is_empty() && (targets.is_empty() || fit.is_err()) {
        return Err(unless(&fit, anyhow!(elsewhere.join("; "))));
    }
    notes.extend(select::notes(&targets));
    let why = match &fit {
        Err(error) => Some(error.to_string()),
        Ok(()) => targets.is_empty().then(|| elsewhere.join("; ")),
    };
    if let Some(why) = why {
        let counting = Counting::begin(config, watch, &targets, &why)?;
        notes.push(format!("counters of {} only, no packets: {why}", counting.labels()));
        return Ok((Begun::Counters(Box::new(counting)), notes));
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
            Ok((Begun::Packets(Box::new(Source::new(loaded, config, watch))), notes))
        }
        // Where no packet of RoCE would pass a program, one that cannot be attached is no loss.
        Err(error) if watch.hides_all() => {
            let counting = Counting::begin(config, watch, &targets, &format!("{error:#}"))?;
            notes.push(format!("no program is attached, so non-RDMA traffic is not counted: {error:#}"));
            Ok((Begun::Counters(Box::new(counting)), notes))
        }
        Err(error) => Err(error),
    }
}

/// The error to tell: that the rights or the kernel do not suffice, if so, since it has the remedy.
fn unless(fit: &Result<(), HostError>, error: Error) -> Error {
    match fit {
        Err(unfit) => anyhow!(unfit.to_string()),
        Ok(()) => error,
    }
}

/// What the user's names mean, and the devices behind them.
fn look(config: &Config) -> Result<(Chosen, Watch)> {
    let root = SysRoot::of_this_thread()?;
    let all = interface::list_with_hardware(&root)?;
    let host_root = config.host.root()?;
    let devices = rdma::list(host_root.sys());
    let chosen = select::resolve(&config.interfaces, &all, &devices)?;
    let names: Vec<String> = chosen.targets.iter().map(|target| target.interface.name.clone()).collect();
    let without: Vec<String> = chosen.without_interface.iter().map(|(name, _)| name.clone()).collect();
    let watch = Watch::new(&host_root, config.host.ask(), &names, &without);
    Ok((chosen, watch))
}
