//! Tests of the page: well-formed, complete, and safe against injection by names from outside.

use sha2::{Digest as _, Sha256};

use super::*;
use crate::analysis::fixtures::{document, everything};
use crate::ethernet::lldp::Neighbour;
use crate::report::Options;
use crate::sample::Sample;

/// Base64 according to RFC 4648.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            text.push(if at <= three.len() { digit } else { '=' });
        }
    }
    text
}

fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text)))
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
fn names_from_outside_cannot_become_markup() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'\u{1b}[2J\u{202e}";
    let clean = page(&report(), None, None);
    let mut report = report();
    for finding in &mut report.findings {
        finding.title = hostile.into();
        finding.caveats = vec![hostile.into()];
        finding.advice = hostile.into();
        for step in &mut finding.steps {
            (step.text, step.command) = (hostile.into(), Some(hostile.into()));
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
    // tests/tests/share.rs opens it in a browser. The version changes with each release, so it is replaced.
    let stable = page.replace(&format!("rocescope {}", env!("CARGO_PKG_VERSION")), "rocescope 0");
    document::check("../tests/data/share/hostile.html", &stable);
}

#[test]
fn a_report_without_anything_is_a_page() {
    let page = page(&Report::build(&Sample::default(), &Options::default()), None, None);
    let texts = well_formed(&page);
    assert!(texts.contains("Unknown: no RoCE packet was observed"));
    assert!(!page.contains("id=\"flowtable\""));
}
