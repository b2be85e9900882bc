//! The documents that are made from the code, for the tests of every crate.

use serde_json::Value;

/// Columns that a line of JSON has at most, unless one value has more.
const COLUMNS: usize = 160;

/// True when this run writes them anew: with `ROCESCOPE_BLESS=1`.
pub fn blessing() -> bool {
    std::env::var("ROCESCOPE_BLESS").is_ok_and(|value| value == "1")
}

/// Compares `docs/<name>` with `made`, or writes it when blessing.
///
/// # Panics
/// If the document is not up to date.
pub fn check(name: &str, made: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if blessing() {
        std::fs::write(&path, made)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
    let document = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        document == made,
        "docs/{name} is not up to date: ROCESCOPE_BLESS=1 writes it. It would be:\n{made}"
    );
}

/// JSON in few lines: a list or an object that fits into a line stands in one.
pub fn json(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, 0, &mut text);
    text + "\n"
}

/// Writes a value behind `indent` spaces and `before` columns of its name.
fn write(value: &Value, indent: usize, before: usize, text: &mut String) {
    let line = one_line(value);
    let (open, close, members): (_, _, Vec<(String, &Value)>) = match value {
        Value::Array(all) if indent + before + line.len() >= COLUMNS => {
            ('[', ']', all.iter().map(|one| (String::new(), one)).collect())
        }
        Value::Object(all) if indent + before + line.len() >= COLUMNS => {
            ('{', '}', all.iter().map(|(name, one)| (format!("\"{name}\": "), one)).collect())
        }
        _ => return text.push_str(&line),
    };
    text.push(open);
    for (at, (name, one)) in members.iter().enumerate() {
        *text += if at > 0 { ",\n" } else { "\n" };
        *text += &" ".repeat(indent + 2);
        *text += name;
        write(one, indent + 2, name.len(), text);
    }
    *text += "\n";
    *text += &" ".repeat(indent);
    text.push(close);
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Array(all) => format!("[{}]", all.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Value::Object(all) => {
            let members: Vec<_> =
                all.iter().map(|(name, one)| format!("\"{name}\": {}", one_line(one))).collect();
            format!("{{{}}}", members.join(", "))
        }
        plain => plain.to_string(),
    }
}
