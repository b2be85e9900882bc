//! Traces that are joined with those of others, moved as docs/report.md says.

use std::path::Path;

use rocescope_tests::browser::chromium_or_skip;
use rocescope_tests::packages::perfetto_or_skip;
use serde_json::{Value, json};

use super::{capture, in_perfetto, printed};

/// Start and end of an entry.
fn range(entry: &Value) -> (f64, f64) {
    let start = entry["ts"].as_f64().unwrap();
    (start, start + entry["dur"].as_f64().unwrap_or(0.0))
}

/// A trace in the form of PyTorch's profiler, whose times count from `baseTimeNanoseconds`, is moved as docs/report.md
/// says and merged: Perfetto reads both, and the collective lies on the packets that it caused.
#[test]
fn a_trace_joins_with_that_of_pytorch() {
    const TEST: &str = "a_trace_joins_with_that_of_pytorch";
    if !chromium_or_skip(TEST) {
        return;
    }
    let Some(engine) = perfetto_or_skip(TEST) else { return };
    let mut trace: Value =
        serde_json::from_str(&printed(&[capture("e1_loss1.h1.pcap.gz")], "trace")).unwrap();
    let other: Value = json!({
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_795_239_717_000_000_000_u64,
        "traceEvents": [
            { "ph": "M", "name": "process_name", "pid": 4242, "tid": 0, "ts": 0.0, "args": { "name": "python3" } },
            { "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0, "tid": 7,
              "ts": 238_400.5, "dur": 1_317_000.25, "args": { "stream": 7 } },
        ],
    });
    let base_us = other["baseTimeNanoseconds"].as_f64().unwrap() / 1e3;
    let mut moved = other["traceEvents"].as_array().unwrap().clone();
    for entry in &mut moved {
        entry["ts"] = json!(entry["ts"].as_f64().unwrap() + base_us);
    }
    let (start, end) = (moved[1]["ts"].as_f64().unwrap(), moved[1]["dur"].as_f64().unwrap());
    let all = trace["traceEvents"].as_array_mut().unwrap();
    let messages = all.iter().filter(|entry| entry["args"]["first_psn"].is_u64());
    let within = |entry: &&Value| (start..start + end).contains(&entry["ts"].as_f64().unwrap());
    let (inside, outside): (Vec<&Value>, Vec<&Value>) = messages.partition(within);
    assert!(inside.len() > 10 && outside.is_empty(), "{} {}", inside.len(), outside.len());
    let alone = in_perfetto(&engine, &json!({ "traceEvents": all }).to_string());
    all.append(&mut moved);
    let merged = in_perfetto(&engine, &trace.to_string());
    let more = |at: usize| merged[at].parse::<u64>().unwrap() - alone[at].parse::<u64>().unwrap();
    assert_eq!((merged[0].as_str(), more(1), more(2), more(4)), ("", 1, 0, 1), "{alone:?} {merged:?}");
}

/// A trace in the form of NCCL's example profiler plugin, whose times count from the initialisation of the first
/// communicator and whose events are pairs of a beginning and an end: Perfetto reads both, and the work requests of a
/// queue pair lie around the packets of the flow that has its number.
#[test]
fn a_trace_joins_with_that_of_nccl() {
    const TEST: &str = "a_trace_joins_with_that_of_nccl";
    /// Initialisation of the first communicator, as a log has it.
    const INITIALISED_US: f64 = 1_795_239_710_000_000.0;
    if !chromium_or_skip(TEST) {
        return;
    }
    let Some(engine) = perfetto_or_skip(TEST) else { return };
    let mut trace: Value =
        serde_json::from_str(&printed(&[capture("e1_loss1.h1.pcap.gz")], "trace")).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/share/nccl_example_profiler.json");
    let mut moved: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(moved.pop(), Some(json!({})), "its last entry is empty");
    for entry in &mut moved {
        entry["ts"] = json!(entry["ts"].as_f64().unwrap() + INITIALISED_US);
    }
    // The time from the beginning to the end of an event of this kind.
    let events = |name: &str, category: &str| -> Vec<(Value, f64, f64)> {
        let of = |phase: &str| {
            let is = |entry: &&Value| {
                (&entry["name"], &entry["cat"], &entry["ph"])
                    == (&json!(name), &json!(category), &json!(phase))
            };
            moved.iter().filter(is).collect::<Vec<_>>()
        };
        let pairs = of("b").into_iter().zip(of("e"));
        pairs
            .map(|(begin, end)| {
                assert_eq!(begin["id"], end["id"], "{name}");
                (begin["args"].clone(), range(begin).0, range(end).0)
            })
            .collect()
    };
    let all = trace["traceEvents"].as_array_mut().unwrap();
    let (_, start, end) = events("AllReduce", "COLL").remove(0);
    let messages: Vec<&Value> = all.iter().filter(|entry| entry["args"]["first_psn"].is_u64()).collect();
    let is_within = |entry: &&&Value| range(entry).0 >= start && range(entry).1 <= end;
    assert!(messages.len() > 10, "{} messages", messages.len());
    assert_eq!(messages.iter().filter(is_within).count(), messages.len(), "{start} to {end}");
    let work = events("Qp", "NET_IB");
    assert_eq!(work.len(), 4);
    for (args, from, to) in work {
        let flows: Vec<&Value> =
            all.iter().filter(|entry| entry["args"]["source_qp"] == args["qp_num"]).collect();
        assert!(!flows.is_empty(), "{args}");
        for flow in flows {
            let (first, last) = range(flow);
            assert!(from <= first && last <= to, "{args} from {from} to {to}, packets {first} to {last}");
            // It lies around them closely: by the clock of another second it would not.
            assert!(first - from < 10_000.0 && to - last < 10_000.0, "{args}: {from} {first}, {last} {to}");
        }
    }
    let alone = in_perfetto(&engine, &json!({ "traceEvents": all }).to_string());
    let begun = moved.iter().filter(|entry| entry["ph"] == "b").count() as u64;
    all.append(&mut moved);
    let merged = in_perfetto(&engine, &trace.to_string());
    let more = |at: usize| merged[at].parse::<u64>().unwrap() - alone[at].parse::<u64>().unwrap();
    // Without an error, each pair as a slice that has an end, and no counter.
    assert_eq!((merged[0].as_str(), more(1), more(2), more(3)), ("", begun, 0, 0), "{alone:?} {merged:?}");
}
