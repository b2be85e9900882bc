//! The report as JSON. Floats have as many digits as it takes to read the same number back.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::Serialize;

use crate::analysis::{Facts, Flow, Source, Totals, Window};
use crate::report::{Evaluation, Options, Report, SCHEMA};
use crate::sample::Sample;
use crate::util::background;
use writer::JsonWriter;

mod beginnings;
mod writer;

/// Writes the report over several lines, indented by two spaces, with a line end (`--output json`).
///
/// # Errors
/// The error of writing to `out`.
pub fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    write_as(report, Some(0), out)
}

/// Flows from which on two threads write a report: for fewer, starting one takes as long.
const MANY: usize = 1024;
/// Flows that a thread writes at once, some 3 kB each: they stay in a processor's cache.
const AT_ONCE: usize = 128;
/// Parts that may wait.
const DEPTH: usize = 4;

/// As [`write()`] does the report of a sample that nobody needs afterwards. With very many flows, where there are
/// processors for it, their text is made while another thread comes to the findings, which stand behind them.
///
/// # Errors
/// The error of writing to `out`.
pub fn write_last(mut sample: Sample, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let facts = Facts::of_last(&mut sample, &options.analysis);
    if facts.flows.len() < MANY || !background::is_there() {
        return write(&Report::with(&sample, facts, options), out);
    }
    write_while(facts, |facts| Report::judge(&sample, facts, options), out)?;
    background::discard(sample);
    Ok(())
}

/// Writes the report of these facts, and judges them meanwhile.
fn write_while(
    mut facts: Facts,
    judge: impl Fn(&Facts) -> Evaluation + Copy + Send,
    out: &mut impl Write,
) -> io::Result<()> {
    /// The beginning of a report.
    #[derive(Serialize)]
    struct Head<'a> {
        schema: &'static str,
        source: &'a Source,
        window: &'a Window,
        totals: &'a Totals,
    }
    /// A line end stands in no string of JSON, and there is one field of this name at this depth.
    const NONE: &[u8] = b"\n  \"flows\": []";
    let mut head = Vec::new();
    let Facts { source, window, totals, .. } = &facts;
    Head { schema: SCHEMA, source, window, totals }.serialize(&mut JsonWriter::new(Some(0), &mut head))?;
    Escaping::new(&mut *out).write_all(head.strip_suffix(b"\n}").unwrap_or(&head))?;
    out.write_all(b",")?;
    out.write_all(&NONE[..NONE.len() - 1])?;
    let parts = Parts { flows: &facts.flows, next: AtomicUsize::new(0), used: Mutex::default() };
    let Evaluation { verdict, findings, not_evaluated } = thread::scope(|scope| {
        let (sender, made) = sync_channel(DEPTH);
        let (help, parts, facts) = (sender.clone(), &parts, &facts);
        let judging = thread::Builder::new().name("findings".into()).spawn_scoped(scope, move || {
            let judged = judge(facts);
            parts.make_for(&help);
            judged
        });
        if background::processors() > 2 {
            // Without the thread the others make what it would.
            let _ = thread::Builder::new().name("report".into()).spawn_scoped(scope, {
                let help = sender.clone();
                move || parts.make_for(&help)
            });
        }
        drop(sender);
        parts.write(&made, out)?;
        // Without the thread this one judges.
        io::Result::Ok(match judging {
            Ok(judging) => judging.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => judge(facts),
        })
    })?;
    background::discard(std::mem::take(&mut facts.flows));
    let mut rest = Vec::new();
    write(&Report { schema: SCHEMA, facts, verdict, findings, not_evaluated }, &mut rest)?;
    let at = rest.windows(NONE.len()).position(|bytes| bytes == NONE);
    let after = at.and_then(|at| rest.get(at + NONE.len() - 1..));
    out.write_all(b"\n  ")?;
    out.write_all(after.ok_or_else(|| io::Error::other("bug: a report without a list of flows"))?)
}

/// A part of the flows' text, with its number.
type Part = (usize, io::Result<Vec<u8>>);

/// The text of the flows between the brackets of their list, in parts: threads make them as they come to it, and one
/// of them writes them in order.
struct Parts<'f> {
    flows: &'f [Flow],
    /// Number of the first part that no thread makes.
    next: AtomicUsize,
    /// Buffers to use again.
    used: Mutex<Vec<Vec<u8>>>,
}

impl Parts<'_> {
    /// Makes the next part; `None` where there is none left.
    fn make(&self) -> Option<Part> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let flows = self.flows.chunks(AT_ONCE).nth(number)?;
        let used = self.used.lock().ok().and_then(|mut used| used.pop());
        Some((number, text_of(flows, number == 0, used.unwrap_or_default())))
    }

    /// Makes parts for the thread that writes them. Without a receiver writing has failed.
    fn make_for(&self, writer: &SyncSender<Part>) {
        while self.make().is_some_and(|part| writer.send(part).is_ok()) {}
    }

    /// Writes all parts, and makes those that no other thread does.
    fn write(&self, others: &Receiver<Part>, out: &mut impl Write) -> io::Result<()> {
        let mut made: BTreeMap<usize, io::Result<Vec<u8>>> = BTreeMap::new();
        for number in 0..self.flows.len().div_ceil(AT_ONCE) {
            let text = loop {
                made.extend(others.try_iter());
                if let Some(text) = made.remove(&number) {
                    break text?;
                }
                // Not far ahead of the one that another thread is making.
                let own = if made.len() < DEPTH { self.make() } else { None };
                made.extend([own
                    .or_else(|| others.recv().ok())
                    .ok_or_else(|| io::Error::other("bug: a part of the report is missing"))?]);
            };
            Escaping::new(&mut *out).write_all(&text)?;
            if let Ok(mut used) = self.used.lock() {
                used.push(text);
            }
        }
        Ok(())
    }
}

/// Flows as elements of a list in an object, in a buffer that is reused.
fn text_of(flows: &[Flow], mut first: bool, mut text: Vec<u8>) -> io::Result<Vec<u8>> {
    text.clear();
    let mut list = JsonWriter::new(Some(2), &mut text);
    for flow in flows {
        list.element(std::mem::take(&mut first))?;
        flow.serialize(&mut list)?;
    }
    Ok(text)
}

/// Writes the report on one line with a line end (`--output jsonl`).
///
/// # Errors
/// The error of writing to `out`.
pub fn write_line(report: &Report, out: &mut impl Write) -> io::Result<()> {
    write_as(report, None, out)
}

fn write_as(report: &Report, depth: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let (mut text, mut out) = (Vec::new(), Escaping::new(out));
    report.serialize(&mut JsonWriter::through(depth, &mut text, &mut out))?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()
}

/// Escapes DEL and the control characters above it (U+0080 to U+009F), which JSON may have as they are and some
/// terminals obey. In a JSON text they stand in strings only.
struct Escaping<'a, W> {
    out: &'a mut W,
    /// The first byte of such a character was at the end of what was written before.
    begun: bool,
}

impl<'a, W: Write> Escaping<'a, W> {
    fn new(out: &'a mut W) -> Self {
        Self { out, begun: false }
    }
}

/// The first byte of U+0080 to U+009F, and of U+00A0 to U+00BF.
const FIRST: u8 = 0xC2;

/// The place of DEL or [`FIRST`]. Nearly no part of a report has one: they are looked for in many bytes at once.
fn suspicious(bytes: &[u8]) -> Option<usize> {
    const AT_ONCE: usize = 64;
    let is = |byte: &u8| matches!(*byte, 0x7F | FIRST);
    let any = |part: &[u8; AT_ONCE]| part.iter().fold(0, |any, byte| any | u8::from(is(byte))) != 0;
    let (parts, _) = bytes.as_chunks::<AT_ONCE>();
    let clean = parts.iter().take_while(|part| !any(part)).count() * AT_ONCE;
    let at = bytes.get(clean..)?.iter().position(is)?;
    Some(clean + at)
}

impl<W: Write> Write for Escaping<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        if std::mem::take(&mut self.begun)
            && let Some((second, after)) = rest.split_first()
        {
            if (0x80..0xA0).contains(second) {
                write!(self.out, "\\u00{second:02x}")?;
                rest = after;
            } else {
                self.out.write_all(&[FIRST])?;
            }
        }
        while let Some(at) = suspicious(rest) {
            let (plain, found) = rest.split_at(at);
            self.out.write_all(plain)?;
            rest = match found {
                [0x7F, after @ ..] => {
                    self.out.write_all(b"\\u007f")?;
                    after
                }
                [_, second @ 0x80..0xA0, after @ ..] => {
                    write!(self.out, "\\u00{second:02x}")?;
                    after
                }
                [first, after @ ..] if !after.is_empty() => {
                    self.out.write_all(&[*first])?;
                    after
                }
                _ => {
                    self.begun = true;
                    &[]
                }
            };
        }
        self.out.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::everything;
    use crate::report;

    /// The findings that a report has.
    fn judged(report: &Report) -> impl Fn(&Facts) -> Evaluation + Copy + Send {
        |facts| {
            assert_eq!(facts.flows.len(), report.facts.flows.len());
            let Report { verdict, findings, not_evaluated, .. } = report.clone();
            Evaluation { verdict, findings, not_evaluated }
        }
    }

    #[test]
    fn two_threads_write_what_one_does() {
        let mut report = Report::build(&everything(), &report::Options::default());
        let few = report.facts.flows.clone();
        for flows in [1, MANY, MANY + AT_ONCE - 1, 3 * MANY + 1] {
            report.facts.flows = few.iter().cycle().take(flows).cloned().collect();
            let (mut one, mut two) = (Vec::new(), Vec::new());
            write(&report, &mut one).unwrap();
            write_while(report.facts.clone(), judged(&report), &mut two).unwrap();
            assert!(one == two, "{flows} flows");
        }
    }

    #[test]
    fn a_failure_to_write_ends_both_threads() {
        let mut report = Report::build(&everything(), &report::Options::default());
        report.facts.flows = report.facts.flows.iter().cycle().take(3 * MANY).cloned().collect();
        for room in [0, 100_000, 1_000_000] {
            let mut space = vec![0; room];
            let error =
                write_while(report.facts.clone(), judged(&report), &mut space.as_mut_slice()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WriteZero, "{room}");
        }
    }

    #[test]
    fn control_characters_of_any_kind_are_escaped_and_nothing_else() {
        const TEXT: &str = "\"a\u{9b}2J \u{7f}\u{80}\u{9f}\u{a0}\u{e9}\u{c2}é \u{65e5}\u{1f600}\"";
        let wanted: String = serde_json::from_str(TEXT).unwrap();
        for part in 1..TEXT.len() {
            let mut out = Vec::new();
            let mut escaping = Escaping::new(&mut out);
            for bytes in TEXT.as_bytes().chunks(part) {
                escaping.write_all(bytes).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            assert!(!text.contains(char::is_control), "{text:?}");
            assert_eq!(serde_json::from_str::<String>(&text).unwrap(), wanted, "in parts of {part}");
        }
    }
}
