//! Characters that no output for people may have.

/// True for characters that control a terminal (C0 without the end of a line, DEL and C1), and those that mislead a
/// reader by turning the direction of text round.
pub fn is_hostile(c: char) -> bool {
    c.is_control() && c != '\n' || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}
