//! The line about the paths of queue pairs of which no packet is seen: 5-tuple spread, uplinks, ports or rails.

use ratatui::text::Line;

use crate::analysis::{QpBalance, QpPaths};
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, join};
use crate::util::units;

/// The report's figures of these paths; `None` without such queue pairs.
pub(super) fn known(view: &View) -> Option<&QpPaths> {
    view.analysis.as_ref()?.report.facts.qp_paths.as_ref()
}

/// The figures in a line, the most important first, and no part of one.
pub(super) fn line(paths: &QpPaths, width: usize) -> Line<'static> {
    let of = units::count(paths.qps);
    let qps = if paths.known == paths.qps { of } else { format!("{} of {of}", units::count(paths.known)) };
    let mut spread = Spans::default();
    spread.push(format!(" 5-tuple spread of {qps} QPs: "), theme::DIM);
    match (paths.tuples.effective_flows, paths.unknown.keys().next()) {
        (Some(effective), _) => {
            let tuples = units::count(paths.tuples.five_tuples);
            spread.push(format!("{effective:.1} effective flows of {tuples}"), theme::PLAIN);
            if let Some(normalized) = paths.tuples.normalized {
                spread.push(format!(", normalized entropy {normalized:.2}"), theme::PLAIN);
            }
        }
        (None, Some(why)) => {
            spread.push(format!("not known: {why}"), theme::DIM);
        }
        (None, None) => {
            spread.push("none has sent anything", theme::DIM);
        }
    }
    let mut parts = vec![spread];
    let mut part = |name: String, value: String| {
        let mut spans = Spans::default();
        spans.push(name, theme::DIM).push(value, theme::PLAIN);
        parts.push(spans);
    };
    let uplinks = paths.ecmp.iter().flat_map(|ecmp| ecmp.sets.iter().map(|set| (ecmp.uplinks, set)));
    for (uplinks, set) in uplinks {
        if let Some(now) = set.cases.iter().find(|case| case.case == "as_seen") {
            let value = format!("{:.2} × the mean", now.max_over_mean_p50);
            part(format!("busiest of {uplinks} uplinks "), value);
        }
    }
    let balances = [("port", &paths.ports), ("rail", &paths.rails), ("plane", &paths.planes)];
    for (name, balance) in balances {
        if let Some((QpBalance { parts, .. }, ratio)) =
            balance.as_ref().and_then(|balance| Some((balance, balance.max_over_mean?)))
        {
            part(format!("busiest of {} {name}s ", parts.len()), format!("{ratio:.2} ×"));
        }
    }
    if paths.tuples.effective_flows.is_some() {
        let weight = if paths.is_by_bytes() { "by PSNs × MTU" } else { "each QP alike" };
        part(weight.to_owned(), String::new());
    }
    join(parts, width, " · ").0.into_line()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(paths: &QpPaths) -> String {
        line(paths, usize::MAX).spans.iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn the_line_has_what_is_known() {
        let mut paths = crate::analysis::qp_paths_example(None);
        assert_eq!(
            text(&paths),
            " 5-tuple spread of 1 of 2 QPs: 1.0 effective flows of 1, normalized entropy 1.00 · busiest of 1 ports 1.00 × · \
             busiest of 1 rails 1.00 × · busiest of 1 planes 1.00 × · by PSNs × MTU"
        );
        let narrow: String = line(&paths, 115).spans.iter().map(|span| span.content.as_ref()).collect();
        assert!(narrow.ends_with("busiest of 1 ports 1.00 ×"), "{narrow}");
        (paths.known, paths.tuples.effective_flows) = (0, None);
        (paths.ports, paths.rails, paths.planes) = (None, None, None);
        assert_eq!(text(&paths), " 5-tuple spread of 0 of 2 QPs: not known: its source address was not seen");
    }
}
