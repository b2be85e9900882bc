//! Hosts whose NICs process RoCE themselves, so that no packet is seen: their queue pairs in every report to share.

#[cfg(feature = "live")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocescope_tests::browser::{self, Scheme, chromium_or_skip};
#[cfg(feature = "live")]
use rocescope_tests::fleet::Fleet;
#[cfg(feature = "live")]
use rocescope_tests::schema;
#[cfg(feature = "live")]
use serde_json::Value;
use serde_json::json;

use super::seen;
#[cfg(feature = "live")]
use super::{check_trace, csv, replay};

/// A recording of a host without packets has its queue pairs in CSV and in the trace, with the figures of the JSON
/// report.
#[cfg(feature = "live")]
#[test]
fn a_recording_without_packets_has_its_queue_pairs() {
    let folder = tempfile::tempdir().unwrap();
    // The fewest that have a place for each fault.
    Fleet { hosts: 20, seconds: 2, ..Fleet::SMALL }.write_offloaded(folder.path()).unwrap();
    let printed = |output| {
        let output = replay(&[folder.path().to_owned()], &["--host", "node00000", "--output", output]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let report = schema::read(&printed("json")).unwrap();
    assert_eq!(report["flows"], json!([]), "no packet");
    let qps: Vec<(&Value, &Value)> = (report["devices"].as_array().unwrap().iter())
        .flat_map(|device| device["qps"].as_array().unwrap().iter().map(move |qp| (device, qp)))
        .collect();
    assert!(qps.len() > 4, "{} queue pairs", qps.len());

    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let rows = csv(&printed("csv"));
    let (names, rows) = rows.split_first().unwrap();
    assert_eq!(rows.len(), qps.len());
    for (row, (device, qp)) in rows.iter().zip(&qps) {
        let cell = |name: &str| row[names.iter().position(|one| one == name).unwrap()].as_str();
        for (name, value) in [
            ("device", &device["name"]),
            ("port", &device["port"]),
            ("link", &device["interface"]),
            ("src_qp", &qp["lqpn"]),
            ("dest_qp", &qp["rqpn"]),
            ("src", &qp["src"]),
            ("dst", &qp["dst"]),
            ("udp_port", &qp["udp_port"]),
            ("sent_packets", &qp["sent_packets"]),
            ("in_flight_packets", &qp["in_flight"]),
            ("timeouts", &qp["timeouts"]),
            ("comm", &qp["comm"]),
        ] {
            assert_eq!(cell(name), text(value), "{name}");
        }
        assert!(!cell("sent_packets").is_empty() && cell("packets").is_empty());
        assert!(!cell("sources").is_empty() && cell("sources") != "packets");
    }

    in_trace(&printed("trace"), &qps);
    let page = printed("html");
    let (_, section) = page.split_once("<section id=\"qps\">").unwrap();
    let table = section.split_once("</table>").unwrap().0;
    assert_eq!(table.matches("<tr").count(), 1 + qps.len());
    assert!(table.contains("Own address") && table.contains("Timeout set"), "{table}");
}

/// Each queue pair has a life in the trace, below its device, with the packets of the report.
#[cfg(feature = "live")]
fn in_trace(trace: &str, qps: &[(&Value, &Value)]) {
    let trace: Value = serde_json::from_str(trace).unwrap();
    check_trace(&trace);
    let entries = trace["traceEvents"].as_array().unwrap();
    let lives: Vec<&Value> = entries.iter().filter(|entry| entry["name"] == "queue pair").collect();
    assert_eq!((lives.len(), &trace["otherData"]["qps_left_out"]), (qps.len(), &json!(0)));
    let sent = |of: &Value| of["sent_packets"].as_u64().unwrap();
    let all = |of: &mut dyn Iterator<Item = u64>| of.sum::<u64>();
    assert_eq!(
        all(&mut lives.iter().map(|life| sent(&life["args"]))),
        all(&mut qps.iter().map(|(_, qp)| sent(qp)))
    );
    let processes: BTreeSet<&str> = (entries.iter())
        .filter(|entry| entry["name"] == "process_name")
        .filter_map(|entry| entry["args"]["name"].as_str())
        .filter(|name| name.starts_with("NIC "))
        .collect();
    let devices: BTreeSet<&str> = qps.iter().map(|(device, _)| device["name"].as_str().unwrap()).collect();
    assert_eq!(processes.len(), devices.len(), "{processes:?}");
}

/// Loads a page in frames of these widths, and leaves for each by how much it is wider than the frame, and by how much
/// the table of queue pairs scrolls within it.
const WIDTHS: &str = r#"<!doctype html><meta charset="utf-8"><body></body><script>
addEventListener("load", async () => {
  const seen = [];
  for (const width of [390, 768, 1280]) {
    const frame = document.createElement("iframe");
    frame.width = width; frame.height = 900; frame.src = "page.html";
    const loaded = new Promise(done => frame.onload = done);
    document.body.append(frame);
    await loaded;
    const page = frame.contentWindow.document, table = page.querySelector("table.qps"), first = table.querySelector("tbody td");
    const before = first.getBoundingClientRect().left;
    table.parentElement.scrollLeft = 400;
    seen.push({
      overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      scrolls: table.parentElement.scrollWidth - table.parentElement.clientWidth,
      stays: first.getBoundingClientRect().left === before,
      rows: table.querySelectorAll("tbody tr").length,
      first: first.textContent,
    });
    frame.remove();
  }
  const left = document.createElement("pre");
  left.id = "seen";
  left.textContent = JSON.stringify(seen);
  document.body.append(left);
});
</script>"#;

/// The page that a unit test of the page writes (`queue_pairs_that_died_come_first_with_their_settings_and_ends`).
fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/share/offloaded.html")
}

#[test]
fn queue_pairs_are_readable_at_the_width_of_a_phone_and_of_a_desk() {
    if !chromium_or_skip("queue_pairs_are_readable_at_the_width_of_a_phone_and_of_a_desk") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(page(), folder.path().join("page.html")).unwrap();
    let harness = folder.path().join("harness.html");
    std::fs::write(&harness, WIDTHS).unwrap();
    let opened = browser::open(&harness).unwrap();
    assert!(opened.console.is_empty(), "{:?}", opened.console);
    let seen = seen(&opened.dom);
    assert_eq!(seen.as_array().unwrap().len(), 3);
    for one in seen.as_array().unwrap() {
        assert_eq!(
            (&one["overflow"], &one["stays"], &one["rows"]),
            (&json!(0), &json!(true), &json!(24)),
            "{one}"
        );
        assert_eq!(one["first"], "mlx5_0/1 QP 36", "the one that died is the first");
    }
    assert!(seen[0]["scrolls"].as_u64() > Some(0), "on a phone the table scrolls, not the page: {seen}");
}

/// Pictures of the page, in the folder that `ROCESCOPE_PICTURES` names (`cargo xtask pictures`), to look at.
#[test]
fn pictures_of_the_page_of_a_host_without_packets() {
    if !chromium_or_skip("pictures_of_the_page_of_a_host_without_packets") {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("ROCESCOPE_PICTURES").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).unwrap();
    for (size, name) in [((1_280, 1_800), "page-qps.png"), ((500, 1_800), "page-qps-narrow.png")] {
        let picture = browser::picture(&page(), Scheme::Light, size, &folder.join(name)).unwrap();
        assert!(picture.colors() > 50, "{name}: {} colours", picture.colors());
    }
}
