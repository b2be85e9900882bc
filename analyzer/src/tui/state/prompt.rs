//! A line that is being typed at the bottom of the screen.

use crate::source::replay::time::{nearest, time_of_day};
use crate::tui::key::Key;
use crate::util::time::NS_PER_S;

/// Letters of a line, at most.
const LONGEST: usize = 240;

/// Purpose of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The filter; takes effect while it is typed.
    Filter,
    /// A time to go to.
    GoTo,
}

/// State of the line that is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Purpose of the line.
    pub purpose: Purpose,
    /// The text typed so far.
    pub text: String,
    /// Text before the line was opened.
    pub before: String,
}

/// Effect of a key on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptEffect {
    /// The text is another one.
    Changed,
    /// It is finished.
    Done,
    /// It is given up.
    Dropped,
    /// The key has no effect.
    Nothing,
}

impl Prompt {
    /// A line that starts with `text`.
    pub fn new(purpose: Purpose, text: &str) -> Self {
        Self { purpose, text: text.to_owned(), before: text.to_owned() }
    }

    /// Handles a key, and returns its effect.
    pub fn on_key(&mut self, key: Key) -> PromptEffect {
        match key {
            Key::Char(c) => {
                // A text pasted by mistake is no filter.
                if self.text.chars().count() >= LONGEST {
                    return PromptEffect::Nothing;
                }
                self.text.push(c);
            }
            Key::Backspace => {
                if self.text.pop().is_none() {
                    return PromptEffect::Nothing;
                }
            }
            Key::Ctrl('u') => self.text.clear(),
            Key::Ctrl('w') => {
                let kept = self.text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.text.truncate(kept);
            }
            Key::Enter => return PromptEffect::Done,
            Key::Esc => return PromptEffect::Dropped,
            _ => return PromptEffect::Nothing,
        }
        PromptEffect::Changed
    }
}

/// A time as people type it, from a snapshot `now_ns` and the start of the data: `12:00:05` and
/// `12:00:05.250` on the day of `now_ns`, `+30` seconds from the start, `-30` from now. `None` when it is none
/// of these.
pub fn parse_time(text: &str, now_ns: u64, start_ns: u64) -> Option<u64> {
    let text = text.trim();
    let seconds = |text: &str| -> Option<u64> {
        let number: f64 = text.trim_end_matches('s').parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        (number.is_finite() && (0.0..1e9).contains(&number))
            .then_some((number * NS_PER_S as f64).round() as u64)
    };
    if let Some(rest) = text.strip_prefix('+') {
        return start_ns.checked_add(seconds(rest)?);
    }
    if let Some(rest) = text.strip_prefix('-') {
        return Some(now_ns.saturating_sub(seconds(rest)?));
    }
    time_of_day(text).map(|time| nearest(time, now_ns))
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_as_people_type_them() {
        const DAY: u64 = 86_400_000_000_000;
        use crate::util::time::NS_PER_S as S;
        let noon = 20_000 * DAY + DAY / 2;
        let at = |text| parse_time(text, noon, noon - 100 * S);
        assert_eq!(at("12:00:05"), Some(noon + 5 * S));
        assert_eq!(at("11:59"), Some(noon - 60 * S));
        assert_eq!(at("12:00:00.25"), Some(noon + S / 4));
        assert_eq!(at("+30"), Some(noon - 70 * S));
        assert_eq!(at("-30s"), Some(noon - 30 * S));
        assert_eq!(parse_time("23:59:59", 20_000 * DAY + S, 0), Some(20_000 * DAY - S));
        assert_eq!(parse_time("00:00:01", 20_000 * DAY - S, 0), Some(20_000 * DAY + S));
        for text in ["", "12", "24:00:00", "12:60:00", "12:00:60", "a:b", "+x", "1:2:3:4", "+nan", "--5"] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
