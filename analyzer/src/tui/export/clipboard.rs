//! The terminal's clipboard: OSC 52, which works over ssh. Terminals that do not know it ignore it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes copied at a time, at most: far below the limits of terminals and multiplexers.
pub const MOST: usize = 8 * 1024;

/// The sequence that makes `text` the content of the clipboard.
pub fn sequence(text: &str) -> String {
    format!("\x1b]52;c;{}\x07", STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_in_base64() {
        assert_eq!(sequence("→"), "\x1b]52;c;4oaS\x07");
        assert_eq!(sequence("fo"), "\x1b]52;c;Zm8=\x07");
    }
}
