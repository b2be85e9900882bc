//! All differences between two reports that were produced in the same way.

use std::collections::BTreeMap;

use serde_json::Value;

/// The differences, one per line: path, the kernel's count, the expected count.
pub fn differences(kernel: &Value, expected: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", kernel, expected, &mut found);
    found
}

/// Name of a flow in these lines.
pub fn flow_name(flow: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{} > {} qp {}", text(&flow["src"]), text(&flow["dst"]), flow["dest_qp"])
}

fn compare(place: &str, kernel: &Value, expected: &Value, found: &mut Vec<String>) {
    match (kernel, expected) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let named = |map: &serde_json::Map<String, Value>| -> BTreeMap<String, Value> {
                map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
            };
            entries(place, &named(ours), &named(theirs), found);
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            let flows = |list: &[Value]| list.first().is_some_and(|entry| entry.get("dest_qp").is_some());
            let named = |list: &[Value]| -> BTreeMap<String, Value> {
                let name = |(index, entry): (usize, &Value)| {
                    if flows(list) { flow_name(entry) } else { index.to_string() }
                };
                list.iter().enumerate().map(|at| (name(at), at.1.clone())).collect()
            };
            if ours.len() != theirs.len() {
                found.push(format!("{place}: {} entries, expected {}", ours.len(), theirs.len()));
            }
            entries(place, &named(ours), &named(theirs), found);
        }
        _ if kernel == expected => {}
        _ => found.push(format!("{place}: kernel {kernel}, expected {expected}")),
    }
}

fn entries(
    place: &str,
    ours: &BTreeMap<String, Value>,
    theirs: &BTreeMap<String, Value>,
    found: &mut Vec<String>,
) {
    for (name, their) in theirs {
        match ours.get(name) {
            Some(our) => compare(&format!("{place}/{name}"), our, their, found),
            None => found.push(format!("{place}/{name}: not in the kernel, expected {their}")),
        }
    }
    for (name, our) in ours.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
        found.push(format!("{place}/{name}: kernel {our}, not expected"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_difference_is_named() {
        let flow =
            |qp: u32, packets: u32| json!({ "src": "a", "dst": "b", "dest_qp": qp, "packets": packets });
        let report = json!({ "totals": { "packets": 3 }, "flows": [flow(1, 2), flow(2, 1)] });
        assert_eq!(differences(&report, &report), Vec::<String>::new());
        for (other, says) in [
            (
                json!({ "totals": { "packets": 4 }, "flows": [flow(1, 2), flow(2, 1)] }),
                "/totals/packets: kernel 3",
            ),
            (json!({ "totals": { "packets": 3 }, "flows": [flow(2, 1)] }), "qp 1: kernel"),
            (
                json!({ "totals": { "packets": 3 }, "flows": [flow(1, 2), flow(3, 1)] }),
                "qp 3: not in the kernel",
            ),
            (
                json!({ "totals": { "packets": 3 }, "flows": [flow(1, 3), flow(2, 1)] }),
                "packets: kernel 2, expected 3",
            ),
            (json!({ "totals": { "packets": 3.0 }, "flows": [] }), "2 entries, expected 0"),
        ] {
            let found = differences(&report, &other);
            assert!(found.iter().any(|line| line.contains(says)), "{says}: {found:?}");
        }
    }
}
