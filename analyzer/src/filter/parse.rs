//! From text to expression.

use std::net::IpAddr;

use rocescope_common::wire::opcode::{Name, transport};

use super::{Expr, Net};

/// What is wrong with a filter, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The filter.
    pub(super) text: String,
    /// First byte of what is wrong.
    pub(super) at: usize,
    /// The byte behind it.
    pub(super) end: usize,
    /// A sentence.
    pub(super) what: String,
}

/// Expressions within one another, at most: bounds the depth of recursion.
const MAX_DEPTH: u32 = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    at: usize,
    end: usize,
    text: String,
    quoted: bool,
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    depth: u32,
}

pub(super) fn parse(text: &str) -> Result<Expr, FilterError> {
    let mut parser = Parser { text, tokens: tokens(text)?, next: 0, depth: 0 };
    let expr = parser.either()?;
    match parser.take() {
        None => Ok(expr),
        Some(token) if token.text == ")" => Err(parser.error(&token, "this `)` closes nothing".into())),
        Some(token) => Err(parser.error(&token, format!("expected `and` or `or`, found `{}`", token.text))),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut word = String::new();
        let mut end = at + c.len_utf8();
        let quoted = c == '"' || c == '\'';
        if quoted {
            loop {
                let Some((to, other)) = chars.next() else {
                    let what = "this quote is not closed".into();
                    return Err(FilterError { text: text.into(), at, end: text.len(), what });
                };
                end = to + other.len_utf8();
                if other == c {
                    break;
                }
                word.push(other);
            }
        } else {
            word.push(c);
            while !matches!(c, '(' | ')')
                && let Some((to, other)) = chars.next_if(|(_, o)| !o.is_whitespace() && !"()".contains(*o))
            {
                end = to + other.len_utf8();
                word.push(other);
            }
        }
        tokens.push(Token { at, end, text: word, quoted });
    }
    Ok(tokens)
}

impl Parser<'_> {
    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    fn next_is(&self, words: &[&str]) -> bool {
        self.tokens.get(self.next).is_some_and(|t| !t.quoted && words.contains(&t.text.as_str()))
    }

    fn error(&self, token: &Token, what: String) -> FilterError {
        FilterError { text: self.text.into(), at: token.at, end: token.end, what }
    }

    fn at_end(&self, what: String) -> FilterError {
        FilterError { text: self.text.into(), at: self.text.len(), end: self.text.len(), what }
    }

    fn either(&mut self) -> Result<Expr, FilterError> {
        let mut any = vec![self.both()?];
        while self.next_is(&["or", "||"]) {
            self.next += 1;
            any.push(self.both()?);
        }
        Ok(one_or(any, Expr::Any))
    }

    fn both(&mut self) -> Result<Expr, FilterError> {
        let mut all = vec![self.factor()?];
        while self.next < self.tokens.len() && !self.next_is(&["or", "||", ")"]) {
            if self.next_is(&["and", "&&"]) {
                self.next += 1;
            } else if !self.next_is(&TESTS) && !self.next_is(&["not", "!", "("]) {
                break;
            }
            all.push(self.factor()?);
        }
        Ok(one_or(all, Expr::All))
    }

    fn factor(&mut self) -> Result<Expr, FilterError> {
        let Some(token) = self.take() else {
            return Err(self.at_end(format!("expected a test ({})", TESTS.join(", "))));
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(&token, format!("more than {MAX_DEPTH} expressions within one another")));
        }
        let expr = match token.text.as_str() {
            "not" | "!" => Expr::Not(Box::new(self.factor()?)),
            "(" => {
                let inner = self.either()?;
                if !self.next_is(&[")"]) {
                    return Err(self.error(&token, "this `(` is not closed".into()));
                }
                self.next += 1;
                inner
            }
            _ => self.test(&token)?,
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn test(&mut self, token: &Token) -> Result<Expr, FilterError> {
        let word = token.text.as_str();
        if token.quoted || !TESTS.contains(&word) {
            let what = format!("expected a test ({}), found `{word}`", TESTS.join(", "));
            return Err(self.error(token, what));
        }
        let wanted = match word {
            "host" | "src" | "dst" => "an address or a prefix",
            "qp" => "a queue pair number from 0 to 0xffffff",
            "port" => "a port number from 0 to 65535",
            "link" => "the name of a link",
            _ => "an opcode's name or number, such as RC_ACKNOWLEDGE or 0x11",
        };
        let Some(value) = self.take() else {
            return Err(self.at_end(format!("expected {wanted} after `{word}`")));
        };
        let text = value.text.as_str();
        let number = |max: u32| number(text).filter(|n| *n <= max);
        let parsed = match word {
            "host" => net(text).map(Expr::Host),
            "src" => net(text).map(Expr::Src),
            "dst" => net(text).map(Expr::Dst),
            "qp" => number(0xFF_FFFF).map(Expr::Qp),
            "port" => number(0xFFFF).and_then(|n| u16::try_from(n).ok()).map(Expr::Port),
            "link" => Some(Expr::Link(text.to_owned())).filter(|_| value.quoted || !"()".contains(text)),
            _ => opcodes(text).map(Expr::Opcode),
        };
        parsed.ok_or_else(|| self.error(&value, format!("expected {wanted} after `{word}`, found `{text}`")))
    }
}

fn one_or(mut list: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    if list.len() > 1 {
        return join(list);
    }
    list.pop().unwrap_or_else(|| join(Vec::new()))
}

const TESTS: [&str; 7] = ["host", "src", "dst", "qp", "port", "link", "opcode"];

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn net(text: &str) -> Option<Net> {
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let (family, bits, value) = match address.parse().ok()? {
        IpAddr::V4(v4) => (4, 32, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (6, 128, v6.to_bits()),
    };
    let len = len.unwrap_or(bits);
    if len > bits {
        return None;
    }
    let all = u128::MAX >> (128 - bits);
    let mask = all & all.checked_shl(bits - len).unwrap_or(0);
    Some(Net { family, prefix: value & mask, mask })
}

/// The opcodes of a number, of a full name, or of an operation in every transport.
fn opcodes(text: &str) -> Option<Box<[bool; 256]>> {
    let mut set = Box::new([false; 256]);
    if let Some(code) = number(text) {
        *set.get_mut(code as usize)? = true;
        return Some(set);
    }
    let wanted = text.to_ascii_uppercase();
    for code in 0..=255u8 {
        let name = Name(code).to_string().to_ascii_uppercase();
        let bare = name.strip_prefix(transport(code)).and_then(|rest| rest.strip_prefix('_'));
        if name == wanted || bare == Some(&wanted) {
            set[usize::from(code)] = true;
        }
    }
    set.contains(&true).then_some(set)
}
