//! Paths of queue pairs of which no packet is seen.

use crate::analysis::{QpBalance, QpPaths, hashing_case};
use crate::report::Report;
use crate::util::layout::{labelled, plain};
use crate::util::units::{self, plural};

pub(super) fn lines(report: &Report, room: usize) -> Vec<String> {
    let Some(paths) = &report.facts.qp_paths else { return Vec::new() };
    let mut texts = vec![spread(paths)];
    texts.extend(hashed(paths));
    let balances = [("ports", &paths.ports), ("rails", &paths.rails), ("planes", &paths.planes)];
    texts.extend(balances.into_iter().filter_map(|(name, balance)| {
        let balance = balance.as_ref()?;
        Some(shared(name, balance))
    }));
    let mut labels = ["Paths of QPs without packets: "].into_iter().chain(std::iter::repeat("    "));
    texts.iter().flat_map(|text| labelled(labels.next().unwrap_or(""), 4, text, room)).collect()
}

fn spread(paths: &QpPaths) -> String {
    let figures = match (paths.tuples.effective_flows, paths.tuples.entropy_bits, paths.tuples.top_share) {
        (Some(effective), Some(bits), Some(top)) => format!(
            ", {}, {effective:.1} effective flows, entropy {bits:.2} bits, normalized {}; the largest carries {}",
            plural(paths.tuples.source_ports, "source port"),
            units::ratio(paths.tuples.normalized),
            units::ratio(Some(top))
        ),
        _ => String::new(),
    };
    let unknown = paths
        .unknown
        .iter()
        .map(|(why, count)| format!("; {} unknown: {}", plural(*count, "QP"), plain(why)));
    let weight = if paths.weighted_by == "bytes" { "PSNs sent × path MTU" } else { "each QP alike" };
    format!(
        "{} of {} QPs, {} (weight: {weight}){figures}{}",
        units::count(paths.known),
        units::count(paths.qps),
        plural(paths.tuples.five_tuples, "5-tuple"),
        unknown.collect::<String>()
    )
}

/// The what-if of `--ecmp`.
fn hashed(paths: &QpPaths) -> Option<String> {
    let ecmp = paths.ecmp.as_ref()?;
    let cases = ecmp.sets.iter().flat_map(|set| &set.cases).filter_map(|case| {
        let words = hashing_case(&case.case)?;
        Some(format!("{words} {:.2} (p95 {:.2})", case.max_over_mean_p50, case.max_over_mean_p95))
    });
    let cases: Vec<String> = cases.collect();
    Some(format!("Hashed over {} uplinks, busiest / mean: {}", ecmp.uplinks, cases.join(", ")))
}

fn shared(name: &str, balance: &QpBalance) -> String {
    let is_bytes = balance.weighted_by == "bytes";
    let parts = balance.parts.iter().map(|part| {
        let load = if is_bytes { format!(", {}", units::bytes(part.load)) } else { String::new() };
        format!("{} {}{load}", plain(&part.name), plural(part.qps, "QP"))
    });
    let parts: Vec<String> = parts.collect();
    let ratio =
        balance.max_over_mean.map_or_else(String::new, |ratio| format!(", busiest {ratio:.2} × the mean"));
    format!("By {name}: {}{ratio}", parts.join("; "))
}
