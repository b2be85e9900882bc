//! Reports with changed values.

use serde_json::{Value, json};

use super::bytes;
use rocescope_common::random::Random;

/// A report with some changes, as text.
pub(super) fn mutant(reports: &[Value], rng: &mut Random) -> Vec<u8> {
    let mut report = reports[rng.index(reports.len())].clone();
    for _ in 0..rng.below(24) {
        let value = value(reports, rng);
        change(&mut report, value, rng);
    }
    let mut text = report.to_string().into_bytes();
    if rng.chance(200_000) {
        let others = [text.clone()];
        bytes::change(&mut text, &others, rng);
    }
    text
}

/// Descends to a random place of the report, and sets or removes a value there.
fn change(report: &mut Value, value: Value, rng: &mut Random) {
    let mut at = report;
    loop {
        let is_inner = match &at {
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => false,
        };
        if !is_inner || rng.chance(150_000) {
            *at = value;
            return;
        }
        let gone = rng.chance(50_000);
        at = match at {
            Value::Array(list) => {
                let place = rng.index(list.len());
                if gone {
                    list.remove(place);
                    return;
                }
                &mut list[place]
            }
            Value::Object(map) => {
                let place = rng.index(map.len());
                let Some(name) = map.keys().nth(place).cloned() else { return };
                if gone {
                    map.remove(&name);
                    return;
                }
                let Some(next) = map.get_mut(&name) else { return };
                next
            }
            _ => return,
        };
    }
}

fn value(reports: &[Value], rng: &mut Random) -> Value {
    match rng.below(14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(1e308),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!("\u{1b}[31mred\u{202e}"),
        7 => json!("x".repeat(5_000)),
        8 => json!([]),
        9 => json!({}),
        10 => json!(0.5),
        11 => json!(rng.bits()),
        12 => (0..100).fold(Value::Null, |inner, _| json!([inner])),
        _ => {
            let report = &reports[rng.index(reports.len())];
            let parts: Vec<&Value> = report.as_object().into_iter().flat_map(|map| map.values()).collect();
            parts.get(rng.index(parts.len())).map_or(Value::Null, |part| (*part).clone())
        }
    }
}
