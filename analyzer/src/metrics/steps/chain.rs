//! Chains of waiting among the hosts of several ports.
//!
//! A port that shows only what a host sends cannot tell whether that host is late by itself or waits for another one.
//! The host's own port can: it shows what arrives there and what leaves. So who is waited for on one port is no culprit
//! when its own port is in sight and names another host; the chain ends at a host of which no port in sight knows more.

use super::port_of;
use super::straggler::{Straggler, StragglerCause};
use crate::metrics::traffic::hosts::{Host, Pair};

/// True if a host both sends and receives data on a port, so that the port shows what it waits for.
fn is_port_of(pairs: &[Pair], ports: &[u16], port: u16, host: Host) -> bool {
    let own = || pairs.iter().filter(|pair| port_of(ports, pair.link) == port && pair.data_bytes > 0);
    own().any(|pair| pair.src == host) && own().any(|pair| pair.dst == host)
}

/// Those of some ports' stragglers that wait for nobody in sight: not those whose own port names another host. None is
/// left where the ports name each other's hosts in a circle: then nobody is known to be the cause.
pub(super) fn ends(found: &[Straggler], pairs: &[Pair], ports: &[u16]) -> Vec<Straggler> {
    let waits = |one: &Straggler| {
        let mut others = found.iter().filter(|other| other.host != one.host);
        !one.certain && others.any(|other| is_port_of(pairs, ports, other.link, one.host))
    };
    found.iter().filter(|one| !waits(one)).copied().collect()
}

/// The straggler that is best known: certain counts before what costs more, and a name before a host that may wait
/// itself.
pub(super) fn best(found: &[Straggler]) -> Option<Straggler> {
    let key = |s: &&Straggler| (s.why != StragglerCause::Upstream, s.certain, s.why, s.steps, s.behind_ns);
    let best = found.iter().max_by_key(key)?;
    // A port that shows more of the hosts shows a later start of the last of the others.
    let same = found.iter().filter(|other| other.host == best.host && other.why == best.why);
    let behind_ns = same.map(|other| other.behind_ns).min().unwrap_or(best.behind_ns);
    Some(Straggler { behind_ns, ..*best })
}
