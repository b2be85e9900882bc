//! Shared reports: the HTML page in a real browser, traces and CSV, compared with the JSON report of the same
//! capture.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod joined;
mod offloaded;
#[cfg(feature = "live")]
mod sections;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocescope_tests::browser::{self, Pixels, Scheme, chromium_or_skip};
#[cfg(feature = "live")]
use rocescope_tests::fleet::ask::of_captures;
use rocescope_tests::oracle::{binary, captures};
#[cfg(feature = "live")]
use rocescope_tests::packages::duck_db_or_skip;
use rocescope_tests::packages::perfetto_or_skip;
use rocescope_tests::schema;
use rocescope_tests::sim::scenarios;
use serde_json::{Value, json};

fn capture(name: &str) -> PathBuf {
    captures::folder().join(name)
}

fn replay(files: &[PathBuf], options: &[&str]) -> Output {
    Command::new(binary::path().unwrap()).arg("replay").args(files).args(options).output().unwrap()
}

/// The output in a format.
fn printed(files: &[PathBuf], output: &str) -> String {
    let output = replay(files, &["--output", output]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn loss() -> Vec<PathBuf> {
    vec![capture("e1_loss1.h0.pcap.gz"), capture("e1_loss1.h1.pcap.gz")]
}

/// Loads the page in a frame, operates it as a user does, and leaves the observations as JSON in an element.
const HARNESS: &str = r##"<!doctype html><meta charset="utf-8"><iframe id="frame" width="1200" height="900" src="PAGE"></iframe><pre id="seen"></pre><script>
addEventListener("load", () => {
  const window_ = document.getElementById("frame").contentWindow, page = window_.document, seen = {};
  const head = title => [...page.querySelectorAll("#flowtable th")].findIndex(one => one.textContent.startsWith(title));
  const column = at => [...page.querySelectorAll("#flowtable tbody tr")].map(row => row.cells[at].dataset.v);
  seen.resources = window_.performance.getEntriesByType("resource").map(one => one.name);
  const at = head("RETX"), th = page.querySelectorAll("#flowtable th")[at];
  seen.before = column(at);
  th.click();
  seen.descending = column(at);
  seen.sorted = th.getAttribute("aria-sort");
  th.click();
  seen.ascending = column(at);
  const filter = page.getElementById("filter"), rows = () => page.querySelectorAll("#flowtable tbody tr:not([hidden])").length;
  seen.rows = rows();
  filter.value = "loss.between 10.0.0.1";
  filter.dispatchEvent(new window_.Event("input"));
  seen.filtered = rows();
  const chart = page.getElementById("chart"), plot = chart.querySelector(".plot").getBoundingClientRect();
  const view = () => chart.querySelector("svg.series").getAttribute("viewBox");
  const tick = () => page.querySelector("#ticks text").textContent;
  const point = (kind, share) => chart.dispatchEvent(new window_.PointerEvent(kind, { clientX: plot.left + plot.width * share, clientY: plot.top + 5, button: 0, bubbles: true }));
  seen.whole = [view(), tick()];
  point("pointermove", 0.5);
  seen.reading = page.getElementById("reading").textContent;
  point("pointerdown", 0.25); point("pointermove", 0.5); point("pointerup", 0.75);
  seen.zoomed = [view(), tick()];
  chart.dispatchEvent(new window_.MouseEvent("dblclick", { bubbles: true }));
  seen.reset = [view(), tick()];
  window_.location.hash = "#p2";
  seen.download = !page.getElementById("download").hidden;
  // Its numbers have more digits than JavaScript numbers.
  seen.report = page.getElementById("report").textContent;
  seen.images = page.images.length;
  seen.overflow = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  document.getElementById("frame").remove();
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script>"##;

/// The JSON left by the harness.
fn seen(dom: &str) -> Value {
    let text = dom.split_once("<pre id=\"seen\">").unwrap().1.split_once("</pre>").unwrap().0;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap()
}

fn numbers(values: &Value) -> Vec<f64> {
    // Unknown values have no number.
    let texts = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap());
    texts.map(|text| text.parse().unwrap_or(f64::NAN)).collect()
}

#[test]
fn the_page_works_in_a_browser() {
    if !chromium_or_skip("the_page_works_in_a_browser") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("page.html"), printed(&loss(), "html")).unwrap();
    std::fs::write(at("harness.html"), HARNESS.replace("PAGE", "page.html")).unwrap();
    let opened = browser::open(&at("harness.html")).unwrap();
    assert!(opened.console.is_empty(), "{:?}", opened.console);
    let seen = seen(&opened.dom);

    assert_eq!(seen["resources"], json!([]), "nothing is loaded");
    let (before, descending, ascending) =
        (numbers(&seen["before"]), numbers(&seen["descending"]), numbers(&seen["ascending"]));
    let known = |values: &[f64]| values.iter().copied().filter(|n| !n.is_nan()).collect::<Vec<_>>();
    assert!(known(&descending).is_sorted_by(|a, b| a >= b), "{descending:?}");
    assert!(known(&ascending).is_sorted(), "{ascending:?}");
    assert!(known(&before).len() > 4 && known(&before).first() != known(&ascending).first(), "{before:?}");
    assert!(descending.last().unwrap().is_nan() && ascending.last().unwrap().is_nan(), "unknown is last");
    assert_eq!(seen["sorted"], "descending");
    assert_eq!(seen["rows"], before.len());
    let filtered = seen["filtered"].as_u64().unwrap();
    assert!(filtered > 0 && filtered < before.len() as u64, "{filtered}");

    assert_ne!(seen["zoomed"][0], seen["whole"][0]);
    assert_ne!(seen["zoomed"][1], seen["whole"][1]);
    assert_eq!(seen["reset"], seen["whole"]);
    let reading = seen["reading"].as_str().unwrap();
    assert!(reading.contains(" UTC: throughput ") && reading.contains("lost "), "{reading}");
    assert_eq!((&seen["download"], &seen["images"], &seen["overflow"]), (&json!(true), &json!(0), &json!(0)));
    let report = schema::read(&printed(&loss(), "json")).unwrap();
    let carried: Value = serde_json::from_str(seen["report"].as_str().unwrap()).unwrap();
    assert!(carried == report, "the page carries the report");
}

/// The name of a capture file is untrusted input.
#[test]
fn a_hostile_name_stays_text_in_a_browser() {
    if !chromium_or_skip("a_hostile_name_stays_text_in_a_browser") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let hostile = "'\"><img src=x onerror=alert(1)><script>console.error(1)<.pcap";
    std::fs::copy(capture("g_rnr.h0.pcap"), at(hostile)).unwrap();
    std::fs::write(at("page.html"), printed(&[at(hostile)], "html")).unwrap();
    let page = browser::open(&at("page.html")).unwrap();
    assert!(page.console.is_empty(), "{:?}", page.console);
    assert!(!page.dom.contains("<img"), "an image");
    assert!(page.dom.contains("onerror=alert(1)&gt;"), "the name as text");
    // Without its script, by the same policy, the page still shows everything.
    let still = std::fs::read_to_string(at("page.html")).unwrap();
    assert!(still.contains("Receiver not ready") || still.contains("rnr.slow_receiver"), "the finding");
    // The assertions above are effective: a page that writes to the console, and one that violates its policy.
    let broken = still.replace("<h1>", "<h1><img src=\"http://192.0.2.1/x.png\">");
    std::fs::write(at("broken.html"), broken).unwrap();
    let broken = browser::open(&at("broken.html")).unwrap();
    assert!(
        broken.console.iter().any(|line| line.contains("Content Security Policy")),
        "{:?}",
        broken.console
    );
}

/// Names of processes, pods, links, inputs, filters and switches are untrusted input as well. A unit test of the page
/// (`names_from_outside_cannot_become_markup`) writes the page opened here.
#[test]
fn hostile_names_of_every_origin_stay_text_in_a_browser() {
    if !chromium_or_skip("hostile_names_of_every_origin_stay_text_in_a_browser") {
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/share/hostile.html");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::copy(&file, at("page.html")).unwrap();
    let page = browser::open(&at("page.html")).unwrap();
    assert!(page.console.is_empty(), "{:?}", page.console);
    // The document has only the elements that the page means: no image, and one script beside the report's data.
    assert!(!page.dom.contains("<img"), "an image");
    assert_eq!(page.dom.matches("<script").count(), 2);
    let as_text = "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;";
    assert!(page.dom.matches(as_text).count() > 10, "the names as text");
    assert!(!page.dom.chars().any(rocescope_tests::hostile::is_hostile), "a character that misleads");
    // Its own script ran, and the data has the names as they are.
    assert!(page.dom.contains("<span id=\"nojs\" hidden"), "its script did not run");
    let (_, data) = page.dom.split_once("id=\"report\">").unwrap();
    let report = schema::read(data.split_once("</script>").unwrap().0).unwrap();
    let hostile = &report["source"]["filter"];
    assert!(hostile.as_str().unwrap().starts_with("</script>"), "{hostile}");
    for name in [&report["links"][0]["neighbours"][0]["system"], &report["flows"][0]["comm"]] {
        assert_eq!(name, hostile);
    }
}

/// The page of an answer about a fleet, with a hostile name of a host: it opens without an error, and has the headline
/// and the rows of the same answer in JSON.
#[cfg(feature = "live")]
#[test]
fn the_page_of_a_fleet_is_shown_in_a_browser() {
    const TEST: &str = "the_page_of_a_fleet_is_shown_in_a_browser";
    if !chromium_or_skip(TEST) {
        return;
    }
    let Some(engine) = duck_db_or_skip(TEST) else { return };
    let hosts = [("node<0>", &["e1_loss1.h0.pcap.gz"][..]), ("node1", &["e1_loss1.h1.pcap.gz"])];
    let folder = of_captures(&hosts);
    let asked = |output: &str| {
        let mut command = Command::new(binary::path().unwrap());
        command.args(["fleet", "loss"]).arg(folder.path()).arg("--engine").arg(&engine);
        let output = command.args(["--output", output]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let page = folder.path().join("page.html");
    std::fs::write(&page, asked("html")).unwrap();
    let answer: Value = serde_json::from_str(&asked("json")).unwrap();
    let opened = browser::open(&page).unwrap();
    assert!(opened.console.is_empty(), "{:?}", opened.console);
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let headline = answer["headline"].as_str().unwrap();
    assert!(headline.contains("packets lost"), "{headline}");
    assert!(opened.dom.contains(&escaped(headline)), "{headline}: {}", opened.dom);
    let rows = answer["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let place = row["place"].as_str().unwrap();
        assert!(opened.dom.contains(&escaped(place)), "{place}: {}", opened.dom);
    }
    assert!(!opened.dom.contains("node<0>"), "a name became markup");
    assert_eq!(opened.dom.matches("<tr").count(), rows.len() + 1, "{}", opened.dom);
}

/// A policy that forbids its script leaves the page readable.
#[test]
fn the_page_is_readable_without_java_script() {
    if !chromium_or_skip("the_page_is_readable_without_java_script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let with = printed(&loss(), "html");
    let (before, rest) = with.split_once("script-src ").unwrap();
    let (_, after) = rest.split_once(" img-src").unwrap();
    std::fs::write(at("without.html"), format!("{before}script-src 'none'; img-src{after}")).unwrap();
    let opened = browser::open(&at("without.html")).unwrap();
    assert!(
        opened.console.len() == 1 && opened.console[0].contains("Content Security Policy"),
        "the script alone is refused: {:?}",
        opened.console
    );
    let report = schema::read(&printed(&loss(), "json")).unwrap();
    for finding in report["findings"].as_array().unwrap() {
        let title = finding["title"].as_str().unwrap();
        assert!(opened.dom.contains(&title.replace('&', "&amp;").replace('<', "&lt;")), "{title}");
    }
    let (_, table) = opened.dom.split_once("id=\"flowtable\"").unwrap();
    let (_, rows) = table.split_once("<tbody>").unwrap();
    let rows = rows.split_once("</tbody>").unwrap().0.matches("<tr").count();
    assert_eq!(rows, report["flows"].as_array().unwrap().len());
    // What needs the script is not offered, and what replaces it is.
    assert!(opened.dom.contains("<button id=\"download\" hidden"), "a button without effect");
    assert!(opened.dom.contains("<span id=\"nojs\">"), "where the report is");
    std::fs::write(at("with.html"), with).unwrap();
    let with = browser::open(&at("with.html")).unwrap();
    assert!(with.dom.contains("<span id=\"nojs\" hidden"), "the script hides it");
}

/// Pictures of the page, in the folder that `ROCESCOPE_PICTURES` names (`cargo xtask pictures`), to look at.
#[test]
fn pictures_of_the_page_in_light_in_dark_and_on_paper() {
    const SIZE: (u32, u32) = (1_280, 2_400);
    if !chromium_or_skip("pictures_of_the_page_in_light_in_dark_and_on_paper") {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("ROCESCOPE_PICTURES").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).unwrap();
    let page = temporary.path().join("page.html");
    std::fs::write(&page, printed(&loss(), "html")).unwrap();
    let [light, dark] = [(Scheme::Light, "page-light.png"), (Scheme::Dark, "page-dark.png")]
        .map(|(scheme, name)| browser::picture(&page, scheme, SIZE, &folder.join(name)).unwrap());
    for picture in [&light, &dark] {
        let size = (picture.width, picture.pixels.len() / picture.width);
        assert_eq!(size, (SIZE.0 as usize, SIZE.1 as usize));
        // Text, lines, and the colours of severities: a blank page has one colour, a page without its style few.
        assert!(picture.colors() > 100, "{} colours", picture.colors());
        let red = picture.pixels.iter().filter(|[r, g, b]| *r > 180 && *g < 110 && *b < 110).count();
        assert!(red > 1_000, "{red} pixels of the colour of a critical problem");
    }
    // The corner has the background of the page.
    let corner = |picture: &Pixels| picture.pixels[0].map(u32::from).iter().sum::<u32>();
    assert!(corner(&light) > 3 * 220 && corner(&dark) < 3 * 40, "{} {}", corner(&light), corner(&dark));
    let mean = [&light, &dark].map(Pixels::brightness);
    assert!(mean[0] > 200.0 && mean[1] < 70.0, "{mean:?}");
    let pages = browser::print(&page, &folder.join("page.pdf")).unwrap();
    assert!((2..=20).contains(&pages), "{pages} pages");
}

/// Lines and cells of a CSV file (RFC 4180).
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.push(chars.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(!quoted && row.is_empty() && cell.is_empty(), "the last line ends");
    rows
}

#[test]
fn csv_has_the_flows_of_the_report() {
    for files in [loss(), vec![capture("c1_ipv6_write.h0.pcap")], vec![capture("f1_ecn_red.h1.pcap.gz")]] {
        let report = schema::read(&printed(&files, "json")).unwrap();
        let rows = csv(&printed(&files, "csv"));
        let (names, rows) = rows.split_first().unwrap();
        let flows = report["flows"].as_array().unwrap();
        assert_eq!(rows.len(), flows.len());
        for (row, flow) in rows.iter().zip(flows) {
            let cell = |name: &str| row[names.iter().position(|one| one == name).unwrap()].as_str();
            let text = |value: &Value| match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            for (name, value) in [
                ("link", &flow["link"]),
                ("src", &flow["src"]),
                ("dst", &flow["dst"]),
                ("dest_qp", &flow["dest_qp"]),
                ("src_qp", &flow["peer_qp"]),
                ("packets", &flow["packets"]),
                ("bytes", &flow["bytes"]),
                ("ce_ratio", &flow["ce_ratio"]),
                ("rnr_naks", if has_answers(&flow["ack"]) { &flow["ack"]["rnr_naks"] } else { &Value::Null }),
                ("latency_p50_ns", &flow["latency_ns"]["p50"]),
                ("first_unix_ns", &flow["first_ns"]),
                ("comm", &flow["comm"]),
            ] {
                assert_eq!(cell(name), text(value), "{name}");
            }
        }
    }
}

/// True if something was seen that can be a NAK.
fn has_answers(ack: &Value) -> bool {
    let naks = ack["naks"].as_object().unwrap();
    let counts = [&ack["acks"], &ack["rnr_naks"]].into_iter().chain(naks.values());
    counts.filter_map(Value::as_u64).any(|count| count > 0)
}

/// Slices of a track are nested, and each track is in order.
fn check_trace(all: &Value) {
    let mut tracks: BTreeMap<(u64, u64), (f64, Vec<f64>)> = BTreeMap::new();
    for entry in all["traceEvents"].as_array().unwrap().iter().filter(|entry| entry["ph"] != "M") {
        let track = (entry["pid"].as_u64().unwrap(), entry["tid"].as_u64().unwrap());
        let (before, open) = tracks.entry(track).or_default();
        let ts = entry["ts"].as_f64().unwrap();
        assert!(ts >= *before, "{entry}");
        *before = ts;
        open.retain(|end| *end > ts);
        if entry["ph"] == "X" {
            let end = ts + entry["dur"].as_f64().filter(|dur| *dur >= 0.0).unwrap();
            assert!(open.iter().all(|around| end <= around + 1.0), "{entry}");
            open.push(end);
        }
    }
    assert!(!tracks.is_empty());
}

/// Holds the gaps of a trace against the report's, and returns the number of those of requests. A jump of responses
/// between two messages is counted, but need not be a gap, and then is no event.
fn check_gaps(report: &Value, trace: &Value, name: &str) -> u64 {
    let psns = |part: &str, field: &str| -> u64 {
        let flows = report["flows"].as_array().unwrap().iter();
        flows.filter_map(|flow| flow[part][field].as_u64()).sum()
    };
    let all = trace["traceEvents"].as_array().unwrap().iter();
    let jumps = all.filter(|entry| entry["name"].as_str().unwrap().starts_with("PSN gap: "));
    let missing: Vec<u64> = jumps.map(|entry| entry["args"]["missing_psns"].as_u64().unwrap()).collect();
    for (field, shown) in [("gaps", missing.len() as u64), ("missing", missing.iter().sum())] {
        let (requests, responses) = (psns("psn", field), psns("psn_responses", field));
        assert!(
            (requests..=requests + responses).contains(&shown),
            "{name}: {shown} {field} of {requests} and {responses}"
        );
    }
    psns("psn", "gaps")
}

#[test]
fn traces_have_the_flows_and_events_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    // Soft-RoCE sends no CNPs.
    let with_cnps = scenarios::all().into_iter().find(|scenario| scenario.name == "cnp-storm").unwrap();
    let with_cnps = with_cnps.run(4791, folder.path()).unwrap().files;
    let names = ["e1_loss1.h1.pcap.gz", "g_rnr.h0.pcap", "f1_ecn_red.h1.pcap.gz", "h1_rping.h0.pcap"];
    let (mut cnps, mut gaps) = (0, 0);
    for file in names.map(capture).into_iter().chain(with_cnps) {
        let (name, files) = (file.display().to_string(), [file]);
        let report = schema::read(&printed(&files, "json")).unwrap();
        let trace: Value = serde_json::from_str(&printed(&files, "trace")).unwrap();
        check_trace(&trace);
        let count = |phase: &str, is: &dyn Fn(&str) -> bool| {
            let all = trace["traceEvents"].as_array().unwrap().iter();
            all.filter(|entry| entry["ph"] == phase && is(entry["name"].as_str().unwrap())).count() as u64
        };
        let sum = |get: &dyn Fn(&Value) -> &Value| -> u64 {
            report["flows"].as_array().unwrap().iter().map(|flow| get(flow).as_u64().unwrap()).sum()
        };
        assert_eq!(count("X", &|name| name == "flow"), report["flows"].as_array().unwrap().len() as u64);
        assert_eq!(count("i", &|name| name.starts_with("RNR NAK")), sum(&|flow| &flow["ack"]["rnr_naks"]));
        assert_eq!(
            count("i", &|name| name == "NAK: PSN sequence error"),
            sum(&|flow| &flow["ack"]["naks"]["psn_sequence_error"]),
            "{name}"
        );
        let marks = sum(&|flow| &flow["cnp_packets"]);
        assert_eq!(count("i", &|name| name == "CNP"), marks, "{name}");
        (cnps, gaps) = (cnps + marks, gaps + check_gaps(&report, &trace, &name));
        assert_eq!(trace["otherData"]["events_left_out"], 0);
        check_messages(&report, &trace);
    }
    assert!(cnps > 10_000 && gaps > 30, "{cnps} {gaps}");
}

/// What Perfetto's trace processor has of a trace: the errors that it counts, slices (instants among them), counters'
/// values, slices without an end, names of processes and threads.
fn in_perfetto(engine: &Path, trace: &str) -> Vec<String> {
    const QUERY: &str = "select coalesce((select group_concat(name || ' ' || value) from stats where severity <> 'info' and value > 0), '') \
                         union all select '' || count(*) from slice \
                         union all select '' || count(*) from counter \
                         union all select '' || count(*) from slice where dur < 0 \
                         union all select '' || count(*) from process where name is not null \
                         union all select '' || count(*) from thread where name is not null";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["engine_bundle.js", "trace_processor.wasm"] {
        std::os::unix::fs::symlink(engine.join(name), at(name)).unwrap();
    }
    std::fs::write(at("trace.json"), trace).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/share/perfetto.html");
    let page = std::fs::read_to_string(page).unwrap().replace("QUERY", QUERY);
    std::fs::write(at("page.html"), page).unwrap();
    let opened = browser::open(&at("page.html")).unwrap();
    let seen = seen(&opened.dom);
    assert_eq!(seen["errors"], json!([]), "{:?}", opened.console);
    let cells = seen["cells"].as_array().unwrap();
    cells.iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
}

#[test]
fn perfetto_reads_every_entry_of_a_trace() {
    const TEST: &str = "perfetto_reads_every_entry_of_a_trace";
    if !chromium_or_skip(TEST) {
        return;
    }
    let Some(engine) = perfetto_or_skip(TEST) else { return };
    for name in ["e1_loss1.h1.pcap.gz", "f1_ecn_red.h1.pcap.gz"] {
        let text = printed(&[capture(name)], "trace");
        let trace: Value = serde_json::from_str(&text).unwrap();
        let all = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str| all.iter().filter(|entry| entry["ph"] == phase).collect::<Vec<_>>();
        let values: usize = of("C").iter().map(|entry| entry["args"].as_object().unwrap().len()).sum();
        let named = |kind: &str| of("M").iter().filter(|entry| entry["name"] == kind).count();
        let slices = of("X").len() + of("i").len();
        let expected =
            [slices, values, 0, named("process_name"), named("thread_name")].map(|n| n.to_string());
        assert!(slices > 50 && values > 100, "{name}: {expected:?}");
        assert_eq!(in_perfetto(&engine, &text), [&[String::new()], &expected[..]].concat(), "{name}");
    }
    // What is wrong it counts: the second slice ends after the one around it.
    let wrong = r#"[{"ph":"X","pid":1,"tid":1,"ts":0,"dur":10,"name":"a"},{"ph":"X","pid":1,"tid":1,"ts":5,"dur":10,"name":"b"}]"#;
    assert_ne!(in_perfetto(&engine, wrong)[0], "", "an error");
}

/// Messages are slices whose lengths are within the latencies of their flows, and none is lost uncounted.
fn check_messages(report: &Value, trace: &Value) {
    let all = trace["traceEvents"].as_array().unwrap().iter();
    let messages: Vec<&Value> = all.filter(|entry| entry["args"]["first_psn"].is_u64()).collect();
    let other = &trace["otherData"];
    let counted = messages.len() as u64 + other["messages_left_out"].as_u64().unwrap();
    let seen: u64 = report["pattern"]["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| operation["messages"].as_u64().unwrap())
        .sum();
    let partial = other["messages_partial"].as_u64().unwrap();
    assert!(counted > 0 && counted <= seen && counted + partial >= seen, "{counted} and {partial} of {seen}");
    for message in messages {
        let args = &message["args"];
        let ns = message["dur"].as_f64().unwrap() * 1e3;
        assert!(ns + 1.0 >= args["sending_ns"].as_f64().unwrap(), "{message}");
        assert!(args["bytes"].is_u64() || args["bytes"].is_null(), "{message}");
    }
}

#[test]
fn a_report_goes_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    for output in ["text", "json", "jsonl", "html", "trace", "csv"] {
        let options = ["--output", output, "--out", file.to_str().unwrap()];
        let run = replay(&[capture("g_rnr.h0.pcap")], &options);
        assert!(run.status.success() && run.stdout.is_empty(), "{output}");
        let written = std::fs::read_to_string(&file).unwrap();
        assert_eq!(written, printed(&[capture("g_rnr.h0.pcap")], output), "{output}");
    }
    let said = |options: &[&str]| {
        let run = replay(&[capture("g_rnr.h0.pcap")], options);
        assert_eq!(run.status.code(), Some(1));
        String::from_utf8(run.stderr).unwrap()
    };
    let nowhere = Path::new("/nowhere/report.html");
    assert!(
        said(&["--out", nowhere.to_str().unwrap()]).contains("--out: cannot create /nowhere/report.html")
    );
    assert!(said(&["--output", "tui", "-o", file.to_str().unwrap()]).contains("--out needs an --output"));
}
