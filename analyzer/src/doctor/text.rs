//! The page as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Page;
use super::check::{Check, Status};
use super::facts::{DeviceFacts, HostFacts, InterfaceFacts, PortFacts, Protocol};
use super::grouping::{Group, Names};
use super::visibility::{self, Visibility};
use crate::host::error::{AS_ROOT, NOT_ROOT};
use crate::host::net::dcb::Priorities;
use crate::host::process::{self, Container};
use crate::host::rdma::port::GidType;
use crate::util::layout::{plain, wrap};
use crate::util::style::{Paint, Role};
use crate::util::units::plural;

/// Minimum width in columns: narrower terminals get lines of this width.
const NARROWEST: usize = 60;
/// Maximum width in columns, for legibility.
const WIDEST: usize = 120;

/// The page as text for a terminal of `columns`. `verbose` adds unknown values with their reasons, and
/// lists every subject separately instead of in groups.
pub fn text(page: &Page, verbose: bool, columns: usize) -> String {
    painted(page, verbose, columns, Paint::PLAIN)
}

/// Text of the page, as [`text`], in colour.
pub fn painted(page: &Page, verbose: bool, columns: usize, paint: Paint) -> String {
    let width = columns.clamp(NARROWEST, WIDEST);
    let mut output = TextOutput { out: String::new(), width, paint };
    let names = if verbose { Names::default() } else { Names::of(&page.host) };
    let release = page.host.kernel.release.as_deref().unwrap_or("unknown");
    let netns =
        page.host.netns.as_ref().map_or_else(String::new, |name| format!(", network namespace {name}"));
    let found = found(page, &names, verbose);
    let short = in_short(&page.host, &found);
    output.paragraph(&format!("rocescope doctor on Linux {release}{netns}: {short}"), "");
    devices(&page.host, verbose, &mut output);
    visibility(page, &names, verbose, &mut output);
    layers(page, &mut output);
    problems(&page.host, &found, &mut output);
    output.heading("PASSED");
    output.table(page, Status::Ok, &names, verbose);
    let unknown = page.checks.iter().filter(|check| check.verdict == Status::Unknown).count();
    if verbose {
        if unknown > 0 {
            output.heading("UNKNOWN");
            output.table(page, Status::Unknown, &names, verbose);
        }
        unread(&page.host, &mut output);
    } else if unknown > 0 {
        output.line("");
        output.paragraph(
            &format!("{unknown} more checks could not be evaluated; --verbose lists them with reasons."),
            "",
        );
    }
    output.out
}

/// The checks at `info` or above, grouped, the worst first.
fn found<'a>(page: &'a Page, names: &Names, verbose: bool) -> Vec<Group<'a, Check>> {
    let found = page.checks.iter().filter(|check| check.verdict >= Status::Info);
    let words = |check: &Check| {
        let own = if verbose { check.subject.as_str() } else { "" };
        let [value, why, change] =
            [&check.value, &check.why, &check.change].map(|part| part.as_deref().unwrap_or_default());
        format!("{} {:?} {value} {why} {change} {own}", check.id, check.verdict)
    };
    names.group(found, |check| check.subject.as_str(), words)
}

/// The sentence about a host without RDMA devices.
const NO_DEVICE: &str = "no RDMA device, so nothing about RoCE was checked";

/// The number of issues by verdict; without an RDMA device nothing about RoCE was checked.
fn in_short(host: &HostFacts, found: &[Group<'_, Check>]) -> String {
    let of = |verdict| found.iter().filter(|group| group.first.verdict == verdict).count() as u64;
    let issues = match (of(Status::Critical), of(Status::Warning)) {
        // Of a host that has nothing to check it would be read as a clean bill.
        (0, 0) if host.devices.is_empty() => return NO_DEVICE.to_owned(),
        (0, 0) => "no issues found".to_owned(),
        (0, warnings) => plural(warnings, "warning"),
        (critical, 0) => format!("{critical} critical"),
        (critical, warnings) => format!("{critical} critical, {}", plural(warnings, "warning")),
    };
    if host.devices.is_empty() { format!("{NO_DEVICE}; {issues}") } else { issues }
}

/// The output under construction.
struct TextOutput {
    out: String,
    width: usize,
    paint: Paint,
}

impl TextOutput {
    /// Adds a line without wrapping.
    fn line(&mut self, text: &str) {
        self.out.push_str(&plain(text));
        self.out.push('\n');
    }

    fn heading(&mut self, title: &str) {
        let used = title.chars().count() + 4;
        let line = format!("── {title} {}", "─".repeat(self.width.saturating_sub(used)));
        self.line("");
        let line = self.paint.paint(Role::Heading, &line);
        let _ = writeln!(self.out, "{line}");
    }

    /// Adds a command on a line of its own, which can be copied.
    fn command(&mut self, command: &str) {
        let _ = writeln!(self.out, "    $ {}", self.paint.paint(Role::Command, &plain(command)));
    }

    /// Adds a paragraph whose first word says how serious it is.
    fn issue(&mut self, verdict: Status, text: &str) {
        let role = match verdict {
            Status::Critical => Role::Critical,
            Status::Warning => Role::Warning,
            _ => Role::Dim,
        };
        let start = self.out.len();
        self.paragraph(text, "");
        let painted = self.paint.head(role, &self.out[start..], verdict.name().len());
        self.out.truncate(start);
        self.out.push_str(&painted);
    }

    /// Adds wrapped text with a hanging indent.
    fn paragraph(&mut self, text: &str, indent: &str) {
        for (number, line) in wrap(&plain(text), self.width - indent.len() - 2).into_iter().enumerate() {
            let _ = writeln!(self.out, "{indent}{}{line}", if number == 0 { "" } else { "  " });
        }
    }

    /// Adds a table of the checks with one verdict; long values wrap within their column.
    fn table(&mut self, page: &Page, verdict: Status, names: &Names, verbose: bool) {
        let checks = page.checks.iter().filter(|check| check.verdict == verdict);
        let shown = |check: &Check| check.value.clone().or_else(|| check.why.clone()).unwrap_or_default();
        let words = |check: &Check| {
            let own = if verbose { check.subject.as_str() } else { "" };
            format!("{} {} {own}", check.id, shown(check))
        };
        let groups = names.group(checks, |check| check.subject.as_str(), words);
        let of = |group: &Group<'_, Check>| match &group.subjects[..] {
            [first, _, ..] => format!("{first} +{}", group.subjects.len() - 1),
            _ => group.first.subject.clone(),
        };
        let rows = groups.iter().map(|group| (group.first.id, plain(&of(group)), plain(&shown(group.first))));
        let rows: Vec<_> =
            std::iter::once(("CHECK", "SUBJECT".to_owned(), "VALUE".to_owned())).chain(rows).collect();
        let first = rows.iter().map(|(check, ..)| check.len()).max().unwrap_or(0);
        // A longer one is not padded to: names of processes and pods have any length, and a width of 65,536 is an
        // error.
        let second = rows.iter().map(|(_, of, _)| of.chars().count()).max().unwrap_or(0).min(self.width);
        let beside = self.width.saturating_sub(first + second + 4);
        // Too narrow for a value column: values go below their check.
        let (indent, room) =
            if beside < NARROWEST / 3 { (4, self.width - 4) } else { (first + second + 4, beside) };
        for (check, of, value) in &rows {
            let left = format!("{check:<first$}  {of:<second$}");
            let mut lines = wrap(value, room).into_iter();
            let line = if indent == 4 { String::new() } else { lines.next().unwrap_or_default() };
            let _ = writeln!(self.out, "{}", format!("{left}  {line}").trim_end());
            for line in lines {
                let _ = writeln!(self.out, "{:indent$}{line}", "");
            }
        }
    }
}

fn visibility(page: &Page, names: &Names, verbose: bool, output: &mut TextOutput) {
    output.heading("VISIBILITY");
    if page.visibility.is_empty() {
        output.paragraph("No network interface except loopback, and no RDMA device.", "");
    }
    let (_, others) = interfaces(&page.host, verbose);
    let is_other = |subject: &str| others.iter().any(|other| other.name == subject);
    let shown = page.visibility.iter().filter(|entry| !is_other(&entry.subject));
    let said = |entry: &Visibility| {
        let own = if verbose { entry.subject.as_str() } else { "" };
        let command = entry.command.as_deref().unwrap_or_default();
        format!("{} {} {} {command} {own}", entry.source.name(), entry.availability.name(), entry.why)
    };
    let groups = names.group(shown, |entry| entry.subject.as_str(), said);
    if groups.iter().any(|group| group.subjects.len() > 1 && group.differs) {
        output.paragraph(OF_THE_FIRST, "");
    }
    for group in groups {
        let entry = group.first;
        let (source, availability) = (entry.source.name(), entry.availability.name());
        output.paragraph(&format!("{}, {source}: {availability}; {}.", group.label(), entry.why), "");
        if let Some(command) = &entry.command {
            output.command(command);
        }
    }
    if others.iter().any(|other| other.up) {
        let which = if others.len() == 1 {
            "The interface".into()
        } else {
            format!("The {} interfaces", others.len())
        };
        let line = format!(
            "{which} without RDMA, packets: yes, where up; RoCE sent through them passes XDP and TC."
        );
        output.paragraph(&line, "");
        output.command(&visibility::live_anywhere(&page.host));
    }
}

/// The layers of queue pairs whose packets bypass the kernel: a line each.
fn layers(page: &Page, output: &mut TextOutput) {
    if page.layers.is_empty() {
        return;
    }
    output.heading("QUEUE PAIRS WITHOUT PACKETS");
    let name = page.layers.iter().map(|layer| layer.name.len()).max().unwrap_or(0);
    for layer in &page.layers {
        let words = layer.works.name();
        output.paragraph(&format!("{:<name$}  {words:<7}  {}", layer.name, layer.reason), "");
    }
}

/// Note above grouped entries whose text contains names.
const OF_THE_FIRST: &str = "Grouped entries show the text and commands of the first subject.";

fn problems(host: &HostFacts, found: &[Group<'_, Check>], output: &mut TextOutput) {
    output.heading("ISSUES");
    if found.is_empty() {
        output.line("None.");
    }
    let change = found.iter().any(|group| group.first.change.is_some());
    if change && host.kernel.root != Some(true) {
        output.paragraph("Commands that change settings need a root shell (sudo -i).", "");
    }
    if let Some(entering) = host.entering().filter(|_| change) {
        output.line(&format!("Run commands that change interfaces in this network namespace: {entering}"));
    }
    if found.iter().any(|group| group.subjects.len() > 1 && group.differs) {
        output.paragraph(OF_THE_FIRST, "");
    }
    for group in found {
        let check = group.first;
        let value = check.value.as_deref().unwrap_or("unknown");
        let head = format!("{:<8}  {}  {}: {value}", check.verdict.name(), check.id, group.label());
        output.issue(check.verdict, &head);
        if let Some(why) = &check.why {
            output.paragraph(&format!("{why}."), INDENT);
        }
        if let Some(change) = &check.change {
            output.paragraph(&format!("Change: {change}"), INDENT);
        }
    }
}

const INDENT: &str = "          ";

fn unread(host: &HostFacts, output: &mut TextOutput) {
    output.heading("NOT READABLE");
    for reason in &host.unread {
        output.paragraph(&format!("{}: cannot {}: {}", reason.subject, reason.what, reason.why), "");
        if let Some(remedy) = &reason.remedy {
            output.paragraph(&format!("Remedy: {remedy}"), "    ");
        }
    }
    let unreadable = &host.processes_unreadable;
    if !unreadable.is_empty() {
        let line = format!(
            "host: cannot read the environment of {} process{} (NCCL settings): permission denied by the kernel: {}",
            unreadable.len(),
            if unreadable.len() == 1 { "" } else { "es" },
            process::by_name(unreadable),
        );
        output.paragraph(&line, "");
        let remedy = if host.kernel.root == Some(true) { NOT_ROOT } else { AS_ROOT };
        output.paragraph(&format!("Remedy: {remedy}"), "    ");
    }
}

fn devices(host: &HostFacts, verbose: bool, output: &mut TextOutput) {
    output.heading("DEVICES");
    if host.devices.is_empty() {
        let remedy = "No RDMA device. If the host has an RDMA NIC, its RDMA driver is not loaded: look for the NIC, then \
                      load its driver (mlx5_ib, bnxt_re, irdma, ionic_rdma).";
        output.paragraph(remedy, "");
        output.command("lspci -nnk | grep -A 3 -iE 'ethernet|infiniband'");
    }
    for device in &host.devices {
        for port in &device.ports {
            output.paragraph(&device_line(device, port), "");
            for gid in port.port.gids.iter().filter(|_| verbose) {
                let kind = match gid.kind {
                    Some(GidType::V1) if device.protocol == Protocol::Roce => "RoCE v1",
                    Some(GidType::V2) => "RoCE v2",
                    _ => "not RoCE",
                };
                let on = gid.interface.as_ref().map_or_else(String::new, |name| format!(", on {name}"));
                output.paragraph(&format!("GID {}: {}, {kind}{on}", gid.index, gid.address()), "    ");
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
        parts.extend(interface.xdp.map(|mode| format!("XDP program attached ({mode})")));
        if let Some(neighbour) = &interface.neighbour {
            parts.push(format!("switch {}", neighbour.label()));
            if let Some(pfc) = neighbour.pfc {
                parts.push(format!("with PFC on priority {}", Priorities(pfc.enabled)));
            }
        }
        output.paragraph(&parts.join(", "), "");
    }
    if !others.is_empty() {
        output.paragraph(&summary(&others), "");
    }
    for gpu in &host.gpus {
        let node = gpu.pci.numa_node.map_or_else(String::new, |node| format!(", NUMA node {node}"));
        output.line(&format!("{} GPU {}{node}", gpu.vendor, gpu.pci.address));
    }
    for (settings, who) in jobs(host) {
        output.paragraph(&format!("{}: {settings}", who.join(", ")), "");
    }
}

/// The interfaces with a line of their own and those that share one; all have their own when
/// `verbose`.
fn interfaces(host: &HostFacts, verbose: bool) -> (Vec<&InterfaceFacts>, Vec<&InterfaceFacts>) {
    host.interfaces.iter().partition(|interface| verbose || interface.is_place_for_roce())
}

/// One line for the interfaces that share one, by kind and state.
fn summary(others: &[&InterfaceFacts]) -> String {
    /// The number of interfaces listed by name: hosts with containers have hundreds.
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

/// NCCL's network settings, and the processes that have them: a job
/// has one process for each GPU.
fn jobs(host: &HostFacts) -> BTreeMap<String, Vec<String>> {
    const OF_NETWORK: [&str; 5] =
        ["NCCL_IB_", "NCCL_SOCKET_", "NCCL_NET", "NCCL_CROSS_NIC", "NCCL_CONF_FILE"];
    let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for process in &host.processes {
        let settings = process.settings().filter(|name| OF_NETWORK.iter().any(|of| name.starts_with(of)));
        let settings = settings.filter(|name| process.get(name).is_some());
        let settings: Vec<String> = settings.map(|name| process.shown(name)).collect();
        let container = process.container.as_ref().and_then(Container::label);
        let container = container.map(|label| format!(" in {label}")).unwrap_or_default();
        let who = format!("{}{container}", process.label());
        let settings =
            if settings.is_empty() { "NCCL without network settings".to_owned() } else { settings.join(" ") };
        jobs.entry(settings).or_default().push(who);
    }
    jobs
}

fn device_line(device: &DeviceFacts, port: &PortFacts) -> String {
    let mut parts = vec![format!("{}/{}", device.name, port.port.number)];
    parts.extend(device.driver.clone());
    parts.extend((device.protocol != Protocol::Roce).then(|| device.protocol.name().to_owned()));
    parts.extend(port.port.interface.as_ref().map(|name| format!("on {name}")));
    parts.extend(port.port.state.clone());
    parts.extend((device.roce_enabled == Some(false)).then(|| "RoCE disabled".to_owned()));
    parts.extend(port.port.rate_mbps.map(rate));
    parts.extend(port.active_mtu.map(|mtu| format!("RDMA MTU {mtu}")));
    parts.extend(device.firmware.as_ref().map(|version| format!("firmware {version}")));
    parts.extend(device.pci.as_ref().and_then(|pci| pci.numa_node).map(|node| format!("NUMA node {node}")));
    parts.extend(device.queue_pairs.map(|count| plural(count as u64, "queue pair")));
    let of = |kind| port.port.gids.iter().filter(|gid| gid.kind == Some(kind)).count();
    let (v1, v2) = (of(GidType::V1), of(GidType::V2));
    if v1 + v2 > 0 {
        let v4 = port.port.gids.iter().filter(|gid| gid.is_ipv4()).count();
        parts.push(format!("GIDs: {v2} RoCE v2, {v1} v1 ({v4} IPv4)"));
    }
    parts.join(", ")
}

/// A rate given in Mbit/s as text.
fn rate(mbps: u64) -> String {
    if mbps >= 1000 { format!("{} Gb/s", mbps as f64 / 1000.0) } else { format!("{mbps} Mb/s") }
}
