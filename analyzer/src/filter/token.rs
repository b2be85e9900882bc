//! From text to tokens.

use super::error::FilterError;
use super::value::Op;

/// A token and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Offset of the first byte in the text.
    pub(super) at: usize,
    /// The byte after it.
    pub(super) end: usize,
    /// Kind of token, with its value.
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word(String),
    Quoted(String),
    Compare(Op),
    Open,
    Close,
    And,
    Or,
    Not,
}

impl TokenKind {
    fn of(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            _ => Self::Word(word.to_owned()),
        }
    }
}

/// Symbols, the longer ones first.
const SYMBOLS: [(&str, TokenKind); 11] = [
    ("&&", TokenKind::And),
    ("||", TokenKind::Or),
    ("<=", TokenKind::Compare(Op::LessOrEqual)),
    (">=", TokenKind::Compare(Op::MoreOrEqual)),
    ("!=", TokenKind::Compare(Op::NotEqual)),
    ("==", TokenKind::Compare(Op::Equal)),
    ("<", TokenKind::Compare(Op::Less)),
    (">", TokenKind::Compare(Op::More)),
    ("=", TokenKind::Compare(Op::Equal)),
    ("(", TokenKind::Open),
    (")", TokenKind::Close),
];

/// The tokens of `text`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
            continue;
        }
        let (len, kind) = if let Some((symbol, kind)) = symbol(rest) {
            (symbol.len(), kind)
        } else if rest.starts_with('!') {
            (1, TokenKind::Not)
        } else if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            let Some(len) = rest.get(1..).and_then(|inner| inner.find(quote)) else {
                let remedy = format!("close it with {quote}");
                return Err(FilterError {
                    text: text.into(),
                    at,
                    end: text.len(),
                    cause: "unclosed quote".into(),
                    remedy,
                });
            };
            (len + 2, TokenKind::Quoted(rest.get(1..=len).unwrap_or_default().to_owned()))
        } else {
            let word = word(rest);
            // `1 %` is one number.
            if word == "%"
                && let Some(Token { end, kind: TokenKind::Word(number), .. }) = tokens.last_mut()
                && number.ends_with(|c: char| c.is_ascii_digit())
            {
                number.push('%');
                at += 1;
                *end = at;
                continue;
            }
            (word.len(), TokenKind::of(word))
        };
        tokens.push(Token { at, end: at + len, kind });
        at += len;
    }
    Ok(tokens)
}

fn symbol(rest: &str) -> Option<(&'static str, TokenKind)> {
    SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol)).map(|(symbol, kind)| (*symbol, kind.clone()))
}

/// The word at the beginning of `rest`, of one character at least.
fn word(rest: &str) -> &str {
    let ends =
        |(at, c): &(usize, char)| c.is_whitespace() || symbol(rest.get(*at..).unwrap_or_default()).is_some();
    let end = rest.char_indices().skip(1).find(ends);
    end.and_then(|(at, _)| rest.get(..at)).unwrap_or(rest)
}
