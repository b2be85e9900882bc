//! The sections of the page that no script fills: the matrix of hosts, latencies and the steps of a job, compared with
//! the JSON report of the same capture.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rocescope::util::units;
use rocescope_tests::schema;
use rocescope_tests::sim::scenarios;
use serde_json::Value;

use super::{capture, csv, printed};

/// The page and the report of a capture.
fn both(files: &[PathBuf]) -> (String, Value) {
    (printed(files, "html"), schema::read(&printed(files, "json")).unwrap())
}

/// The content of a section.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<section id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
    rest.split_once("</section>").unwrap().0
}

/// The attributes and contents of the elements of this name, which do not contain each other.
fn elements<'a>(html: &'a str, tag: &str) -> Vec<(&'a str, &'a str)> {
    let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
    let all = html.split(open.as_str()).skip(1).filter(|rest| rest.starts_with([' ', '>']));
    all.map(|rest| {
        let (attributes, rest) = rest.split_once('>').unwrap();
        (attributes, rest.split_once(close.as_str()).unwrap().0)
    })
    .collect()
}

/// The text of an element.
fn text(html: &str) -> String {
    let mut pieces = html.split('<');
    let mut text = pieces.next().unwrap().to_owned();
    for piece in pieces {
        text.push_str(piece.split_once('>').unwrap().1);
    }
    unescaped(&text)
}

fn unescaped(text: &str) -> String {
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    marks.iter().fold(text.to_owned(), |text, (mark, of)| text.replace(mark, of))
}

fn texts(html: &str, tag: &str) -> Vec<String> {
    elements(html, tag).into_iter().map(|(_, content)| text(content)).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// A number with commas, before the rest of a text.
fn leading(text: &str) -> u64 {
    let digits: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().unwrap()
}

/// These signals of a capture are unknown on the page, and these columns are empty. Returns the report.
fn unknown(file: &str, signals: &[&str], columns: &[&str]) -> Value {
    let files = [capture(file)];
    let (page, report) = both(&files);
    let hints = texts(section(&page, "timeline"), "p");
    for name in signals {
        let has = |begin: &str| {
            let names = hints.iter().find_map(|hint| hint.strip_prefix(begin)?.strip_suffix('.'));
            names.is_some_and(|names| names.split(", ").any(|one| one == *name))
        };
        assert!(has("Not known: ") && !has("All zero: "), "{name}: {hints:?}");
    }
    let rows = csv(&printed(&files, "csv"));
    for name in columns {
        let at = rows[0].iter().position(|one| one == name).unwrap();
        assert!(rows[1..].iter().all(|row| row[at].is_empty()), "{name}: {rows:?}");
    }
    report
}

/// Columns of NAKs.
const NAKS: [&str; 3] = ["nak_sequence_packets", "nak_other_packets", "rnr_naks"];

/// Datagrams have no sequence in which a packet could be missing, and none is acknowledged.
#[test]
fn loss_and_naks_of_datagrams_are_unknown_on_the_page_and_in_files() {
    let columns = ["lost_packets", "missing_psns", "retransmitted_packets"];
    unknown("b7_ud_ops.h1.pcap", &["NAK", "RNR NAK"], &NAKS);
    let report = unknown("b7_ud_ops.h1.pcap", &["lost", "retransmit"], &columns);
    for flow in report["flows"].as_array().unwrap() {
        assert!(flow["loss"].is_null() && flow["psn"].is_null(), "{flow}");
    }
}

/// Of unreliable connections nothing is acknowledged.
#[test]
fn naks_of_unreliable_connections_are_unknown_on_the_page_and_in_files() {
    unknown("b6_uc.h1.pcap", &["NAK", "RNR NAK"], &NAKS);
}

#[test]
fn the_matrix_of_the_page_has_the_pairs_of_the_report() {
    let (page, report) = both(&[capture("k1_ecmp_ring.uA0.pcap.gz")]);
    let html = section(&page, "hosts");
    let (_, table) = html.split_once("<table class=\"matrix\">").unwrap();
    let (head, body) = table.split_once("</thead>").unwrap();
    let hosts = texts(head, "th");
    let mut shown = BTreeMap::new();
    for (_, row) in elements(body, "tr") {
        let src = texts(row, "th").remove(0);
        let cells = elements(row, "td");
        assert_eq!(cells.len(), hosts.len(), "{row}");
        for (dst, (attributes, content)) in hosts.iter().zip(cells) {
            if !attributes.contains("class=\"none\"") {
                let title = attributes.split_once("title=\"").unwrap().1.split_once('"').unwrap().0;
                shown.insert((src.clone(), dst.clone()), (unescaped(title), text(content)));
            }
        }
    }
    let matrix = report["pattern"]["matrix"].as_array().unwrap();
    let address = |value: &Value| value.as_str().unwrap().to_owned();
    let expected: BTreeMap<_, _> = matrix
        .iter()
        .map(|cell| {
            let (src, dst) = (address(&cell["src"]), address(&cell["dst"]));
            let data = units::bytes(number(&cell["data_bytes"]));
            let packets = units::plural(number(&cell["packets"]), "packet");
            ((src.clone(), dst.clone()), format!("{src} → {dst}: {data} of data, {packets} in all"))
        })
        .collect();
    let titles: BTreeMap<_, _> =
        shown.iter().map(|(pair, (title, _))| (pair.clone(), title.clone())).collect();
    assert_eq!(titles, expected);
    for cell in matrix {
        let (_, text) = &shown[&(address(&cell["src"]), address(&cell["dst"]))];
        let data_bytes = number(&cell["data_bytes"]);
        let data = if data_bytes == 0 { "·".to_owned() } else { units::bytes(data_bytes) };
        assert!(text.trim_start_matches(['✖', '▲', ' ']) == data, "{text}, not {data}");
    }
    assert!(matrix.len() > 2 && matrix.iter().any(|cell| number(&cell["data_bytes"]) > 0));
    let packets: u64 = matrix.iter().map(|cell| number(&cell["packets"])).sum();
    assert_eq!(packets, number(&report["totals"]["roce_packets"]), "all packets are in a cell");
}

/// Holds the rows of the flows against the report: their samples, medians and longest.
fn check_flows(html: &str, flows: &[&Value], name: &str) {
    let body = html.split_once("<tbody>").unwrap().1;
    let shown: BTreeMap<String, Vec<String>> = elements(body, "tr")
        .into_iter()
        .map(|(_, row)| {
            let mut cells = texts(row, "td");
            (cells.remove(0), cells)
        })
        .collect();
    assert_eq!(shown.len(), flows.len(), "{name}");
    let whole = |value: &Value| value.as_str().unwrap().to_owned();
    for flow in flows {
        let key = format!("{} → {} QP {}", whole(&flow["src"]), whole(&flow["dst"]), flow["dest_qp"]);
        let (cells, latency) = (&shown[&key], &flow["latency_ns"]);
        assert_eq!(cells[0], units::count(number(&latency["count"])), "{name}: {key}");
        // Where more than half of all requests were not answered the median is a lower bound.
        let untimed =
            ["ambiguous", "outstanding"].map(|why| flow["latency_untimed"][why].as_u64().unwrap_or(0));
        let bounded = untimed.iter().sum::<u64>() > number(&latency["count"]);
        let p50 = units::duration(number(&latency["p50"]));
        assert_eq!(cells[1], format!("{}{p50}", if bounded { ">" } else { "" }), "{name}: {key}");
        assert_eq!(cells[4], units::duration(number(&latency["max"])), "{name}: {key}");
    }
}

#[test]
fn the_latencies_of_the_page_are_those_of_the_report() {
    let mut classes_seen = 0;
    for name in ["k1_ecmp_ring.uA0.pcap.gz", "b2_read.h0.pcap"] {
        let (page, report) = both(&[capture(name)]);
        let all = report["flows"].as_array().unwrap();
        let flows: Vec<&Value> = all.iter().filter(|flow| flow["latency_ns"].is_object()).collect();
        assert!(!flows.is_empty() && flows.len() <= 20, "{name}: {} flows", flows.len());
        let (of_flows, of_classes) = section(&page, "latency").split_once("</table>").unwrap();
        check_flows(of_flows, &flows, name);
        // The distributions over all flows, by class and by operation.
        let sum = |part: &str, class: &str| -> u64 {
            all.iter().filter_map(|flow| flow[part][class]["count"].as_u64()).sum()
        };
        let mut of_all = 0;
        let mut titles = texts(of_classes, "h3").into_iter();
        let mut tables = elements(of_classes, "tbody").into_iter();
        for (title, part, class) in [
            ("SEND and WRITE", "latency_by_class", "write_send"),
            ("READ, to the first response", "latency_by_class", "read"),
            ("Atomics", "latency_by_class", "atomic"),
            ("WRITE, to the message's completion", "message_completion_ns", "write"),
            ("SEND, to the message's completion", "message_completion_ns", "send"),
            ("READ, to the message's completion", "message_completion_ns", "read"),
        ] {
            let count = sum(part, class);
            if count == 0 {
                continue;
            }
            let expected = format!("{title}: {}", units::plural(count, "sample"));
            assert_eq!(titles.next().as_ref(), Some(&expected), "{name}");
            let rows = elements(tables.next().unwrap().1, "tr");
            let samples: u64 = rows.iter().map(|(_, row)| leading(&texts(row, "td")[2])).sum();
            assert_eq!(samples, count, "{name}: the rows of {title}");
            if part == "latency_by_class" {
                of_all += count;
                classes_seen += 1;
            }
        }
        assert_eq!((titles.next(), tables.next()), (None, None), "{name}");
        let counts: u64 = flows.iter().map(|flow| number(&flow["latency_ns"]["count"])).sum();
        assert_eq!(of_all, counts, "{name}: samples of all classes");
    }
    assert!(classes_seen > 1, "{classes_seen} classes");
}

#[test]
fn the_steps_of_the_page_are_those_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let ring = scenarios::all().into_iter().find(|one| one.name == "straggler-ring-at-switch").unwrap();
    let (page, report) = both(&ring.run(4791, folder.path()).unwrap().files);
    let html = section(&page, "job");
    let steps = report["steps"]["latest"].as_array().unwrap();
    assert!(steps.len() > 8, "{} steps", steps.len());
    let expected: Vec<String> = steps
        .iter()
        .map(|step| {
            let [start, length, busy, silence] =
                ["start_ns", "length_ns", "busy_ns", "silence_ns"].map(|field| number(&step[field]));
            format!(
                "{} UTC: {}, {} with data, longest silence {}",
                units::clock_utc(start),
                units::duration(length),
                units::duration(busy),
                units::duration(silence)
            )
        })
        // The whole of a step, and the part with data.
        .flat_map(|text| [text.clone(), text])
        .collect();
    assert_eq!(texts(html, "title"), expected);
    let longest = steps.iter().map(|step| number(&step["length_ns"])).max().unwrap();
    // The highest column is as high as the drawing.
    let columns = elements(html, "rect");
    for ((attributes, _), step) in columns.iter().step_by(2).zip(steps) {
        let height = attributes.split_once(" height=\"").unwrap().1.split_once('"').unwrap().0;
        let share = number(&step["length_ns"]) as f64 / longest as f64 * 100.0;
        assert!((height.parse::<f64>().unwrap() - share).abs() < 0.51, "{height} of {share}");
    }
    let words = texts(html, "pre").concat();
    let straggler = report["steps"]["straggler"]["host"].as_str().expect("no straggler");
    let line = words.lines().find(|line| line.contains("Straggler")).expect("no line of the straggler");
    assert!(line.contains(straggler), "{line}: not {straggler}");
}
