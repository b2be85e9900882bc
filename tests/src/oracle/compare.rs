//! Compares a report with the tests' own accounting, figure by figure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

/// Maximum number of ports listed per flow.
const LISTED_PORTS: usize = 16;
/// Sums of floating-point numbers vary by about this much with their order.
const TOLERANCE: f64 = 1e-9;

/// All differences as sentences: path, the report's value, and the expected value.
pub fn differences(report: &Value, expected: &Value) -> Vec<String> {
    let mut found = Vec::new();
    fields("report", report, expected, &["totals", "flows", "links"], &mut found);
    totals(&report["totals"], &expected["totals"], &mut found);
    conservation(report, &mut found);
    let name = |link: &Value| (text(&link["name"]), String::new());
    matched("link", name, &report["links"], &expected["links"], &mut found, |place, ours, theirs, found| {
        fields(place, ours, theirs, &[], found);
    });
    matched("flow", flow_key, &report["flows"], &expected["flows"], &mut found, flow);
    found
}

/// Every difference between two lists of flows.
pub fn flow_differences(flows: &Value, expected: &Value) -> Vec<String> {
    let mut found = Vec::new();
    matched("flow", flow_key, flows, expected, &mut found, flow);
    found
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Addresses are compared by value: `::ffff:10.0.0.1` and `::ffff:a00:1` are the same GID.
fn address(value: &Value) -> String {
    let text = text(value);
    text.parse::<IpAddr>().map_or(text, |ip| ip.to_canonical().to_string())
}

fn flow_key(flow: &Value) -> (String, String) {
    let ends = format!("{} > {} qp {}", address(&flow["src"]), address(&flow["dst"]), flow["dest_qp"]);
    (text(&flow["link"]), ends)
}

/// Pairs the entries of two lists by key and compares each pair.
fn matched(
    what: &str,
    key: impl Fn(&Value) -> (String, String),
    ours: &Value,
    theirs: &Value,
    found: &mut Vec<String>,
    compare: impl Fn(&str, &Value, &Value, &mut Vec<String>),
) {
    let index = |list: &Value, found: &mut Vec<String>| {
        let mut map = BTreeMap::new();
        for entry in list.as_array().into_iter().flatten() {
            let key = key(entry);
            if map.insert(key.clone(), entry.clone()).is_some() {
                found.push(format!("{what} {} {}: listed twice", key.0, key.1));
            }
        }
        map
    };
    let (ours, theirs) = (index(ours, found), index(theirs, found));
    for (key, their) in &theirs {
        let place = format!("{what} {} {}", key.0, key.1).trim_end().to_owned();
        match ours.get(key) {
            Some(our) => compare(&place, our, their, found),
            None => {
                found.push(format!("{place}: not in the report, tshark has {} packets", their["packets"]));
            }
        }
    }
    // A link without RoCE may be listed, with zeros.
    for (key, our) in ours.iter().filter(|(key, _)| !theirs.contains_key(*key)) {
        if our["packets"] != 0 {
            found.push(format!("{what} {} {}: in the report, but not for tshark", key.0, key.1));
        }
    }
}

/// Counts and times must be equal; only ratios may differ in their last digits.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours.as_f64(), theirs.as_f64()) {
        (Some(a), Some(b)) if theirs.is_f64() => (a - b).abs() <= TOLERANCE * b.abs().max(1.0),
        _ => ours == theirs,
    }
}

/// Compares every expected field; the report may have others.
fn fields(place: &str, ours: &Value, theirs: &Value, skip: &[&str], found: &mut Vec<String>) {
    match theirs {
        Value::Object(map) => {
            for (name, their) in map.iter().filter(|(name, _)| !skip.contains(&name.as_str())) {
                match ours.get(name) {
                    Some(our) => fields(&format!("{place}: {name}"), our, their, &[], found),
                    None => found.push(format!("{place}: {name} is missing, tshark {their}")),
                }
            }
        }
        _ if same(ours, theirs) => {}
        _ => found.push(format!("{place}: rocescope {ours}, tshark {theirs}")),
    }
}

fn totals(ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    fields("totals", ours, theirs, &["skipped_sum", "skipped_truncated_at_least"], found);
    let skipped = sum_of(ours["skipped"].as_object().into_iter().flat_map(|map| map.values()));
    if theirs["skipped_sum"] != skipped {
        found.push(format!("totals: skipped adds up to {skipped}, tshark {}", theirs["skipped_sum"]));
    }
    // Frames truncated before their ports are counted as truncated too, which tshark cannot detect.
    let truncated = ours["skipped"]["truncated"].as_u64().unwrap_or(0);
    if theirs["skipped_truncated_at_least"].as_u64() > Some(truncated) {
        found.push(format!(
            "totals: skipped.truncated is {truncated}, tshark sees at least {}",
            theirs["skipped_truncated_at_least"]
        ));
    }
}

fn sum_of<'a>(values: impl Iterator<Item = &'a Value>) -> u64 {
    values.filter_map(Value::as_u64).sum()
}

/// Sums that hold in every report, whatever was captured.
fn conservation(report: &Value, found: &mut Vec<String>) {
    let totals = &report["totals"];
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let flows = || report["flows"].as_array().into_iter().flatten();
    let skipped = sum_of(totals["skipped"].as_object().into_iter().flat_map(|map| map.values()));
    let (all, roce) = (count(&totals["packets"]), count(&totals["roce_packets"]));
    if all != roce + skipped {
        found.push(format!("totals: {all} packets, but {roce} RoCE and {skipped} skipped"));
    }
    let in_flows = sum_of(flows().map(|flow| &flow["packets"]));
    let retired = count(&totals["retired"]["packets"]);
    let lost = count(&totals["lost"]["flow_table_full"]) + count(&totals["lost"]["contended"]);
    if roce != in_flows + retired + lost {
        found.push(format!(
            "totals: {roce} RoCE packets, but {in_flows} in flows, {retired} retired, {lost} without a flow"
        ));
    }
    let on_links = sum_of(report["links"].as_array().into_iter().flatten().map(|link| &link["packets"]));
    if roce != on_links {
        found.push(format!("totals: {roce} RoCE packets, but {on_links} on links"));
    }
    for flow in flows() {
        let (link, ends) = flow_key(flow);
        let opcodes = sum_of(flow["opcodes"].as_array().into_iter().flatten().map(|o| &o["packets"]));
        if count(&flow["packets"]) != opcodes {
            found.push(format!("flow {link} {ends}: {} packets, but {opcodes} by opcode", flow["packets"]));
        }
    }
}

fn flow(place: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    let mut skip = vec![
        "src",
        "dst",
        "opcodes",
        "src_ports",
        "ack",
        "mixed",
        "encapsulation",
        "peer_qp",
        "roce_version",
    ];
    let version1 = theirs["roce_version"] == 1;
    if version1 {
        // DSCP is defined by the IP header, which these packets do not have.
        skip.push("dscp");
    }
    fields(place, ours, theirs, &skip, found);
    // Optional additions to the report, which must be correct if present.
    if ours.get("roce_version").is_some() {
        fields(place, &ours["roce_version"], &theirs["roce_version"], &[], found);
    }
    let unknown = ours["ack"].get("unknown").is_some();
    fields(
        &format!("{place}: ack"),
        &ours["ack"],
        &theirs["ack"],
        if unknown { &[] } else { &["unknown"] },
        found,
    );

    let by_code = |value: &Value| {
        let list = value.as_array().into_iter().flatten();
        list.map(|o| (o["code"].as_u64(), text(&o["name"]), o["packets"].as_u64())).collect::<BTreeSet<_>>()
    };
    let (our, their) = (by_code(&ours["opcodes"]), by_code(&theirs["opcodes"]));
    for (code, name, packets) in their.difference(&our) {
        found.push(format!("{place}: opcode {code:?} {name} should have {packets:?} packets, has {our:?}"));
    }
    for (code, name, packets) in our.difference(&their) {
        found.push(format!("{place}: opcode {code:?} {name} with {packets:?} packets is not so for tshark"));
    }
    source_ports(place, ours, theirs, found);
    mixed(place, ours, theirs, found);
    let peer = &theirs["peer_qp"];
    if peer.is_object() && peer["is"] != ours["peer_qp"] {
        found.push(format!("{place}: peer_qp {}, the packets state {}", ours["peer_qp"], peer["is"]));
    }
}

/// The listed ports must be those with most bytes; the choice among equal ones is free.
fn source_ports(place: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    let index = |value: &Value| {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|p| Some((p["port"].as_u64()?, (p["packets"].as_u64()?, p["bytes"].as_u64()?))))
            .collect::<BTreeMap<_, _>>()
    };
    let (our, their) = (index(&ours["src_ports"]), index(&theirs["src_ports"]));
    if our.len() != their.len().min(LISTED_PORTS) {
        found.push(format!("{place}: lists {} source ports of {}", our.len(), their.len()));
    }
    for (port, counts) in &our {
        if their.get(port) != Some(counts) {
            found.push(format!("{place}: source port {port} has {counts:?}, tshark {:?}", their.get(port)));
        }
    }
    let least_listed = our.values().map(|(_, bytes)| *bytes).min();
    let most_left =
        their.iter().filter(|(port, _)| !our.contains_key(port)).map(|(_, (_, bytes))| *bytes).max();
    if let (Some(listed), Some(left)) = (least_listed, most_left)
        && left > listed
    {
        found.push(format!("{place}: a source port with {left} bytes is left out for one with {listed}"));
    }
}

/// A set: the order of the names does not matter.
fn mixed(place: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    let names = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<BTreeSet<_>>();
    let (our, their) = (names(&ours["mixed"]), names(&theirs["mixed"]));
    if our != their {
        found.push(format!("{place}: mixed {our:?}, tshark {their:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        json!({
            "totals": { "packets": 3, "roce_packets": 2, "skipped": { "not_roce": 1 } },
            "links": [{ "name": "a", "packets": 2 }],
            "flows": [{
                "link": "a", "src": "10.0.0.1", "dst": "10.0.0.2", "dest_qp": 17, "packets": 2,
                "opcodes": [{ "code": 17, "name": "RC_ACKNOWLEDGE", "packets": 2 }],
                "ack": { "acks": 2 }, "ce_ratio": 0.5, "src_ports": [{ "port": 1, "packets": 2, "bytes": 9 }],
            }],
        })
    }

    fn expected() -> Value {
        let mut value = report();
        value["totals"]["skipped_sum"] = json!(1);
        value["totals"]["skipped_truncated_at_least"] = json!(0);
        value["totals"]["skipped"] = json!({});
        value
    }

    #[test]
    fn the_same_figures_make_no_difference() {
        assert_eq!(differences(&report(), &expected()), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_difference_is_named() {
        for (path, value, says) in [
            ("/totals/packets", json!(4), "4 packets, but 2 RoCE and 1 skipped"),
            ("/links/0/packets", json!(1), "but 1 on links"),
            ("/flows/0/ack/acks", json!(1), "ack: acks: rocescope 1, tshark 2"),
            ("/flows/0/dest_qp", json!(18), "not in the report"),
            ("/flows/0/ce_ratio", Value::Null, "ce_ratio: rocescope null, tshark 0.5"),
            ("/flows/0/opcodes/0/name", json!("RC_ACK"), "opcode Some(17) RC_ACK"),
            ("/flows/0/src_ports/0/bytes", json!(8), "source port 1 has (2, 8)"),
            ("/flows/0/src_ports", json!([]), "lists 0 source ports of 1"),
        ] {
            let mut wrong = report();
            *wrong.pointer_mut(path).unwrap() = value;
            let found = differences(&wrong, &expected());
            assert!(found.iter().any(|line| line.contains(says)), "{path}: {found:?}");
        }
    }
}
