//! Queue pairs whose set-up failed, from the kernel's control path.

use super::ends;
use crate::analysis::{Device, QpEvent};
pub use crate::entity::lives::PAST_VERBS;
use crate::findings::title::title;
use crate::findings::{
    ByHand, Commands, Entry, Episode, Family, Finding, Input, Place, Problem, Raise, Severity, Unit, label,
};
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[SETUP_FAILED],
    limits: &[],
    evidence: &[
        label("failures", "failed verbs", Unit::Count).summed(),
        label("verb", "verb", Unit::Text),
        label("error", "error", Unit::Text),
        label("process", "process", Unit::Text),
        label("longest_call_ns", "longest failed call", Unit::Nanoseconds),
    ],
    check,
};

const SETUP_FAILED: Entry = Entry {
    id: "qp.setup_failed",
    rank: 85,
    title: "Queue pair set-up failed",
    meaning: "The kernel refused to connect a queue pair: the job does not start, or continues without this connection. The application often reports no more than that it failed.",
    computed: "From devices[].qp_events: a modify to INIT, RTR or RTS that returned an error, by a verb or past the verbs (DEVX), or a creation for which there was no memory or no room. A warning from the first on.",
    advice: "ETIMEDOUT (110) on the way to RTR: the peer's address was not resolved to a MAC address; check the route, the neighbour entry and the VLAN of the interface. EINVAL (22): the two sides \
             disagree about GID index, MTU or attributes; compare NCCL_IB_GID_INDEX with the GID table. ENOMEM (12) and ENOSPC (28): limits of locked memory (ulimit -l) or of the device's queue pairs.",
    caveat: "The errors are those that the kernel returned to the caller. Libraries that try one setting after another fail on purpose at first.",
    ..Entry::of(Problem::Silent)
};

/// Failed calls of one device with the same verb and error.
struct Failures<'a> {
    device: &'a Device,
    errno: i32,
    events: Vec<&'a QpEvent>,
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let mut kinds: Vec<Failures<'_>> = Vec::new();
    for device in &input.facts.devices {
        for event in &device.qp_events {
            let Some(errno) = event.errno.filter(|errno| matters(&event.event, *errno)) else { continue };
            let same = |known: &&mut Failures<'_>| {
                known.errno == errno
                    && known.device.name == device.name
                    && known.events.first().is_some_and(|first| first.event == event.event)
            };
            match kinds.iter_mut().find(same) {
                Some(known) => known.events.push(event),
                None => kinds.push(Failures { device, errno, events: vec![event] }),
            }
        }
    }
    for failures in &kinds {
        raise(input, failures, found);
    }
}

/// Verbs without which there is no connection: any error of one counts.
pub const CONNECTING: [&str; 3] = ["modify to INIT", "modify to RTR", "modify to RTS"];

/// The verb that creates a queue pair, and its errors that count: those of a lack of resources, as applications probe
/// the capabilities of a device by creating queue pairs.
pub const CREATING: (&str, [i32; 3]) = ("create", [libc::ENOMEM, libc::ENOSPC, libc::EAGAIN]);

fn matters(event: &str, errno: i32) -> bool {
    let (create, errors) = CREATING;
    // `DEVX modify to RTR (syndrome 0x2a)`: a command past the verbs, and the firmware's reason.
    let past_verbs = event.strip_prefix(PAST_VERBS);
    let verb = past_verbs.map_or(event, |verb| verb.split(" (").next().unwrap_or(verb));
    CONNECTING.contains(&verb) || verb == create && errors.contains(&errno)
}

fn raise(input: &Input<'_>, failures: &Failures<'_>, found: &mut Vec<Finding>) {
    let Failures { device, errno, events } = failures;
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
    let error = std::io::Error::from_raw_os_error(*errno).to_string();
    let to = last.dst.map_or_else(String::new, |dst| format!(" towards {dst}"));
    let count = events.len() as u64;
    let diagnosis = format!("{} failed {} on {}", last.event, plural(count, "time"), device.name);
    let interface = device.interface.as_deref().unwrap_or("");
    let here = Commands::on(input, interface);
    let (requester, responder) = ends::of_event(last, None);
    let process = ends::process(last.comm.as_deref(), last.pid);
    let longest = events.iter().filter_map(|event| event.duration_ns).max();
    let mut raise =
        Raise::new(&SETUP_FAILED, Severity::Warning, title(diagnosis, [to, format!(": {error}")]))
            .evidence("failures", count)
            .evidence("verb", last.event.as_str())
            .evidence("error", error.as_str())
            .evidence("longest_call_ns", longest)
            .place(Place::link(input, interface, None))
            .evidence("process", process)
            .ends(requester, responder)
            .episodes(vec![Episode { first_ns: first.time_ns, last_ns: last.time_ns, peak: None }]);
    if let (libc::ETIMEDOUT, Some(dst)) = (*errno, last.dst) {
        raise = raise.step(format!("Check that {dst} is reachable from {interface}."), here.ping(dst.into()));
    }
    if let Some(longest) = longest {
        raise = raise.step(
            format!(
                "Compare the time of the failed call ({}) with the application's own timeouts.",
                units::duration(longest)
            ),
            ByHand::Reading,
        );
    }
    raise
        .step("Compare the GID index in use with the GID table of the device.", here.doctor())
        .step("List the queue pairs of the device and their states.", here.queue_pairs())
        .into(found);
}

#[cfg(test)]
mod tests {
    use crate::analysis::{Options, fixtures};
    use crate::entity::lives::{Lives, QpEvent};
    use crate::findings::Severity;
    use crate::findings::tests::{found, severity};
    use crate::sample::Sample;

    fn failed(calls: &[(&str, i32)]) -> Sample {
        let events = calls.iter().map(|(what, errno)| QpEvent {
            errno: Some(*errno),
            duration_ns: Some(1_020_000_000),
            src: None,
            ..fixtures::qp_event(17, what, fixtures::START)
        });
        let lives = Lives { events: events.collect(), ..Lives::default() };
        fixtures::with_lives(fixtures::port(), lives)
    }

    #[test]
    fn verbs_without_which_there_is_no_connection_are_found() {
        for (calls, expected) in [
            (&[("modify to RTR", 110)][..], Some(Severity::Warning)),
            (&[("create", 12)], Some(Severity::Warning)),
            // Past the verbs, with and without the firmware's reason.
            (&[("DEVX modify to RTR (syndrome 0x2a)", 121)], Some(Severity::Warning)),
            (&[("DEVX modify to INIT", 121)], Some(Severity::Warning)),
            (&[("DEVX modify to ERR (syndrome 0x2a)", 121)], None),
            // A library that probes capabilities, and one that cleans up.
            (&[("create", 95), ("create", 22)], None),
            (&[("modify to ERR", 22)], None),
            (&[], None),
        ] {
            assert_eq!(severity(&failed(calls), "qp.setup_failed"), expected, "{calls:?}");
        }
        let calls = [("modify to RTR", 110), ("modify to RTR", 110), ("modify to RTR", 22)];
        let all = found(&failed(&calls), &Options::default());
        let titles: Vec<&str> =
            all.iter().filter(|one| one.id == "qp.setup_failed").map(|one| one.title.as_str()).collect();
        assert_eq!(titles.len(), 2, "one for each error: {titles:?}");
        assert!(
            titles.iter().any(|title| title.starts_with("modify to RTR failed 2 times on mlx5_0")),
            "{titles:?}"
        );
    }
}
