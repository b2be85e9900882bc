//! The table of flows: those named by findings first, then those with most errors and most bytes; the rest as a sum.

use std::cmp::Reverse;

use serde_json::Value;

use super::markup::Markup;
use super::problems::sign;
use crate::analysis::Flow;
use crate::findings::{Severity, Unit};
use crate::report::Report;
use crate::share::columns::{COLUMNS, Column, Context, FINDINGS, least_sign};
use crate::util::units::{self, plural};

/// Maximum number of rows.
const ROWS: usize = 300;

/// The section; empty without flows.
pub(super) fn section(report: &Report) -> Markup {
    let mut page = Markup::default();
    let flows = &report.facts.flows;
    if flows.is_empty() {
        return page;
    }
    let context = Context::of(report);
    let severity = |at: usize| {
        let named = context.findings_of(at);
        let ids = report.findings.iter().filter(|one| named.contains(&one.id));
        ids.map(|one| one.severity).max()
    };
    let mut order: Vec<(usize, Option<Severity>)> = (0..flows.len()).map(|at| (at, severity(at))).collect();
    order.sort_by_cached_key(|(at, severity)| {
        let figures = flows.get(*at).map(|flow| (flow.fault_rank(), flow.bytes_dedup()));
        (Reverse(*severity), Reverse(figures))
    });
    let (shown, rest) = order.split_at(order.len().min(ROWS));
    let columns = shown_columns(flows, &context);
    page.raw("<p class=\"hint\">Named by findings first, then most errors, then most bytes. ");
    page.text(&format!("{} of {}.", units::count(shown.len() as u64), plural(flows.len() as u64, "flow")));
    page.raw("</p>\n<p id=\"tools\" hidden><input id=\"filter\" type=\"search\" size=\"40\" ");
    page.raw("placeholder=\"Filter: host, QP, process, finding\" aria-label=\"Filter flows\"> <span id=\"matches\"></span></p>\n");
    page.raw("<div class=\"wide\"><table class=\"flows\" id=\"flowtable\"><thead><tr>");
    for column in &columns {
        page.open("th", &[("class", align(column)), ("title", column.help), ("scope", "col")]);
        page.text(column.title).close("th");
    }
    page.raw("</tr></thead><tbody>\n");
    for (at, severity) in shown {
        if let Some(flow) = flows.get(*at) {
            row(&mut page, flow, &columns, &context, (*at, *severity));
        }
    }
    page.raw("</tbody>");
    sum(&mut page, rest.iter().filter_map(|(at, _)| flows.get(*at)), rest.len(), columns.len());
    page.raw("</table></div>\n");
    let all_zero: Vec<&str> = COLUMNS
        .iter()
        .filter(|column| !column.title.is_empty() && !columns.iter().any(|one| one.name == column.name))
        .map(|column| column.title)
        .collect();
    if !all_zero.is_empty() {
        page.leaf("p", "hint", &format!("Zero or unknown for all flows: {}.", all_zero.join(", ")));
    }
    page
}

/// The columns in which any flow has a value other than zero.
fn shown_columns(flows: &[Flow], context: &Context<'_>) -> Vec<&'static Column> {
    let says = |column: &&Column| {
        column.name == FINDINGS
            || flows.iter().any(|flow| {
                let value = (column.get)(flow, context);
                !value.is_null() && value.as_f64() != Some(0.0)
            })
    };
    COLUMNS.iter().filter(|column| !column.title.is_empty()).filter(says).collect()
}

fn align(column: &Column) -> &'static str {
    if matches!(column.unit, Unit::Text | Unit::Link) { "" } else { "n" }
}

fn row(
    page: &mut Markup,
    flow: &Flow,
    columns: &[&'static Column],
    context: &Context<'_>,
    (at, severity): (usize, Option<Severity>),
) {
    page.raw("<tr>");
    for column in columns {
        if column.name == FINDINGS {
            state(page, context.findings_of(at), severity);
            continue;
        }
        let value = (column.get)(flow, context);
        let sort = match &value {
            Value::Number(number) => number.to_string(),
            // Not a number: sorts after all numbers.
            Value::Null if align(column) == "n" => units::UNKNOWN.to_owned(),
            _ => String::new(),
        };
        let zero = if value.as_f64() == Some(0.0) { " zero" } else { "" };
        let class = format!("{}{zero}", align(column));
        let least = if value.is_null() { "" } else { least_sign(column, flow) };
        page.open("td", &[("class", class.trim()), ("data-v", &sort)])
            .text(least)
            .text(&column.unit.text(&value));
        page.raw("</td>");
    }
    page.raw("</tr>\n");
}

/// Writes the findings that name a flow.
fn state(page: &mut Markup, ids: &[&'static str], severity: Option<Severity>) {
    let rank = match severity {
        None => "0",
        Some(Severity::Info) => "1",
        Some(Severity::Warning) => "2",
        Some(Severity::Critical) => "3",
    };
    page.open("td", &[("data-v", rank), ("class", "state")]);
    if let Some(severity) = severity {
        page.leaf("b", severity.name(), sign(severity)).text(" ").text(&ids.join(" "));
    }
    page.raw("</td>");
}

/// Writes the flows without a row as one sum.
fn sum<'a>(page: &mut Markup, flows: impl Iterator<Item = &'a Flow>, count: usize, columns: usize) {
    if count == 0 {
        return;
    }
    let (packets, bytes, errors) = flows.fold((0, 0, 0), |(packets, bytes, errors), flow| {
        (packets + flow.packets, bytes + flow.bytes_dedup(), errors + flow.fault_rank().errors())
    });
    page.raw("<tfoot><tr>").open("td", &[("colspan", &columns.to_string())]);
    page.text(&format!(
        "{} without a row: {}, {}, {} (lost packets, NAKs, retransmissions). --output csv has all of them.",
        plural(count as u64, "flow"),
        plural(packets, "packet"),
        units::bytes(bytes),
        plural(errors, "error")
    ));
    page.raw("</td></tr></tfoot>");
}
