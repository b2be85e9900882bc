//! Limits of the process and the host, from the error numbers that the kernel answers with when one is reached.

use std::error::Error;

/// Remedy that raises the limit of this error number; `None` if it is none of a limit.
pub(crate) fn remedy(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EMFILE => Some("raise the limit of open files (`ulimit -n 1024`)"),
        libc::ENFILE => Some("raise the host's limit of open files (sysctl fs.file-max)"),
        libc::ENOMEM => Some("use a smaller --max-flows, or raise the limit of memory (`ulimit -v`, cgroup)"),
        _ => None,
    }
}

/// The remedy if a limit is the cause of this error.
pub(crate) fn reached(error: &(dyn Error + 'static)) -> Option<&'static str> {
    // By the text: errors that include the text of their cause hide the cause itself.
    let errno = |error: &(dyn Error + 'static)| {
        let text = error.to_string();
        text.split_once("(os error ")?.1.split(')').next()?.parse::<i32>().ok()
    };
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(errno) = errno(error) {
            return remedy(errno);
        }
        next = error.source();
    }
    None
}

/// The error as a sentence for the user, with the remedy if a limit is the cause.
pub(crate) fn explained(error: &anyhow::Error) -> String {
    let text = chain(error.as_ref());
    reached(error.as_ref()).map_or_else(|| text.clone(), |remedy| format!("{text}; {remedy}"))
}

/// An error with its causes, in one line. Causes that the text of an error includes are not repeated.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = words(&error.to_string());
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = words(&cause.to_string());
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Without the error numbers that Rust appends to the texts of the kernel's errors.
pub(crate) fn words(text: &str) -> String {
    let mut rest = text;
    let mut words = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once(" (os error ") {
        words.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    words + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_carry_no_error_numbers() {
        assert_eq!(words("No such device (os error 19)"), "No such device");
        assert_eq!(words("a (os error 95): b"), "a: b");
        assert_eq!(words("plain"), "plain");
    }

    #[test]
    fn a_limit_is_named_with_its_remedy_whatever_wraps_it() {
        let io = |errno| std::io::Error::from_raw_os_error(errno);
        assert!(reached(&io(libc::EMFILE)).unwrap().contains("ulimit -n"));
        assert!(reached(&io(libc::ENOMEM)).unwrap().contains("ulimit -v"));
        assert_eq!(reached(&io(libc::EACCES)), None);
        let bare = explained(&io(libc::EMFILE).into());
        assert_eq!(bare, "Too many open files; raise the limit of open files (`ulimit -n 1024`)");
        let wrapped = explained(&anyhow::Error::from(io(libc::EMFILE)).context("cannot open a"));
        assert_eq!(wrapped, format!("cannot open a: {bare}"));
        assert_eq!(explained(&anyhow::anyhow!("cannot open a; {bare}")), format!("cannot open a; {bare}"));
        assert_eq!(explained(&anyhow::anyhow!("no such file: a")), "no such file: a");
        let twice =
            anyhow::Error::from(io(libc::EMFILE)).context("no rule: Too many open files (os error 24)");
        assert_eq!(explained(&twice), format!("no rule: {bare}"));
    }
}
