//! Tests of the page: well-formed, complete, and safe against injection by names from outside.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::analysis::fixtures::{SECOND, START, document, everything, port, qp_event, qp_life, with_lives};
use crate::entity::lives::{DESTROYED, ERROR, Lives, TO_ERROR};
use crate::ethernet::lldp::Neighbour;
use crate::findings::Severity;
use crate::report::Options;
use crate::sample::Sample;

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

fn report() -> Report {
    Report::build(&everything(), &Options::default())
}

/// Elements without an end tag.
const VOID: [&str; 3] = ["meta", "link", "input"];

/// Parses the page as strictly as XML: every element is closed, every attribute is quoted. Returns the texts.
fn well_formed(page: &str) -> String {
    let mut rest = page.strip_prefix("<!doctype html>").unwrap();
    let (mut open, mut texts): (Vec<&str>, String) = (Vec::new(), String::new());
    while let Some(at) = rest.find('<') {
        texts.push_str(&rest[..at]);
        assert!(!rest[..at].contains('>'), "a bare >: {:?}", &rest[..at]);
        let tag = &rest[at + 1..at + rest[at..].find('>').unwrap()];
        rest = &rest[at + tag.len() + 2..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
            continue;
        }
        let name = tag.split_whitespace().next().unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if name == "script" || name == "style" {
            let end = rest.find(&format!("</{name}>")).unwrap();
            rest = &rest[end + name.len() + 3..];
        } else if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    texts
}

#[test]
fn the_policy_names_style_and_script_by_their_hashes() {
    assert_eq!((STYLE_HASH, SCRIPT_HASH), (&*hash(STYLE), &*hash(SCRIPT)));
    assert_eq!(hash("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    assert!(!SCRIPT.contains("</") && !STYLE.contains("</"));
}

#[test]
fn the_page_is_well_formed_and_has_the_findings() {
    let report = report();
    let page = page(&report, None, None);
    let texts = well_formed(&page);
    for finding in &report.findings {
        assert!(texts.contains(&markup::escape(&finding.title)), "{}", finding.title);
        for step in finding.steps.iter().filter_map(|step| step.command.as_ref()) {
            assert!(texts.contains(&markup::escape(step)), "{step}");
        }
    }
    // Nothing is loaded, and no element has an inline style or handler.
    for banned in [" src=", " style=", " onclick=", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(banned), "{banned}");
    }
}

#[test]
fn a_problem_that_is_quiet_says_so() {
    let mut report = report();
    report.findings.truncate(1);
    let end_ns = START + 100 * SECOND;
    report.facts.window.last_ns = Some(end_ns);
    let mut of = |quiet_s: u64| {
        let last_ns = end_ns - quiet_s * SECOND;
        let finding = &mut report.findings[0];
        (finding.active, finding.severity, finding.episodes) = (true, Severity::Critical, Vec::new());
        finding.last_seen_ns = Some(last_ns);
        finding.first_seen_ns = Some(last_ns - 3 * SECOND);
        page(&report, None, None)
    };
    let quiet = of(7);
    assert!(quiet.contains(" 3.00 s, quiet for 7.00 s"));
    assert!(quiet.contains("<span class=\"label\"> quiet</span>"));
    assert!(!of(2).contains("quiet"));
}

/// An info finding that belongs to a warning, and is its cause: it does not both cause it and follow from it.
#[test]
fn a_related_finding_is_named_once() {
    let mut report = report();
    report.findings.truncate(2);
    let [owner, part] = report.findings.as_mut_slice() else { panic!("two findings") };
    (owner.id, part.id) = ("retry.storm", "loss.after_tap");
    (owner.owner, part.owner, part.owner_at) = (None, Some(owner.id), owner.at);
    (owner.causes, owner.effects) = (vec![part.id], Vec::new());
    (part.causes, part.effects) = (Vec::new(), vec![owner.id]);
    let relations = |report: &Report| {
        let page = page(report, None, None);
        let labels = page.split("<li><span class=\"label\">").skip(1);
        labels.map(|rest| rest.split_once('<').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(relations(&report), ["Includes", "Part of"]);
    report.findings[0].causes.clear();
    assert_eq!(relations(&report), ["Leads to", "Part of"], "a consequence");
}

#[test]
fn names_from_outside_cannot_become_markup() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'\u{1b}[2J\u{202e}";
    let clean = page(&report(), None, None);
    let mut report = report();
    for finding in &mut report.findings {
        finding.title = hostile.into();
        finding.caveats = vec![hostile.into()];
        finding.advice = hostile.into();
        // On another host, so that the verdict has the text of the step too.
        for step in &mut finding.steps {
            (step.text, step.command) = (hostile.into(), Some(hostile.into()));
            step.host = Some([10, 0, 0, 9].into());
        }
    }
    for flow in &mut report.facts.flows {
        (flow.comm, flow.pod, flow.link) = (Some(hostile.into()), Some(hostile.into()), hostile.into());
    }
    for link in &mut report.facts.links {
        link.name = hostile.into();
        let name = || Some(hostile.to_owned());
        link.neighbours = vec![Neighbour {
            system: name(),
            chassis: name(),
            port: name(),
            port_description: name(),
            ..Neighbour::default()
        }];
    }
    report.facts.source.inputs = vec![hostile.into()];
    report.facts.source.filter = Some(hostile.into());
    let page = page(&report, None, None);
    well_formed(&page);
    for banned in ["<img", "\u{1b}", "\u{202e}", "<script>alert"] {
        assert!(!page.contains(banned), "{banned:?}");
    }
    assert_eq!(page.matches("<script").count(), clean.matches("<script").count());
    let json = page.split_once("id=\"report\">").unwrap().1.split_once("</script>").unwrap().0;
    let read: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(read["source"]["filter"], hostile, "the report keeps names as they are");
    assert_eq!(read["links"][0]["neighbours"][0]["system"], hostile);
    // tests/tests/share opens it in a browser.
    document::check("../tests/data/share/hostile.html", &stable(&page));
}

/// The version changes with each release, so it is replaced.
fn stable(page: &str) -> String {
    page.replace(&format!("rocescope {}", env!("CARGO_PKG_VERSION")), "rocescope 0")
}

#[test]
fn a_report_without_anything_is_a_page() {
    let page = page(&Report::build(&Sample::default(), &Options::default()), None, None);
    let texts = well_formed(&page);
    assert!(texts.contains("Unknown: no RoCE packet was observed"));
    assert!(!page.contains("id=\"flowtable\""));
}

/// A host whose NIC processes RoCE itself: queue pairs that move, retry, died and ended.
fn offloaded() -> Report {
    let life = |lqpn: u32| {
        let mut life = qp_life(lqpn, lqpn + 4_096);
        let control = &mut life.control;
        (control.udp_port, control.path_mtu, control.dscp) = (Some(50_000), Some(4_096), Some(26));
        (control.timeout_ns, control.retry_cnt, control.rnr_retry) = (Some(67_108_864), Some(7), Some(7));
        control.created_ns = Some(START);
        life.choices.plane = Some(2);
        life
    };
    let mut qps: Vec<_> = (16..40).map(life).collect();
    (qps[20].state, qps[20].control.end) = (Some("ERR"), Some(ERROR));
    (qps[21].control.ended_ns, qps[21].control.end) = (Some(START + 500), Some(DESTROYED));
    let mut event = qp_event(36, "error reason", START + 400_000_000);
    event.reason = Some("</td>local QP operation error".into());
    // The next list finds it in the error state, which says less.
    let later = qp_event(36, TO_ERROR, START + 900_000_000);
    let lives = Lives { qps: qps.into(), events: vec![event, later], ..Lives::default() };
    let mut sample = with_lives(port(), lives);
    sample.kind = crate::sample::SourceKind::Live;
    let mut report = Report::build(&sample, &Options::default());
    let qps = &mut report.facts.devices[0].qps;
    for (at, qp) in (0u64..).zip(&mut *qps) {
        (qp.sent_packets, qp.received_packets) = (Some(1_000_000 * at), Some(1_000 * at));
        (qp.in_flight, qp.stuck_ns, qp.retries_used) = (Some(3), Some(0), Some(0));
    }
    (qps[7].stuck_ns, qps[7].retries_used, qps[7].timeouts) = (Some(2_500_000_000), Some(5), Some(5));
    report
}

#[test]
fn queue_pairs_that_died_come_first_with_their_settings_and_ends() {
    let page = page(&offloaded(), None, None);
    let texts = well_formed(&page);
    let section = texts.split_once("Times are UTC; MTU in bytes").unwrap().1;
    let place = |lqpn: u32| section.find(&format!("mlx5_0/1 QP {lqpn}")).unwrap();
    assert!(place(36) < place(23), "the dead one before the one that stands still");
    assert!(place(23) < place(39) && place(39) < place(16), "then the busiest");
    assert!(place(37) > place(16), "the one that ended is the last");
    for text in [
        "Own address",
        "10.0.0.1",
        "UDP port",
        "50000",
        "Path MTU",
        "4096",
        "Timeout set",
        "67.1 ms",
        "5 of 7",
        "- of ∞",
        "Plane",
        "died 13:05:09.650: &lt;/td&gt;local QP operation error",
        "destroyed",
        "13:05:09.250",
        "2.50 s",
    ] {
        assert!(section.contains(text), "{text}: {section}");
    }
    // Unknown of all: no column.
    assert!(!section.contains("Bond port"));
    let lacks = texts.rsplit_once("Not visible").unwrap().1;
    assert!(lacks.contains("QP context of the NIC not read: --qp-queries is 0"), "{lacks}");
    // tests/tests/share opens it in a browser.
    document::check("../tests/data/share/offloaded.html", &stable(&page));
}
