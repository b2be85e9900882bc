//! Answers as text, JSON and HTML.

use serde_json::{Map, Value, json};

use super::Row;
use super::answer::Answer;
use super::cell::cell;
use super::question::Column;
use super::question::Unit;
use crate::share::html;
use crate::share::html::markup::Markup;
use crate::util::layout::{Align, Table};
use crate::util::style::{Paint, Role};
use crate::util::units;

/// Schema of the JSON.
pub const SCHEMA: &str = "rocescope.fleet/1";

/// Columns with a value in at least one row. A flag of another column is shown there.
fn used(answer: &Answer) -> Vec<&'static Column> {
    let all = answer.question.columns();
    let known = |column: &&Column| {
        answer.rows.iter().any(|row| row.get(column.name).is_some_and(|value| !value.is_null()))
            && !all.iter().any(|of| of.bound == Some(column.name))
    };
    all.iter().filter(known).collect()
}

const fn align(unit: Unit) -> Align {
    match unit {
        Unit::Text | Unit::Time | Unit::Flag => Align::Left,
        _ => Align::Right,
    }
}

fn table(rows: &[Row], columns: &[&'static Column]) -> Table {
    let mut table = Table::new(columns.iter().map(|column| (column.title, align(column.unit))).collect());
    for row in rows {
        table.row(columns.iter().map(|column| cell(row, column)).collect());
    }
    table
}

/// The answer as text for a terminal of this width. Columns that do not fit are left out from the right.
pub fn text(answer: &Answer, width: usize, paint: Paint) -> String {
    let mut text = format!(
        "{}\n{}\n",
        paint.paint(Role::Heading, &answer.headline),
        paint.paint(Role::Dim, &answer.scope)
    );
    if answer.rows.is_empty() {
        return text;
    }
    let mut columns = used(answer);
    let all = columns.len();
    let mut shown = table(&answer.rows, &columns);
    while columns.len() > 3 && !shown.fits(width) {
        columns.pop();
        shown = table(&answer.rows, &columns);
    }
    text.push('\n');
    for (at, line) in shown.lines(width).into_iter().enumerate() {
        text.push_str(&if at == 0 { paint.paint(Role::Dim, &line) } else { line });
        text.push('\n');
    }
    let mut more = Vec::new();
    if answer.left_out > 0 {
        more.push(format!("{} more with --top", units::plural(answer.left_out as u64, "row")));
    }
    if columns.len() < all {
        more.push(format!(
            "{} more in a wider terminal or with --output json",
            units::plural((all - columns.len()) as u64, "column")
        ));
    }
    for hint in not_smallest(answer).into_iter().chain((!more.is_empty()).then(|| more.join("; "))) {
        text.push_str(&paint.paint(Role::Dim, &format!("{hint}\n")));
    }
    text
}

/// Words for a set of hops that is not proven to be the smallest.
fn not_smallest(answer: &Answer) -> Option<String> {
    let all = (answer.rows.len() + answer.left_out) as u64;
    (answer.is_smallest == Some(false)).then(|| {
        format!("these {} may not be the smallest set that explains the figures", units::plural(all, "hop"))
    })
}

/// The answer as one JSON document.
///
/// # Errors
/// Errors of the serialiser, which no data causes.
pub fn json(answer: &Answer) -> Result<String, serde_json::Error> {
    let row = |row: &Row| -> Map<String, Value> {
        let value = |name: &str| row.get(name).cloned().unwrap_or(Value::Null);
        answer.question.columns().iter().map(|column| (column.name.to_owned(), value(column.name))).collect()
    };
    let document = json!({
        "schema": SCHEMA, "question": answer.question.name(), "headline": answer.headline, "scope": answer.scope,
        "rows": answer.rows.iter().map(row).collect::<Vec<_>>(), "rows_left_out": answer.left_out,
        "smallest_set": answer.is_smallest,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The answer as a self-contained HTML page without scripts.
pub fn html(answer: &Answer) -> String {
    let mut page = Markup::default();
    html::head(&mut page, &answer.headline);
    page.raw("<body>\n<header>").leaf("span", "brand", "rocescope fleet").leaf(
        "span",
        "what",
        answer.question.name(),
    );
    page.leaf("span", "what", &answer.scope).raw("</header>\n<main>\n<section id=\"verdict\">");
    page.leaf("h1", "", &answer.headline).raw("</section>\n");
    if !answer.rows.is_empty() {
        let columns = used(answer);
        let class = |column: &Column| if align(column.unit) == Align::Right { "n" } else { "" };
        page.raw("<section><div class=\"wide\"><table class=\"flows\"><thead><tr>");
        for column in &columns {
            page.leaf("th", class(column), column.title);
        }
        page.raw("</tr></thead><tbody>\n");
        for row in &answer.rows {
            page.raw("<tr>");
            for column in &columns {
                page.leaf("td", class(column), &cell(row, column));
            }
            page.raw("</tr>\n");
        }
        page.raw("</tbody></table></div>");
        let more = (answer.left_out > 0)
            .then(|| format!("{} more with --top", units::plural(answer.left_out as u64, "row")));
        for hint in not_smallest(answer).into_iter().chain(more) {
            page.leaf("p", "hint", &hint);
        }
        page.raw("</section>\n");
    }
    page.raw("</main>\n<footer>").text(concat!("rocescope ", env!("CARGO_PKG_VERSION"), " · times are UTC"));
    page.raw("</footer>\n</body>\n</html>\n");
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Limits;
    use crate::fleet::question::Question;

    fn answer() -> Answer {
        let summary = json!({"readings": 3600, "all_rows": 3600, "flow_readings": 3600, "hosts": 60, "jobs": 3, "first_s": 1_763_800_000, "last_s": 1_763_800_060});
        let row = json!({
            "scope": "switches", "direction": "ingress", "place": "<l1> + l2", "busiest": "plane 1", "busiest_ratio": 1.9,
            "idlest": "plane 2", "idlest_ratio": 0.1, "agree": 20, "of_hosts": 20, "misplaced": null, "score": 1, "is_bad": 1,
        });
        let rows = [summary, row.clone(), row].map(|row| row.as_object().unwrap().clone());
        Answer::of(Question::Balance, rows.to_vec(), 1, &Limits::default()).unwrap()
    }

    #[test]
    fn text_shows_the_culprit_first_and_says_what_is_left_out() {
        let wide = text(&answer(), 200, Paint::PLAIN);
        assert!(
            wide.starts_with("Ingress traffic of the hosts at <l1> + l2: plane 1 carries 1.90 ×"),
            "{wide}"
        );
        assert!(wide.contains("HOSTS AGREE") && !wide.contains("EXCESS"), "{wide}");
        assert!(wide.ends_with("\n1 row more with --top\n"), "{wide}");
        let narrow = text(&answer(), 60, Paint::PLAIN);
        assert!(narrow.contains("columns more in a wider terminal"), "{narrow}");
        assert!(narrow.lines().skip(3).take(2).all(|line| line.chars().count() <= 60), "{narrow}");
    }

    #[test]
    fn a_set_that_may_not_be_the_smallest_says_so() {
        const WORDS: &str = "these 2 hops may not be the smallest set that explains the figures";
        let all = |is_smallest| {
            let answer = Answer { is_smallest, ..answer() };
            let document: Value = serde_json::from_str(&json(&answer).unwrap()).unwrap();
            (document["smallest_set"].clone(), [text(&answer, 200, Paint::PLAIN), html(&answer)])
        };
        let (of_json, of_pages) = all(Some(false));
        assert_eq!(of_json, false);
        assert!(of_pages.iter().all(|page| page.contains(WORDS)), "{of_pages:?}");
        for (is_smallest, expected) in [(Some(true), Value::Bool(true)), (None, Value::Null)] {
            let (of_json, of_pages) = all(is_smallest);
            assert_eq!(of_json, expected);
            assert!(!of_pages.iter().any(|page| page.contains("smallest")), "{of_pages:?}");
        }
    }

    #[test]
    fn json_has_every_column_and_unknown_is_null() {
        let document: Value = serde_json::from_str(&json(&answer()).unwrap()).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        assert_eq!(document["rows"][0]["misplaced"], Value::Null);
        assert_eq!(document["rows"][0]["confidence"], "high");
        let names: Vec<&String> = document["rows"][0].as_object().unwrap().keys().collect();
        assert_eq!(names.len(), Question::Balance.columns().len(), "{names:?}");
    }

    #[test]
    fn a_page_has_the_rows_and_no_markup_of_data() {
        let page = html(&answer());
        assert!(page.contains("&lt;l1&gt; + l2") && !page.contains("<l1>"), "{page}");
        // The list of problems is for its own columns: where it is narrow, it hides their names.
        assert!(!page.contains("class=\"list\"") && page.contains(">1 row more with --top<"), "{page}");
        assert!(page.contains("Content-Security-Policy") && !page.contains("<script"), "{page}");
    }
}
