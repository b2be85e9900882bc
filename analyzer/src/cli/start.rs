//! `rocescope` without arguments: devices of this host, their visibility, and useful commands.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;

use super::progress::Progress;
use super::{confine, output};
use crate::doctor::visibility::{self, Availability, SourceKind, Visibility};
use crate::doctor::{self, facts::HostFacts};
use crate::host::read::HostRoot;
use crate::host::read::queries::Kernel;
use crate::util::layout::{plain, wrap};

/// Names listed before the rest is only counted.
const NAMES: usize = 6;

/// Prints the page. Returns the arguments of the terminal view if the user accepts its offer, which is made if it would
/// show something.
pub(super) fn start() -> Result<Option<Vec<String>>> {
    let progress = Progress::waiting("reading the settings of this host".to_owned(), None);
    // Processes of others chose some of what is read there, and the view may go on with all rights.
    let facts = confine::alone(|| HostRoot::here().map(|root| doctor::collect(&root, &Kernel)))??;
    drop(progress);
    let visible = visibility::of_host(&facts);
    output::page(&page(&facts, &visible, output::width()))?;
    let Some(offered) = offer(&facts, &visible) else { return Ok(None) };
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Ok(None);
    }
    let shown = plain(&offered.join(" "));
    output::page(&format!("\nEnter starts `rocescope {shown}`, q and Enter leaves: "))?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer)?;
    let _ = io::stdout().flush();
    Ok((read > 0 && answer.trim().is_empty()).then_some(offered))
}

/// The arguments of a view that would show traffic, with the privileges of this process: without options `live` watches
/// interfaces of RDMA devices; where there are none, the interface that [`commands`] names.
fn offer(facts: &HostFacts, visible: &[Visibility]) -> Option<Vec<String>> {
    let is_ready = |entry: &&Visibility| {
        let sudo = entry.command.as_ref().is_some_and(|command| command.starts_with("sudo "));
        entry.availability == Availability::Yes && entry.source != SourceKind::Sniffer && !sudo
    };
    let live = || "live".to_owned();
    if !facts.devices.is_empty() {
        return visible.iter().any(|entry| is_ready(&entry)).then(|| vec![live()]);
    }
    let seen = packets(visible).filter(is_ready)?;
    Some(vec![live(), "-i".to_owned(), seen.subject.clone()])
}

/// The first interface whose packets can be seen.
fn packets(visible: &[Visibility]) -> Option<&Visibility> {
    let is_seen =
        |entry: &&Visibility| entry.source == SourceKind::Packets && entry.availability == Availability::Yes;
    visible.iter().find(is_seen)
}

/// The page as text, from facts alone.
fn page(facts: &HostFacts, visible: &[Visibility], columns: usize) -> String {
    let mut out = format!(
        "rocescope {}: RoCE traffic per queue pair, and what is wrong with it\n\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut row = |name: &str, text: &str| {
        let mut lines = wrap(&plain(text), columns.clamp(60, 120).saturating_sub(9)).into_iter();
        let _ = writeln!(out, "{name:<9}{}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(out, "{:9}{line}", "");
        }
    };
    let devices = facts.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>();
    let up =
        facts.interfaces.iter().filter(|interface| interface.up).map(|interface| interface.name.as_str());
    row(
        "host",
        &format!(
            "Linux {}; RDMA devices: {}; interfaces up: {}; GPUs: {}",
            facts.kernel.release.as_deref().unwrap_or("unknown"),
            list(&devices),
            list(&up.collect::<Vec<_>>()),
            facts.gpus.len()
        ),
    );
    for source in [SourceKind::Packets, SourceKind::Counters] {
        let subjects = |wanted: Availability| -> Vec<&str> {
            let of = visible.iter().filter(|entry| entry.source == source && entry.availability == wanted);
            of.map(|entry| entry.subject.as_str()).collect()
        };
        let (yes, no) = (subjects(Availability::Yes), subjects(Availability::No));
        let mut text = list(&yes);
        if let Some(first) =
            visible.iter().find(|entry| entry.source == source && entry.availability == Availability::No)
        {
            let _ = write!(text, "; not of {}: {}", list(&no), first.why);
        }
        row(source.name(), &text);
    }
    let missing = facts.kernel.missing_capabilities.as_deref().unwrap_or_default();
    if !missing.is_empty() {
        row("rights", &format!("this process lacks {}: use sudo for packets", missing.join(", ")));
    }
    out.push_str("\nUseful here:\n");
    let commands = commands(facts, visible);
    let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (command, what) in commands {
        let _ = writeln!(out, "  {command:<width$}  {what}");
    }
    out.push_str("\n`rocescope --help` lists all commands.\n");
    out
}

/// Three commands, most useful first.
fn commands(facts: &HostFacts, visible: &[Visibility]) -> [(String, &'static str); 3] {
    let sudo = if facts.kernel.missing_capabilities.as_deref().is_some_and(|missing| !missing.is_empty()) {
        "sudo "
    } else {
        ""
    };
    let program = facts.kernel.command();
    let of = |rest: &str| format!("{sudo}{program} {rest}");
    let replay = (format!("{program} replay trace.pcap"), "a capture, also without root");
    let doctor = (of("doctor"), "what can be seen, and whether RoCE is configured correctly");
    if !facts.devices.is_empty() {
        return [(of("live"), "the RoCE traffic of this host"), doctor, replay];
    }
    let packets = packets(visible);
    let first = packets.map_or_else(
        || (of("demo"), "generated traffic with problems to find"),
        |entry| {
            (of(&format!("live -i {}", plain(&entry.subject))), "RoCE on a mirror port, or sent by software")
        },
    );
    let second =
        if packets.is_some() { (of("demo"), "generated traffic with problems to find") } else { doctor };
    [first, second, replay]
}

/// The first names, and the number of the rest.
fn list(names: &[&str]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let more = names.len().saturating_sub(NAMES);
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::{DeviceFacts, InterfaceFacts, KernelState};

    fn host(devices: &[&str], interfaces: &[&str], missing: &[&'static str]) -> HostFacts {
        HostFacts {
            kernel: KernelState {
                release: Some("6.12.0".to_owned()),
                missing_capabilities: Some(missing.to_vec()),
                ..KernelState::default()
            },
            devices: devices
                .iter()
                .map(|name| DeviceFacts { name: (*name).to_owned(), ..DeviceFacts::default() })
                .collect(),
            interfaces: interfaces
                .iter()
                .map(|name| InterfaceFacts {
                    name: (*name).to_owned(),
                    up: true,
                    ..InterfaceFacts::default()
                })
                .collect(),
            ..HostFacts::default()
        }
    }

    fn shown(facts: &HostFacts) -> String {
        page(facts, &visibility::of_host(facts), 100)
    }

    #[test]
    fn a_host_with_devices_is_pointed_to_live() {
        let text = shown(&host(&["mlx5_0"], &["eth0"], &["CAP_BPF"]));
        assert!(
            text.contains("RDMA devices: mlx5_0") && text.contains("this process lacks CAP_BPF"),
            "{text}"
        );
        assert!(text.contains("  sudo rocescope live "), "{text}");
        assert!(text.lines().count() <= 20, "a few lines: {text}");
    }

    #[test]
    fn one_without_is_pointed_to_an_interface_or_the_demonstration() {
        let text = shown(&host(&[], &["eth0"], &[]));
        assert!(text.contains("rocescope live -i eth0") && text.contains("rocescope demo"), "{text}");
        let text = shown(&host(&[], &[], &[]));
        assert!(text.contains("interfaces up: none") && text.contains("  rocescope demo"), "{text}");
    }

    #[test]
    fn the_view_is_offered_where_it_shows_something() {
        let offered = |facts: &HostFacts| offer(facts, &visibility::of_host(facts));
        let of = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(offered(&host(&[], &["eth0", "eth1"], &[])), of(&["live", "-i", "eth0"]));
        assert_eq!(offered(&host(&[], &["eth0"], &["CAP_BPF"])), None, "it would need sudo");
        assert_eq!(offered(&host(&[], &[], &[])), None);
    }

    #[test]
    fn names_are_shown_without_control_characters() {
        let text = shown(&host(&["mlx\u{1b}[2J"], &["eth\u{7}"], &[]));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }

    #[test]
    fn many_names_are_counted() {
        assert_eq!(list(&["a", "b", "c", "d", "e", "f", "g", "h"]), "a, b, c, d, e, f and 2 more");
    }
}
