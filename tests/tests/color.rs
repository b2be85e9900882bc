//! Colours of text: used in a terminal, and not when the output is read otherwise or the user disables them.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::process::{Command, Stdio};

use rocescope_tests::oracle::{binary, captures};
use rocescope_tests::pty;

/// The program in an environment in which only the terminal decides about colours.
fn rocescope(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary::path().unwrap());
    command.args(arguments).env("TERM", "xterm-256color").stderr(Stdio::inherit());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

fn in_terminal(command: &mut Command) -> String {
    let (_, written) = pty::output(command).unwrap();
    assert!(written.len() > 100, "{command:?}: {written:?}");
    // A terminal adds carriage returns.
    written.replace("\r\n", "\n")
}

fn piped(command: &mut Command) -> String {
    String::from_utf8(command.stdin(Stdio::null()).output().unwrap().stdout).unwrap()
}

/// `text` without its colours.
fn plain(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('m').unwrap().1)
}

#[test]
fn text_is_colored_in_terminals_alone() {
    let folder = tempfile::tempdir().unwrap();
    let capture = captures::folder().join("e1_loss1.h0.pcap.gz");
    let healthy = captures::folder().join("h1_rping.h0.pcap");
    let reports = [&capture, &healthy].map(|capture| {
        let report = binary::replay(std::slice::from_ref(capture), [] as [&str; 0]).unwrap();
        let path = folder.path().join(capture.file_name().unwrap()).with_extension("json");
        std::fs::write(&path, report.to_string()).unwrap();
        path.display().to_string()
    });
    let capture = capture.display().to_string();
    for arguments in [
        &["replay", "--output", "text", &capture][..],
        &["explain", "loss.before_tap"],
        &["diff", &reports[0], &reports[1]],
        &["doctor"],
    ] {
        let colored = in_terminal(&mut rocescope(arguments));
        assert!(colored.contains("\u{1b}[1m"), "{arguments:?}: {colored:?}");
        let never = [arguments, &["--color", "never"]].concat();
        let always = [arguments, &["--color", "always"]].concat();
        let uncolored = [
            in_terminal(rocescope(arguments).env("NO_COLOR", "1")),
            in_terminal(&mut rocescope(&never)),
            piped(&mut rocescope(arguments)),
        ];
        for text in &uncolored {
            assert!(!text.contains('\u{1b}') && text.len() > 100, "{arguments:?}: {text:?}");
        }
        assert!(piped(&mut rocescope(&always)).contains("\u{1b}[1m"), "{arguments:?}");
        // Colours change no other character. The host's state in doctor's output may change by itself.
        if arguments != ["doctor"] {
            assert_eq!(plain(&colored), uncolored[0], "{arguments:?}");
        }
    }
}
