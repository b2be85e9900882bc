//! Tests of parsing command lines, and of the errors for invalid ones.

use super::*;

fn replay(args: &[&str]) -> Result<ReplayArgs, clap::Error> {
    let all = ["rocescope", "replay"].iter().chain(args);
    match Args::read(all.map(OsString::from))?.verb {
        Verb::Replay(args) => Ok(args),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_demo_says_which_episodes_there_are_and_how_long_they_last() {
    use crate::source::demo::scenario::{BRIEF, Episode, WATCHED};
    let listed = DEMO_EPISODES.lines().filter(|line| line.starts_with("  ")).count();
    assert_eq!(listed, Episode::ALL.len());
    for cycle in [BRIEF, WATCHED] {
        assert!(DEMO_EPISODES.contains(&format!(" {} s", cycle.as_secs())), "{cycle:?}");
    }
}

#[test]
fn definitions_are_consistent() {
    help::command().debug_assert();
}

#[test]
fn the_version_has_commit_kernel_programs_and_features() {
    let text = help::command().render_long_version();
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(names, ["commit", "kernel programs", "features"], "{text}");
}

#[test]
fn replay_options() {
    let args = replay(&[
        "a.pcap",
        "--tap",
        "l=b,c",
        "--speed",
        "0.5x",
        "--from",
        "+1s",
        "--group",
        "a.pcap,l",
        "--filter",
        "qp 17",
        "--interval",
        "500ms",
        "--duration",
        "10",
        "--reorder-window",
        "100us",
    ])
    .unwrap();
    assert_eq!(args.tap[0], TapFiles { name: "l".into(), files: vec!["b".into(), "c".into()] });
    assert_eq!(args.speed, Some(SpeedArg(0.5)));
    assert_eq!(args.from, Some(TimeSpec::Offset(1_000_000_000)));
    assert_eq!(args.view.common.group, [["a.pcap", "l"]]);
    assert_eq!(args.view.common.duration, Some(Duration::from_secs(10)));
    assert_eq!(args.reorder_window, Some(Duration::from_micros(100)));
    assert_eq!(replay(&["-"]).unwrap().view.interval, Duration::from_secs(1));
    assert_eq!(replay(&["-"]).unwrap().bin, Duration::from_millis(1));
    assert_eq!(replay(&["-", "--bin", "100us"]).unwrap().bin, Duration::from_micros(100));
    assert_eq!(replay(&["-", "--link-speed", "400G"]).unwrap().link_speed, Some(400_000));
}

#[test]
fn a_range_that_ends_before_it_begins_is_an_error_of_replay() {
    let error = replay(&["x", "--from", "+2s", "--to", "+1s"]).unwrap_err().to_string();
    assert!(error.contains("--to is before --from") && error.contains("rocescope replay"), "{error}");
    assert!(!error.contains("<COMMAND>"), "{error}");
}

#[test]
fn an_interface_without_its_option_gets_the_command() {
    let error = Args::read(["rocescope", "live", "vb"].map(OsString::from)).unwrap_err();
    assert!(error.to_string().contains("use -i vb") && error.exit_code() == 2, "{error}");
    assert!(Args::read(["rocescope", "live", "-i", "vb"].map(OsString::from)).is_ok());
}

#[test]
#[cfg(feature = "live")]
fn the_help_names_the_defaults_that_depend_on_the_command() {
    use crate::source::{live::DEFAULT_MAX_FLOWS, replay::MAX_FLOWS};
    let mut command = help::command();
    let help = command.find_subcommand_mut("live").unwrap().render_long_help().to_string();
    let idle = crate::cli::live::IDLE.as_secs() / 60;
    for text in [
        format!("[default: live {DEFAULT_MAX_FLOWS}, replay {MAX_FLOWS}]"),
        format!("[default: live {idle}m, replay none]"),
    ] {
        assert!(help.contains(&text), "{text}: {help}");
    }
}

#[test]
fn a_capture_without_a_command_gets_the_command() {
    for file in ["e1.pcap", "dir/x.pcapng.gz"] {
        let error = Args::read(["rocescope", file].map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains(&format!("rocescope replay {file}")), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
    let error = Args::read(["rocescope", "replai"].map(OsString::from)).unwrap_err();
    assert!(error.to_string().contains("'replay'"), "{error}");
}

#[test]
fn nonsense_is_refused() {
    for args in [
        &[][..],
        &["x", "--speed", "fast"],
        &["x", "--speed", "0x"],
        &["x", "--speed", "inf"],
        &["x", "--speed", "-1x"],
        &["x", "--interval", "0"],
        &["x", "--group", "one"],
        &["x", "--tap", "l"],
        &["x", "--ecmp", "1"],
        &["x", "--rail", "eth0"],
        &["x", "--rail", "=r"],
        &["x", "--tap", "=f"],
        &["x", "--tap", "l=a,,b"],
        &["x", "--max-flows", "0"],
        &["x", "--from", "yesterday"],
        &["x", "--from", "10"],
        &["x", "--from", "+2s", "--to", "+1s"],
        &["x", "--from", "2026-01-01T00:00:00Z", "--to", "1767225599"],
        &["x", "--filter", "qp"],
        &["x", "--output", "xml"],
        &["x", "--screen", "9"],
        &["x", "--sort", "nothing"],
        &["x", "--view-filter", "p99 > soon"],
        &["x", "--bin", "10us"],
        &["x", "--link-speed", "400"],
        &["x", "--link-speed", "0G"],
        &["x", "--bin", "2s"],
    ] {
        assert!(replay(args).is_err(), "{args:?}");
    }
}
