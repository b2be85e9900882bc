//! Attaches programs to interfaces as planned.

use anyhow::{Context as _, Result, anyhow};
use aya::programs::links::{FdLink, LinkOrder};
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle};
use aya::programs::{ProgramError, TcAttachType, TcError, XdpMode as AyaXdpMode, tc};

use super::load::{Programs, with_limit};
use super::names;
use crate::host::net::filters;
use crate::host::net::hook::{Ingress, Plan, XdpMode};
use crate::host::net::interface::{Framing, Interface};
use crate::host::net::promisc::Promiscuous;
use crate::util::limit;

/// Programs on one interface. Dropping it detaches them.
#[derive(Debug)]
pub struct Attached {
    /// The interface as it was when attaching.
    pub interface: Interface,
    /// The ingress hook in use.
    pub ingress: Ingress,
    links: Vec<AttachGuard>,
    /// Set if rocescope added the clsact qdisc, which is removed with the last filter.
    clsact: bool,
    promiscuous: Option<Promiscuous>,
}

/// A guard that keeps a program attached.
#[derive(Debug)]
enum AttachGuard {
    Xdp(#[expect(dead_code, reason = "held for its drop")] FdLink),
    Tc(#[expect(dead_code, reason = "held for its drop")] SchedClassifierLink),
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.links.clear();
        if self.clsact {
            // A failure here has no remedy, and an empty qdisc has no effect.
            let _ = filters::remove_clsact_if_empty(self.interface.index);
        }
    }
}

/// Loads the programs that a plan needs. The kernel verifies a program for up to seconds, in which those that are
/// attached already would count alone. One that it refuses is reported when it is attached.
pub fn load(programs: &mut Programs, interface: &Interface, plan: &Plan) {
    let _ = match plan.ingress {
        Ingress::Xdp { frags, .. } => programs.xdp(xdp_name(frags)).map(|_| ()),
        Ingress::Tc => programs.tc(tc_name(interface, false)).map(|_| ()),
    };
    let _ = programs.tc(tc_name(interface, true));
}

const fn xdp_name(frags: bool) -> &'static str {
    if frags { names::XDP_FRAGS } else { names::XDP }
}

fn tc_name(interface: &Interface, egress: bool) -> &'static str {
    match (interface.framing, egress) {
        (Framing::RawIp, false) => names::TC_RAW_INGRESS,
        (Framing::RawIp, true) => names::TC_RAW_EGRESS,
        (_, false) => names::TC_INGRESS,
        (_, true) => names::TC_EGRESS,
    }
}

/// Attaches to one interface as planned. If the kernel refuses the ingress hook, the fallbacks of the plan are tried
/// in turn, and the notes report it.
///
/// # Errors
/// If no ingress hook or no egress hook can be attached.
pub fn attach(
    programs: &mut Programs,
    interface: &Interface,
    plan: &mut Plan,
    promiscuous: bool,
) -> Result<Attached> {
    let name = &interface.name;
    let mut attached = Attached {
        interface: interface.clone(),
        ingress: plan.ingress,
        links: Vec::new(),
        clsact: false,
        promiscuous: None,
    };
    if !plan.tcx {
        // A clsact qdisc with only rocescope's filters was added by a killed run, or by a running one that leaves it
        // to this run if it ends first.
        attached.clsact = filters::are_all_ours(interface.index).unwrap_or(false);
        filters::remove_stale_filters(interface.index)
            .with_context(|| format!("cannot remove the filters of an earlier run on {name}"))?;
    }
    loop {
        let result = match plan.ingress {
            Ingress::Xdp { mode, frags } => xdp(programs, interface, mode, frags),
            Ingress::Tc => tc_program(programs, interface, plan.tcx, false, &mut attached.clsact),
        };
        match result {
            Ok(hold) => {
                attached.links.push(hold);
                break;
            }
            Err(error) => {
                let reason = format!("{error:#}");
                if plan.refused(name, &reason).is_none() {
                    let error = with_limit(error);
                    return Err(error.context(format!("cannot attach a program to ingress of {name}")));
                }
            }
        }
    }
    attached.ingress = plan.ingress;
    let egress = tc_program(programs, interface, plan.tcx, true, &mut attached.clsact)
        .map_err(with_limit)
        .with_context(|| format!("cannot attach a program to egress of {name}"))?;
    attached.links.push(egress);
    if promiscuous {
        let guard = Promiscuous::enable(interface.index).with_context(|| {
            format!("cannot enable promiscuous mode on {name}; use --no-promisc to run without it")
        })?;
        attached.promiscuous = Some(guard);
    }
    Ok(attached)
}

fn xdp(programs: &mut Programs, interface: &Interface, mode: XdpMode, frags: bool) -> Result<AttachGuard> {
    let program = programs.xdp(xdp_name(frags))?;
    let mode = match mode {
        XdpMode::Native => AyaXdpMode::Driver,
        XdpMode::Generic => AyaXdpMode::Skb,
    };
    let link = program.attach_to_if_index(interface.index, mode).map_err(plain)?;
    // An attachment without a link would outlive a kill; dropping the link detaches.
    let link = FdLink::try_from(program.take_link(link)?)
        .map_err(|_| anyhow!("the kernel does not support XDP links"))?;
    Ok(AttachGuard::Xdp(link))
}

fn tc_program(
    programs: &mut Programs,
    interface: &Interface,
    tcx: bool,
    egress: bool,
    clsact: &mut bool,
) -> Result<AttachGuard> {
    let name = &interface.name;
    let added = if tcx { Ok(()) } else { tc::qdisc_add_clsact(name) };
    *clsact |= !tcx && added.is_ok();
    // An existing clsact qdisc is used as well, and stays.
    let without = added.err().filter(|why| !exists(why));
    let program = programs.tc(tc_name(interface, egress))?;
    let direction = if egress { TcAttachType::Egress } else { TcAttachType::Ingress };
    let options = if tcx {
        // First at ingress, last at egress: nearest to the wire.
        TcAttachOptions::TcxOrder(if egress { LinkOrder::last() } else { LinkOrder::first() })
    } else {
        // The handle identifies the owner of the filter to later runs.
        let handle = TcHandle::from(filters::owner_handle());
        TcAttachOptions::Netlink(NlOptions { handle, ..NlOptions::default() })
    };
    let link = program.attach_with_options(name, direction, options).map_err(|error| match &without {
        None => plain(error),
        Some(why) => no_clsact(name, errno(why), &limit::chain(why)),
    })?;
    Ok(AttachGuard::Tc(program.take_link(link)?))
}

/// The error of adding a clsact qdisc, with the remedy for the errno.
fn no_clsact(interface: &str, errno: Option<i32>, cause: &str) -> anyhow::Error {
    let remedy = match errno {
        // The kernel has loaded the module by itself if it exists and may be loaded.
        Some(libc::ENOENT | libc::EOPNOTSUPP) => {
            "; load the module with `modprobe sch_ingress` (CONFIG_NET_SCH_INGRESS)"
        }
        Some(libc::EPERM | libc::EACCES) => "; this needs CAP_NET_ADMIN: run as root (sudo)",
        _ => "",
    };
    anyhow!("cannot add a clsact qdisc for TC filters to {interface}: {cause}{remedy}")
}

/// True if a qdisc could not be added because one exists.
fn exists(error: &TcError) -> bool {
    errno(error) == Some(libc::EEXIST)
}

/// The errno inside a TC error.
fn errno(error: &TcError) -> Option<i32> {
    match error {
        TcError::NetlinkError(error) => error.raw_os_error(),
        TcError::IoError(error) => error.raw_os_error(),
        _ => None,
    }
}

fn plain(error: ProgramError) -> anyhow::Error {
    let text = limit::chain(&error);
    drop(error);
    anyhow!(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::root_or_skip;

    #[test]
    fn without_a_clsact_the_cause_and_what_helps_are_named() {
        let error = |errno| TcError::IoError(std::io::Error::from_raw_os_error(errno));
        for (number, expected) in [
            (libc::ENOENT, Some("modprobe sch_ingress")),
            (libc::EOPNOTSUPP, Some("modprobe sch_ingress")),
            (libc::EPERM, Some("run as root")),
            (libc::ENODEV, None),
        ] {
            let why = error(number);
            let text = no_clsact("eth0", errno(&why), &limit::chain(&why)).to_string();
            assert!(text.starts_with("cannot add a clsact qdisc for TC filters to eth0: "), "{text}");
            for remedy in ["modprobe", "root"] {
                let is_expected = expected.is_some_and(|expected| expected.contains(remedy));
                assert_eq!(text.contains(remedy), is_expected, "{number}: {text}");
            }
        }
        assert!(exists(&error(libc::EEXIST)) && !exists(&error(libc::ENOENT)));
    }

    /// The errno is found in the library's errors as well.
    #[test]
    fn the_kernels_answer_is_read_from_the_error_of_a_request() {
        if !root_or_skip("the_kernels_answer_is_read_from_the_error_of_a_request") {
            return;
        }
        // No interface has this name.
        let refused = tc::qdisc_add_clsact("no-such-if0").unwrap_err();
        assert_eq!(errno(&refused), Some(libc::ENODEV), "{refused:?}");
    }
}
