//! `doctor`: collects facts, checks them, prints the page.

use std::path::Path;
use std::process::ExitCode;
use std::slice;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{DoctorArgs, PageOutput};
use crate::cli::confine;
use crate::cli::output::{self, Interrupt};
use crate::cli::progress::Progress;
use crate::doctor::facts::{HostFacts, InterfaceFacts};
use crate::doctor::{self, Page};
use crate::ethernet::lldp::Neighbour;
use crate::host::net::listen::{self, LldpSocket};
use crate::host::net::netns::NetNs;
use crate::host::net::{filters, interface};
use crate::host::read::queries::Kernel;
use crate::host::read::{HostRoot, UnreadReasons};
use crate::source::capture::{LINKTYPE_EN10MB, Reader};
use crate::util::nearest::hint;
use crate::util::style::Paint;

/// Exit status when a check is critical.
const CRITICAL: u8 = 3;

/// Runs the command and returns the exit status: 0, or 3 if a check is critical.
pub(super) fn doctor(args: &DoctorArgs, paint: Paint) -> Result<ExitCode> {
    if let Some(name) = &args.netns {
        // The thread stays in this namespace: everything below concerns it.
        NetNs::open(name)?.enter()?;
    }
    confine::doctor();
    // First, so that an error in a name is reported at once.
    let captured: Vec<(&String, &Path, Vec<Speaker>)> = (args.lldp_capture.iter())
        .map(|(name, file)| {
            Ok((name, file.as_path(), confine::parsing(slice::from_ref(file), || speakers(file))??))
        })
        .collect::<Result<_>>()?;
    let (mut heard, mut unread) = (Vec::new(), UnreadReasons::new());
    if args.clean {
        clean()?;
    }
    let root = HostRoot::here()?;
    let progress = Progress::waiting("reading the settings of this host".to_owned(), None);
    let mut host = doctor::collect(&root, &Kernel);
    doctor::ask_contexts(&mut host, &Kernel);
    drop(progress);
    host.netns.clone_from(&args.netns);
    host.kernel.sandbox_missing = confine::missing();
    if let Some(limit) = args.lldp {
        heard.extend(from_switches(&host, limit, &mut unread)?);
    }
    for (name, file, speakers) in captured {
        let own = root.text(&format!("/sys/class/net/{name}/address")).ok();
        let (neighbour, why) = switch(speakers, own.as_deref());
        if let Some(why) = why {
            output::say(&format!("{} {why}", file.display()));
            unread.about(name);
            unread.note(
                format!("read the switch's LLDP frames in {}", file.display()),
                format!("it {why}"),
                None,
            );
        }
        heard.extend(neighbour.map(|neighbour| (name.clone(), neighbour)));
    }
    host.unread.extend(unread.into_reasons());
    for (name, neighbour) in heard {
        let found = host.interfaces.iter_mut().find(|interface| interface.name == name);
        let Some(interface) = found else {
            let names = host.interfaces.iter().map(|interface| interface.name.as_str());
            let hint = hint(&name, names.clone());
            let names = names.collect::<Vec<_>>().join(", ");
            bail!("--lldp-capture: unknown interface {name}{hint}; the interfaces of this host are {names}")
        };
        interface.neighbour = Some(neighbour);
    }
    let page = Page::of(host);
    let text = match args.output {
        PageOutput::Text => doctor::text::painted(&page, args.verbose, output::width(), paint),
        PageOutput::Json => page.json().context("cannot write the page as JSON")?,
    };
    output::page(&text)?;
    Ok(ExitCode::from(status(&page)))
}

/// The exit status for a page.
fn status(page: &Page) -> u8 {
    if page.is_critical() { CRITICAL } else { 0 }
}

/// Listens up to `limit` for LLDP frames of the switches, by interface; `unread` gets the reasons for missing ones.
fn from_switches(
    host: &HostFacts,
    limit: Duration,
    unread: &mut UnreadReasons,
) -> Result<Vec<(String, Neighbour)>> {
    let interrupt = Interrupt::catch()?;
    let mut sockets = Vec::new();
    let mut refused = false;
    // LLDP runs between ports: an interface stacked on another one receives no frames of its own.
    let has_port =
        |i: &&InterfaceFacts| i.kind == "physical" || (!i.devices.is_empty() && i.below.is_empty());
    for interface in host.interfaces.iter().filter(|i| i.up).filter(has_port) {
        match LldpSocket::open(&interface.name, interface.index) {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                refused = true;
                output::say(&error.to_string());
                unread.about(&interface.name);
                unread.failed(&error);
            }
        }
    }
    let names: Vec<&str> = sockets.iter().map(LldpSocket::name).collect();
    if names.is_empty() {
        // The reason for a refused interface has been recorded already.
        if !refused {
            output::say("--lldp: no physical interface is up to listen on");
        }
        return Ok(Vec::new());
    }
    output::say(&format!("listening for LLDP on {} for at most {} s", names.join(", "), limit.as_secs()));
    // The sockets are open; frames are parsed without the rights to open more.
    let progress = Progress::waiting("listening for LLDP".to_owned(), Some(limit));
    let heard = confine::parsing(&[], || listen::listen(&sockets, limit, || interrupt.is_set()))?;
    drop(progress);
    for (name, error) in &heard.failed {
        unread.about(name);
        unread.failed(error);
    }
    for name in names {
        if !heard.neighbours.iter().any(|(heard, _)| heard == name) {
            unread.about(name);
            let why = format!("no frame within {} s", limit.as_secs());
            let remedy = format!(
                "enable LLDP on the switch port; a NIC firmware with an LLDP agent consumes the frames \
                 (ice: ethtool --set-priv-flags {name} fw-lldp-agent off)"
            );
            unread.note("read the switch's LLDP frames", why, Some(&remedy));
        }
    }
    Ok(heard.neighbours)
}

/// Removes TC filters that killed runs left behind, and reports them.
fn clean() -> Result<()> {
    let mut removed = 0;
    for interface in interface::list()? {
        let cannot = || format!("cannot clean {}", interface.name);
        // A clsact qdisc with only rocescope's filters was created by the killed run.
        let clsact_is_ours = filters::are_all_ours(interface.index).with_context(cannot)?;
        let count = filters::remove_stale_filters(interface.index).with_context(cannot)?;
        if count > 0 {
            let clsact =
                clsact_is_ours && filters::remove_clsact_if_empty(interface.index).with_context(cannot)?;
            let with = if clsact { " and their clsact qdisc" } else { "" };
            output::say(&format!("removed {count} TC filters{with} from {}", interface.name));
        }
        removed += count;
    }
    if removed == 0 {
        output::say("no stale TC filter of rocescope found");
    }
    Ok(())
}

/// An LLDP sender: its MAC address in sysfs notation, and its last frame.
type Speaker = (String, Neighbour);

/// All LLDP senders in a capture, in the order of their last frames. Of each sender the last frame with DCBX settings
/// is taken, else its last frame.
fn speakers(file: &Path) -> Result<Vec<Speaker>> {
    let mut reader = Reader::open(file)?;
    let mut found: Vec<Speaker> = Vec::new();
    while let Some(record) = reader.next()? {
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("lldp");
        let Some(neighbour) = Neighbour::parse(record.data).filter(|_| record.link_type == LINKTYPE_EN10MB)
        else {
            continue;
        };
        let bytes = record.data.get(6..12).unwrap_or_default();
        let address = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
        let before = found.iter().position(|(of, _)| *of == address).map(|at| found.remove(at).1);
        let last = before.filter(|before| before.dialect.is_some() && neighbour.dialect.is_none());
        found.push((address, last.unwrap_or(neighbour)));
    }
    Ok(found)
}

/// The switch among the senders: the last one with DCBX settings, else the last. `own` is the interface's MAC
/// address; its own frames are in the capture as well. Also returns a notice if the choice is ambiguous or empty.
fn switch(mut speakers: Vec<Speaker>, own: Option<&str>) -> (Option<Neighbour>, Option<String>) {
    let silent = speakers.is_empty();
    speakers.retain(|(address, _)| Some(address.as_str()) != own);
    let labels: Vec<String> = speakers.iter().map(|(_, neighbour)| neighbour.label()).collect();
    let at = speakers.iter().rposition(|(_, neighbour)| neighbour.dialect.is_some());
    let Some((_, neighbour)) = at.map(|at| speakers.swap_remove(at)).or_else(|| speakers.pop()) else {
        let why = if silent { "has no LLDP frame" } else { "has no LLDP frame but the host's own" };
        return (None, Some(why.to_owned()));
    };
    let why = (labels.len() > 1).then(|| {
        let (all, taken) = (labels.join(", "), neighbour.label());
        format!("has LLDP frames of several neighbours ({all}); {taken} is used")
    });
    (Some(neighbour), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::lldp::Dialect;
    use crate::host::read::recorded::Recorded;

    #[test]
    fn the_switch_is_distinguished_from_host_and_others() {
        let speaker = |address: &str, system: &str, dialect| {
            let system = Some(system.to_owned());
            (address.to_owned(), Neighbour { system, dialect, ..Neighbour::default() })
        };
        let own = Some("02:00:00:00:00:01");
        let host = speaker("02:00:00:00:00:01", "gpu1", Some(Dialect::Ieee));
        let leaf = speaker("02:00:00:00:00:02", "leaf1", Some(Dialect::Ieee));
        let phone = speaker("02:00:00:00:00:03", "phone", None);
        let system = |speakers: &[&Speaker], own| {
            let (found, why) = switch(speakers.iter().map(|one| (*one).clone()).collect(), own);
            (found.and_then(|found| found.system), why)
        };
        assert_eq!(system(&[&leaf, &host], own), (Some("leaf1".into()), None));
        let (found, why) = system(&[&leaf, &phone], own);
        assert_eq!(found.as_deref(), Some("leaf1"));
        assert!(why.unwrap().contains("(leaf1, phone); leaf1 is used"));
        assert_eq!(system(&[&phone, &host], own).0.as_deref(), Some("phone"));
        assert!(system(&[&host], own).1.unwrap().contains("but the host's own"));
        assert_eq!(system(&[], None), (None, Some("has no LLDP frame".into())));
    }

    #[test]
    fn a_critical_check_sets_the_exit_status() {
        const MLX5: &str = include_str!("../../../tests/data/host/mlx5.txt");
        for (change, expected) in [
            ("", 0),
            // A warning: the link has fewer lanes than possible, but enough bandwidth.
            ("sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/current_link_width = 8", 0),
            // Critical: global pause is on beside PFC.
            ("answers/pause/enp59s0np0 = off on on", 3),
        ] {
            let host = Recorded::unpack(&format!("{MLX5}\n[]\n{change}"));
            let page = Page::of(doctor::collect(&host.root(), &host.kernel()));
            assert_eq!(status(&page), expected, "{change}: {:#?}", page.checks);
        }
    }
}
