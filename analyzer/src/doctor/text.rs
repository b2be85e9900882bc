//! The page as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Page;
use super::check::{Check, Verdict};
use super::facts::{DeviceFacts, HostFacts, InterfaceFacts, PortFacts, Protocol};
use super::sight;
use crate::host::dcb::Priorities;
use crate::host::port::GidType;
use crate::host::process;
use crate::report::text::layout::{Align, Table, plain, wrap};
use crate::units::plural;

/// Columns of the page.
const WIDTH: usize = 120;

/// The page for people; `verbose` adds what is unknown, and why.
#[must_use]
pub fn text(page: &Page, verbose: bool) -> String {
    let mut out = String::new();
    let release = page.host.kernel.release.as_deref().unwrap_or("unknown");
    let netns =
        page.host.netns.as_ref().map_or_else(String::new, |name| format!(", network namespace {name}"));
    let _ = writeln!(out, "rocescope doctor on Linux {}{}", plain(release), plain(&netns));
    devices(&page.host, verbose, &mut out);
    heading("WHAT ROCESCOPE CAN SEE HERE", &mut out);
    if page.sights.is_empty() {
        out.push_str("There is no network interface but the loopback, and no RDMA device.\n");
    }
    let (_, others) = interfaces(&page.host, verbose);
    let is_other = |subject: &str| others.iter().any(|other| other.name == subject);
    for sight in page.sights.iter().filter(|sight| !is_other(&sight.subject)) {
        let line = format!("{}, {}: {}", plain(&sight.subject), sight.way.name(), sight.works.name());
        paragraph(&format!("{line}; {}.", plain(&sight.why)), "", &mut out);
        if let Some(command) = &sight.command {
            let _ = writeln!(out, "    $ {}", plain(command));
        }
    }
    if !others.is_empty() {
        let which = if others.len() == 1 {
            "The interface".into()
        } else {
            format!("The {} interfaces", others.len())
        };
        let line = format!(
            "{which} without RDMA, packets: yes where up; RoCE that somebody sends through passes XDP and TC."
        );
        paragraph(&line, "", &mut out);
        let _ = writeln!(out, "    $ {}", plain(&sight::live_anywhere(&page.host)));
    }
    let found: Vec<&Check> = page.checks.iter().filter(|check| check.verdict >= Verdict::Info).collect();
    heading("WHAT TO LOOK AT", &mut out);
    if found.is_empty() {
        out.push_str("Nothing.\n");
    }
    let change = found.iter().any(|check| check.change.is_some());
    if change && page.host.kernel.root != Some(true) {
        out.push_str("Commands that change settings want a root shell (sudo -i).\n");
    }
    if let Some(entering) = page.host.entering().filter(|_| change) {
        let _ = writeln!(
            out,
            "Those that change interfaces are for this network namespace: {}",
            plain(&entering)
        );
    }
    for check in found {
        problem(check, &mut out);
    }
    heading("AS IT SHOULD BE", &mut out);
    table(page, Verdict::Ok, &mut out);
    let unknown = page.checks.iter().filter(|check| check.verdict == Verdict::Unknown).count();
    if verbose {
        if unknown > 0 {
            heading("UNKNOWN", &mut out);
            table(page, Verdict::Unknown, &mut out);
        }
        heading("NOT READ", &mut out);
        for reason in &page.host.unread {
            let line = format!("{}: cannot {}: {}", reason.subject, reason.what, reason.why);
            paragraph(&plain(&line), "", &mut out);
            if let Some(remedy) = &reason.remedy {
                paragraph(&plain(&format!("Remedy: {remedy}")), "    ", &mut out);
            }
        }
        let unreadable = &page.host.processes_unreadable;
        if !unreadable.is_empty() {
            let line = format!(
                "host: cannot read the environment of {} process{}, for settings of NCCL: the kernel does not permit it to this process: {}",
                unreadable.len(),
                if unreadable.len() == 1 { "" } else { "es" },
                process::by_name(unreadable),
            );
            paragraph(&plain(&line), "", &mut out);
            out.push_str("    Remedy: root (sudo) may read all but what the kernel guards from root too\n");
        }
    } else if unknown > 0 {
        let _ = writeln!(out, "\n{unknown} more could not be judged; --verbose says which and why.");
    }
    out
}

fn heading(title: &str, out: &mut String) {
    let used = title.chars().count() + 4;
    let _ = writeln!(out, "\n── {title} {}", "─".repeat(WIDTH.saturating_sub(used)));
}

fn paragraph(text: &str, indent: &str, out: &mut String) {
    for (number, line) in wrap(text, WIDTH - indent.len() - 2).into_iter().enumerate() {
        let _ = writeln!(out, "{indent}{}{line}", if number == 0 { "" } else { "  " });
    }
}

fn problem(check: &Check, out: &mut String) {
    let value = check.value.as_deref().unwrap_or("unknown");
    let head = format!("{:<8}  {}  {}: {}", check.verdict.name(), check.id, check.subject, value);
    paragraph(&plain(&head), "", out);
    if let Some(why) = &check.why {
        paragraph(&plain(&format!("{why}.")), "          ", out);
    }
    if let Some(change) = &check.change {
        paragraph(&plain(&format!("Change: {change}")), "          ", out);
    }
}

fn table(page: &Page, verdict: Verdict, out: &mut String) {
    let mut table = Table::new(vec![("CHECK", Align::Left), ("OF", Align::Left), ("VALUE", Align::Left)]);
    for check in page.checks.iter().filter(|check| check.verdict == verdict) {
        let shown = check.value.as_deref().or(check.why.as_deref()).unwrap_or("-");
        table.row(vec![check.id.to_owned(), plain(&check.subject), plain(shown)]);
    }
    for line in table.lines(WIDTH) {
        let _ = writeln!(out, "{line}");
    }
}

fn devices(host: &HostFacts, verbose: bool, out: &mut String) {
    heading("DEVICES", out);
    if host.devices.is_empty() {
        out.push_str("No RDMA device.\n");
    }
    for device in &host.devices {
        for port in &device.ports {
            paragraph(&plain(&device_line(device, port)), "", out);
            for gid in port.port.gids.iter().filter(|_| verbose) {
                let kind = match gid.kind {
                    Some(GidType::V1) if device.protocol == Protocol::Roce => "RoCE v1",
                    Some(GidType::V2) => "RoCE v2",
                    _ => "no RoCE",
                };
                let on = gid.interface.as_ref().map_or_else(String::new, |name| format!(", on {name}"));
                paragraph(&plain(&format!("GID {}: {}, {kind}{on}", gid.index, gid.address())), "    ", out);
            }
        }
    }
    let (shown, others) = interfaces(host, verbose);
    for interface in shown {
        let mut parts = vec![format!("{} ({})", interface.name, interface.kind)];
        parts.extend(interface.driver.clone());
        parts.push(if interface.up { "up".into() } else { "down".into() });
        parts.push(interface.speed_mbps.map_or_else(|| "speed -".into(), |mbps| rate(u64::from(mbps))));
        parts.push(format!("MTU {}", interface.mtu));
        if !interface.devices.is_empty() {
            parts.push(format!("RDMA {}", interface.devices.join(", ")));
        }
        parts.extend(interface.xdp.map(|mode| format!("carries an XDP program ({mode})")));
        if let Some(neighbour) = &interface.neighbour {
            parts.push(format!("switch {}", neighbour.label()));
            if let Some(pfc) = neighbour.pfc {
                parts.push(format!("which has PFC on priority {}", Priorities(pfc.enabled)));
            }
        }
        paragraph(&plain(&parts.join(", ")), "", out);
    }
    if !others.is_empty() {
        paragraph(&plain(&summary(&others)), "", out);
    }
    for gpu in &host.gpus {
        let node = gpu.pci.numa_node.map_or_else(String::new, |node| format!(", NUMA node {node}"));
        let _ = writeln!(out, "{} GPU {}{node}", gpu.vendor, plain(&gpu.pci.address));
    }
    for (settings, who) in jobs(host) {
        paragraph(&plain(&format!("{}: {settings}", who.join(", "))), "", out);
    }
}

/// The interfaces that have a line of their own, and those that share one; all have their own when
/// `verbose`.
fn interfaces(host: &HostFacts, verbose: bool) -> (Vec<&InterfaceFacts>, Vec<&InterfaceFacts>) {
    host.interfaces.iter().partition(|interface| verbose || interface.is_place_for_roce())
}

/// A line about interfaces that have none of their own: by kind, and whether packets can arrive.
fn summary(others: &[&InterfaceFacts]) -> String {
    /// A host with containers has hundreds.
    const NAMED: usize = 6;
    let mut kinds: BTreeMap<(bool, &str), Vec<&str>> = BTreeMap::new();
    for other in others {
        kinds.entry((!other.up, other.kind.as_str())).or_default().push(&other.name);
    }
    let one = |((down, kind), names): (&(bool, &str), &Vec<&str>)| {
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        format!("{names}{more} ({kind}{})", if *down { ", down" } else { "" })
    };
    format!("Without RDMA: {}", kinds.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// The settings of NCCL that decide how it uses the network, and the processes that have them: a job
/// has one for each GPU.
fn jobs(host: &HostFacts) -> BTreeMap<String, Vec<String>> {
    const OF_NETWORK: [&str; 4] = ["NCCL_IB_", "NCCL_SOCKET_", "NCCL_NET", "NCCL_CROSS_NIC"];
    let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for process in &host.processes {
        let settings = process.environment.iter();
        let settings = settings.filter(|(name, _)| OF_NETWORK.iter().any(|of| name.starts_with(of)));
        let settings: Vec<String> = settings.map(|(name, value)| format!("{name}={value}")).collect();
        let container = process.container.as_ref().map(|c| format!(" in {}", c.label())).unwrap_or_default();
        let who = format!("{} {}{container}", process.comm.as_deref().unwrap_or("process"), process.pid);
        let settings = if settings.is_empty() {
            "NCCL without settings of the network".to_owned()
        } else {
            settings.join(" ")
        };
        jobs.entry(settings).or_default().push(who);
    }
    jobs
}

fn device_line(device: &DeviceFacts, port: &PortFacts) -> String {
    let mut parts = vec![format!("{}/{}", device.name, port.port.number)];
    parts.extend(device.driver.clone());
    parts.extend(port.port.interface.as_ref().map(|name| format!("on {name}")));
    parts.extend(port.port.state.clone());
    parts.extend((device.roce_enabled == Some(false)).then(|| "RoCE switched off".to_owned()));
    parts.extend(port.port.rate_mbps.map(rate));
    parts.extend(port.active_mtu.map(|mtu| format!("RDMA MTU {mtu}")));
    parts.extend(device.firmware.as_ref().map(|version| format!("firmware {version}")));
    parts.extend(device.pci.as_ref().and_then(|pci| pci.numa_node).map(|node| format!("NUMA node {node}")));
    parts.extend(device.queue_pairs.map(|count| plural(count as u64, "queue pair")));
    let of = |kind| port.port.gids.iter().filter(|gid| gid.kind == Some(kind)).count();
    let (v1, v2) = (of(GidType::V1), of(GidType::V2));
    if v1 + v2 > 0 {
        let v4 = port.port.gids.iter().filter(|gid| gid.is_ipv4()).count();
        parts.push(format!("{v2} GIDs of RoCE v2, {v1} of v1 ({v4} IPv4)"));
    }
    parts.join(", ")
}

/// Mbit/s for people.
fn rate(mbps: u64) -> String {
    if mbps >= 1000 { format!("{} Gb/s", mbps as f64 / 1000.0) } else { format!("{mbps} Mb/s") }
}
