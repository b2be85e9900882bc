//! Traffic matrix: a cell for each pair of hosts, darker with more data, marked if a finding names a flow of the
//! pair.

use super::markup::Markup;
use super::problems::{listed, sign};
use crate::findings::Severity;
use crate::report::Report;
use crate::sample::Address;
use crate::util::map::Map;
use crate::util::units::{self, plural};

/// Maximum number of hosts in rows and columns: those with the most data.
const HOSTS: usize = 24;
/// CSS classes of increasing darkness.
const HEAT: [&str; 6] = ["h0", "h1", "h2", "h3", "h4", "h5"];

/// The section; empty if traffic between hosts is unknown.
pub(super) fn section(report: &Report) -> Markup {
    let mut page = Markup::default();
    let Some(pattern) = report.facts.pattern.as_ref().filter(|pattern| !pattern.matrix.is_empty()) else {
        return page;
    };
    let mut bytes: Map<Address, u64> = Map::default();
    for cell in &pattern.matrix {
        *bytes.entry(cell.src).or_default() += cell.bytes;
        *bytes.entry(cell.dst).or_default() += cell.bytes;
    }
    let mut hosts: Vec<(Address, u64)> = bytes.into_iter().collect();
    hosts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let hidden = hosts.len().saturating_sub(HOSTS);
    hosts.truncate(HOSTS);
    let mut hosts: Vec<Address> = hosts.into_iter().map(|(host, _)| host).collect();
    hosts.sort_unstable();
    let cells: Map<_, _> = pattern.matrix.iter().map(|cell| ((cell.src, cell.dst), cell)).collect();
    let most = pattern.matrix.iter().map(|cell| cell.data_bytes).max().unwrap_or(0);
    let marked = marked(report);
    page.raw("<p class=\"hint\">Data from the host of a row to the host of a column; ");
    page.raw("✖ and ▲: findings name flows of the pair.</p>\n");
    page.raw("<div class=\"wide\"><table class=\"matrix\"><thead><tr><td></td>");
    for host in &hosts {
        page.raw("<th><span>").text(&host.to_string()).raw("</span></th>");
    }
    page.raw("</tr></thead><tbody>\n");
    for src in &hosts {
        page.raw("<tr>").leaf("th", "", &src.to_string());
        for dst in &hosts {
            let Some(cell) = cells.get(&(*src, *dst)) else {
                page.raw("<td class=\"none\"></td>");
                continue;
            };
            let severity = marked.get(&(*src, *dst)).copied();
            let heat = heat(cell.data_bytes, most);
            let classes = severity.map_or_else(|| heat.to_owned(), |one| format!("{heat} {}", one.name()));
            let what = format!(
                "{src} → {dst}: {} of data, {} in all",
                units::bytes(cell.data_bytes),
                plural(cell.packets, "packet")
            );
            page.open("td", &[("class", &classes), ("title", &what)]);
            if let Some(severity) = severity {
                page.leaf("b", "", sign(severity)).text(" ");
            }
            page.text(&if cell.data_bytes == 0 { "·".to_owned() } else { units::bytes(cell.data_bytes) });
            page.raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    let pairs = pattern.matrix_pairs.saturating_sub(pattern.matrix.len() as u64);
    if hidden > 0 || pairs > 0 {
        let text = format!(
            "Left out: {} with less traffic, {} with less data.",
            plural(hidden as u64, "host"),
            plural(pairs, "pair")
        );
        page.leaf("p", "hint", &text);
    }
    page
}

/// The highest severity of the findings above info that name a flow from one host to another.
fn marked(report: &Report) -> Map<(Address, Address), Severity> {
    let mut marked: Map<(Address, Address), Severity> = Map::default();
    for finding in listed(report).iter().filter(|one| one.is_problem()) {
        for flow in &finding.flows {
            let worst = marked.entry((flow.src, flow.dst)).or_insert(finding.severity);
            *worst = finding.severity.max(*worst);
        }
    }
    marked
}

/// The CSS class for a share of the data; empty for no data.
fn heat(bytes: u64, most: u64) -> &'static str {
    if bytes == 0 || most == 0 {
        return HEAT[0];
    }
    let steps = HEAT.len() as u64 - 1;
    let step = (u128::from(bytes) * u128::from(steps)).div_ceil(u128::from(most));
    usize::try_from(step).ok().and_then(|step| HEAT.get(step)).copied().unwrap_or(HEAT[0])
}
