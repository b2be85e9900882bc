//! Parts of the run in which a group of links is uneven: those that cost enough of a minute, and one that lasts until
//! now.

use super::{LinksLimits, Uneven};
use crate::analysis::{Imbalance, uneven};
use crate::findings::order::{OVER_NS, QUIET_TIMES};
use crate::findings::title::short;
use crate::findings::{Episode, Input};
use crate::util::units;

/// Maximum number of parts of the run that are evaluated, each later than the previous one.
const MOST_PARTS: usize = 64;

/// A part of the run in which a group was uneven although it is even over the whole run: the longest part, or a later
/// one after the longest has ended; what lasts until now is the latest.
pub(super) fn of(input: &Input<'_>, group: &Imbalance, packets: u64) -> Option<Uneven> {
    let limits = &input.limits.links;
    let mut parts = parts(input, group, packets);
    let latest = uneven::Latest::of(input.sample, group, limits.stretch_loaded);
    let Some(latest) = latest else { return uneven_of(input, group, parts, false) };
    let mut lasts = false;
    if let Some(now) = lately(limits, &latest, packets) {
        match parts.last_mut() {
            Some(part) if now.link == part.link && now.since_ns < part.until_ns + OVER_NS => {
                part.silence_ns = part.silence_ns.max(now.since_ns.saturating_sub(part.until_ns));
                part.until_ns = part.until_ns.max(now.until_ns);
            }
            _ if even_since(limits, &latest, &now, limits.lasting_ns).is_none() => {
                lasts = true;
                parts.push(now);
            }
            _ => {}
        }
    }
    let mut settled = false;
    if let Some(part) = parts.last_mut().filter(|part| !lasts && !is_over(input, part))
        && let Some(since_ns) = settled_since(input, group, &latest, part)
    {
        settled = true;
        // A longer window reaches into the even load.
        if part.window_ns > latest.window_ns() {
            part.until_ns = part.until_ns.min(since_ns).max(part.since_ns);
        }
    }
    uneven_of(input, group, parts, settled)
}

/// Parts that are long enough, each after the one before it has ended.
fn parts(input: &Input<'_>, group: &Imbalance, packets: u64) -> Vec<uneven::Uneven> {
    let limits = &input.limits.links;
    let least = limits.stretch_max_over_mean;
    let part = |after_ns| {
        let part = uneven::longest(input.sample, group, least, limits.stretch_loaded, after_ns..u64::MAX)?;
        let counts = part.windows >= limits.stretch_windows
            && (part.windows as f64) >= limits.stretch_ratio * part.of_windows as f64
            && has_packets(limits, &part, packets);
        counts.then_some(part)
    };
    let next = |before: &uneven::Uneven| is_over(input, before).then(|| part(before.until_ns))?;
    std::iter::successors(part(0), next).take(MOST_PARTS).collect()
}

/// Packets are not counted per window; the packets of a group have similar lengths.
fn has_packets(limits: &LinksLimits, part: &uneven::Uneven, packets: u64) -> bool {
    packets as f64 * part.bytes_ratio >= limits.min_packets as f64
}

fn is_over(input: &Input<'_>, part: &uneven::Uneven) -> bool {
    input.facts.window.last_ns.is_some_and(|end| end.saturating_sub(part.until_ns) >= OVER_NS)
}

/// The imbalance of the last seconds. It need not fill a tenth of a minute: how long it will last is not known. In
/// return it has to be as uneven as a whole run, and longer than what coincides by chance. If it ends before it has
/// cost enough, it is withdrawn.
fn lately(limits: &LinksLimits, latest: &uneven::Latest<'_>, packets: u64) -> Option<uneven::Uneven> {
    let part = latest.longest(limits.max_over_mean)?;
    let counts = part.windows >= limits.lasting_windows
        && part.until_ns.saturating_sub(part.since_ns) >= limits.lasting_ns
        && has_packets(limits, &part, packets);
    counts.then_some(part)
}

/// Since when the load has been even after a part, for `span_ns` or longer.
fn even_since(
    limits: &LinksLimits,
    latest: &uneven::Latest<'_>,
    part: &uneven::Uneven,
    span_ns: u64,
) -> Option<u64> {
    // Where a longer window ended is not known.
    let after_ns = if part.window_ns > latest.window_ns() { 0 } else { part.until_ns };
    latest.even_since(&part.link, limits.stretch_max_over_mean, limits.lasting_windows, (after_ns, span_ns))
}

/// The same; `None` while that may be one of its pauses: links that take turns for seconds are one problem, which
/// lasts.
fn settled_since(
    input: &Input<'_>,
    group: &Imbalance,
    latest: &uneven::Latest<'_>,
    part: &uneven::Uneven,
) -> Option<u64> {
    let limits = &input.limits.links;
    let (limit, loaded) = (limits.stretch_max_over_mean, limits.stretch_loaded);
    let just_before = part.since_ns.saturating_sub(OVER_NS)..part.since_ns;
    let before = uneven::longest(input.sample, group, limit, loaded, just_before);
    if before.is_some_and(|before| before.link == part.link && before.windows >= limits.stretch_windows) {
        return None;
    }
    even_since(limits, latest, part, limits.lasting_ns.max(part.silence_ns.saturating_mul(QUIET_TIMES)))
}

/// The last of these parts in words, with all as episodes. `settled`: even load was seen after it.
fn uneven_of(
    input: &Input<'_>,
    group: &Imbalance,
    mut parts: Vec<uneven::Uneven>,
    settled: bool,
) -> Option<Uneven> {
    // Windows of bins begin before the data and end after it.
    let window = &input.facts.window;
    let within = |ns: u64| ns.max(window.first_ns.unwrap_or(0)).min(window.last_ns.unwrap_or(u64::MAX));
    let episode = |part: &uneven::Uneven| Episode {
        first_ns: within(part.since_ns),
        last_ns: within(part.until_ns),
        peak: Some(part.max_over_mean),
    };
    let episodes: Vec<Episode> = parts.iter().map(episode).collect();
    let part = parts.pop()?;
    let run_ns = window.length_ns().unwrap_or(part.length_ns);
    let length_ns = part.length_ns.min(run_ns);
    let (link, ratio, links) = (short(&part.link), part.max_over_mean, group.links.len());
    let has_ended = settled || is_over(input, &part);
    let verb = if has_ended { "carried" } else { "carries" };
    let diagnosis = format!("Uneven load: {link} {verb} {ratio:.2} × the mean of {links} links");
    let mut uneven = Uneven::new(group.links.clone(), &part.link, ratio, diagnosis)
        .evidence("busiest", part.link.as_str())
        .evidence("max_over_mean", ratio)
        .evidence("run_max_over_mean", group.max_over_mean)
        .evidence("since_ns", within(part.since_ns))
        .evidence("length_ns", length_ns)
        .evidence("windows", part.windows)
        .of_bytes(part.bytes);
    // What share of the run it will have cost is known when it has ended.
    if has_ended {
        uneven = uneven.evidence("of_windows", part.of_windows).evidence("bytes_ratio", part.bytes_ratio);
    }
    let lasted = episodes.last().map_or(0, |last| last.last_ns.saturating_sub(last.first_ns));
    uneven.more = format!(" for {}", units::duration(lasted));
    uneven.direction = group.direction;
    (uneven.whole, uneven.episodes, uneven.settled) = (false, episodes, settled);
    Some(uneven)
}
