//! The program as built for ARM hosts, under QEMU's user emulation: it starts, reads the host, and gives the same
//! results for captures as the program of this machine.
//!
//! `ROCESCOPE_AARCH64_BIN` names it; `cargo xtask test --aarch64` builds it.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocescope_tests::oracle::binary;
use rocescope_tests::schema;
use serde_json::Value;

const EMULATOR: &str = "qemu-aarch64";
const PROGRAM: &str = "ROCESCOPE_AARCH64_BIN";

/// The program, or the reason why it cannot be tested.
fn program() -> Option<PathBuf> {
    let why = if Command::new(EMULATOR).arg("--version").output().is_err() {
        format!("{EMULATOR} is not installed (package qemu-user)")
    } else if let Some(path) = std::env::var_os(PROGRAM) {
        return Some(path.into());
    } else {
        format!("{PROGRAM} names no program for aarch64; `cargo xtask test --aarch64` builds one")
    };
    // Built without the required target, which xtask reports by itself: no failure here with CI=true.
    println!("SKIP the program on aarch64: {why}");
    None
}

fn emulated(program: &Path, arguments: &[&str]) -> Output {
    Command::new(EMULATOR).arg(program).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn it_prints_its_version() {
    let Some(program) = program() else { return };
    let native = Command::new(binary::path().unwrap()).arg("--version").output().unwrap();
    // TLS needs a C compiler for the target, so that feature may be missing.
    assert_eq!(text(&emulated(&program, &["--version"])), text(&native).replace(", tls", ""));
}

#[test]
fn doctor_reads_the_host() {
    let Some(program) = program() else { return };
    let output = emulated(&program, &["doctor", "--output", "json"]);
    // 3 if something critical is found, which depends on the host.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(page["schema"], "rocescope.doctor/1");
    assert!(page["host"]["kernel"]["release"].is_string(), "{page:#}");
    // Facts that emulation does not provide are unknown, with the reason.
    for reason in page["host"]["unread"].as_array().unwrap() {
        assert!(reason["what"].is_string() && reason["why"].is_string(), "{reason}");
    }
}

#[test]
fn captures_are_read_as_on_this_machine() {
    let Some(program) = program() else { return };
    let native = binary::path().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    for name in [
        "a1_write_mtu1024.h0.pcap",
        "f1b_ecn_red_mild.h1.pcap.gz",
        "e3_reorder.h0.pcap.gz",
        "c1_ipv6_write.h0.pcap",
    ] {
        let file = data.join(name);
        let arguments = ["replay", file.to_str().unwrap(), "--output", "json"];
        let here = schema::read(&text(&Command::new(&native).args(arguments).output().unwrap())).unwrap();
        let there = schema::read(&text(&emulated(&program, &arguments))).unwrap();
        assert!(here["totals"]["roce_packets"].as_u64().unwrap() > 0, "{name}");
        assert_eq!(there, here, "{name}");
    }
}
