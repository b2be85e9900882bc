//! Lines of CSV files: RFC 4180 with line feeds.

use serde_json::Value;

/// Beginnings of a cell that a spreadsheet takes for a formula, or for something before one. The wide forms are those
/// of Chinese and Japanese keyboards, which some programs accept.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// A line of these cells, with its line feed.
pub fn line(cells: impl IntoIterator<Item = String>) -> String {
    let mut line = cells.into_iter().collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// A value as a cell: null is empty, and no text is a formula.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            let text = if text.starts_with(FORMULA) { format!("'{text}") } else { text.clone() };
            if text.contains([',', '"', '\n', '\r']) { quoted(&text) } else { text }
        }
        Value::Array(_) | Value::Object(_) => quoted(&value.to_string()),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_text_is_a_formula_and_no_number_is_changed() {
        for (value, expected) in [
            (json!("=1+1"), "'=1+1"),
            (json!("+1"), "'+1"),
            (json!("-2"), "'-2"),
            (json!("@SUM(A1)"), "'@SUM(A1)"),
            (json!("\tx"), "'\tx"),
            (json!("\rx"), "\"'\rx\""),
            (json!("\nx"), "\"'\nx\""),
            (json!("＝1"), "'＝1"),
            (json!("=a,\"b\""), "\"'=a,\"\"b\"\"\""),
            (json!("a=1"), "a=1"),
            (json!(-2), "-2"),
            (json!(0.5), "0.5"),
            (json!(true), "true"),
            (Value::Null, ""),
        ] {
            assert_eq!(cell(&value), expected, "{value}");
        }
        assert_eq!(line([cell(&json!("a")), String::new()]), "a,\n");
    }
}
