//! From tokens to expression, by recursive descent.

use super::error::FilterError;
use super::expr::{Expr, Figure, RowField, Test, Word};
use super::fields::{Core, Field, FieldRef, Vocabulary, bits_with};
use super::token::{Token, TokenKind, tokens};
use super::value::{Net, Op, Pattern, Unit, opcode_hint, opcodes, whole};
use crate::util::nearest::hint;

/// Nested expressions at most: bounds the depth of recursion.
const MAX_DEPTH: u32 = 64;

/// Use of an expression, which decides its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// At the source: packets and their flows, before there are figures.
    Source,
    /// On the screen: rows and their figures.
    View,
}

/// Remedy for what is nested too deep.
const SHALLOWER: &str = "remove parentheses";

fn too_deep() -> String {
    format!("more than {MAX_DEPTH} nested expressions")
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    depth: u32,
    scope: Scope,
    vocabulary: Vocabulary,
    /// The first mistake, at which reading ends.
    error: Option<FilterError>,
}

/// The expression up to the first mistake, and that mistake.
pub(super) fn parse(text: &str, scope: Scope, vocabulary: Vocabulary) -> (Option<Expr>, Option<FilterError>) {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(error) => return (None, Some(error)),
    };
    let mut parser = Parser { text, tokens, next: 0, depth: 0, scope, vocabulary, error: None };
    let expr = parser.either();
    if let Some(token) = parser.take() {
        parser.fail::<()>(&token, "`)` without `(`", "remove it".into());
    }
    // Its canonical text has parentheses around each `and` and `or`, and is read again.
    if parser.error.is_none() && expr.as_ref().is_some_and(|expr| expr.depth() > MAX_DEPTH) {
        parser.fail_at::<()>(0, text.len(), too_deep(), SHALLOWER.into());
        return (None, parser.error);
    }
    (expr, parser.error)
}

impl Parser<'_> {
    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    fn skip(&mut self, kind: &TokenKind) -> bool {
        let is_it = self.peek() == Some(kind);
        self.next += usize::from(is_it);
        is_it
    }

    /// Notes a mistake and ends reading.
    fn fail<T>(&mut self, token: &Token, cause: impl Into<String>, remedy: String) -> Option<T> {
        self.fail_at(token.at, token.end, cause.into(), remedy)
    }

    fn fail_at_end<T>(&mut self, cause: String, remedy: String) -> Option<T> {
        self.fail_at(self.text.len(), self.text.len(), cause, remedy)
    }

    fn fail_at<T>(&mut self, at: usize, end: usize, cause: String, remedy: String) -> Option<T> {
        self.next = self.tokens.len();
        self.error.get_or_insert_with(|| FilterError { text: self.text.into(), at, end, cause, remedy });
        None
    }

    fn found(&self, token: &Token) -> String {
        format!("'{}'", self.text.get(token.at..token.end).unwrap_or_default())
    }

    fn either(&mut self) -> Option<Expr> {
        let mut any: Vec<Expr> = self.both().into_iter().collect();
        while self.skip(&TokenKind::Or) {
            any.extend(self.both());
        }
        joined(any, Expr::Any)
    }

    fn both(&mut self) -> Option<Expr> {
        let mut all: Vec<Expr> = self.factor().into_iter().collect();
        while !matches!(self.peek(), None | Some(TokenKind::Or | TokenKind::Close)) {
            self.skip(&TokenKind::And);
            all.extend(self.factor());
        }
        joined(all, Expr::All)
    }

    fn factor(&mut self) -> Option<Expr> {
        let Some(token) = self.take() else {
            return self.fail_at_end("expected a condition".into(), format!("fields: {}", self.fields("")));
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(&token, too_deep(), SHALLOWER.into());
        }
        let expr = match &token.kind {
            TokenKind::Not => self.factor().map(|inner| Expr::Not(Box::new(inner))),
            TokenKind::Open => {
                let inner = self.either();
                if !self.skip(&TokenKind::Close) {
                    self.fail::<()>(&token, "unclosed `(`", "close it with `)`".into());
                }
                inner
            }
            TokenKind::Word(word) => self.test(&token, word),
            TokenKind::Quoted(text) if self.scope == Scope::View => Some(self.word(text, None)),
            _ => {
                let cause = format!("expected a condition, found {}", self.found(&token));
                let remedy = match token.kind {
                    TokenKind::Compare(_) => "name a field before it".into(),
                    _ => format!("fields: {}", self.fields("")),
                };
                self.fail(&token, cause, remedy)
            }
        };
        self.depth -= 1;
        expr
    }

    fn test(&mut self, token: &Token, word: &str) -> Option<Expr> {
        let name = word.to_lowercase();
        let known = self.vocabulary.find(&name);
        if let Some((field, value)) = name.split_once(':')
            && self.vocabulary.find(field).is_some()
        {
            return self.colon(token, field, value);
        }
        match (known, self.scope) {
            (Some(FieldRef::Core(core)), _) => self.core(core, &name),
            (Some(FieldRef::Row(at)), Scope::View) => {
                let field = self.vocabulary.get(at)?;
                let row = RowField { at, name: field.name };
                if field.unit.is_number() { self.figure(row, field) } else { self.named(row, field) }
            }
            (Some(FieldRef::Row(at)), Scope::Source) => {
                let figure = self.vocabulary.get(at).is_some_and(|field| field.unit.is_number());
                let what = if figure { "figure" } else { "field of rows" };
                let cause = format!("unexpected {what} `{name}`");
                let fields = self.vocabulary.names(true);
                let remedy =
                    format!("use it in --view-filter or at the / prompt; fields of --filter: {fields}");
                self.fail(token, cause, remedy)
            }
            (None, Scope::Source) => self.unknown(token, &name),
            (None, Scope::View) if matches!(self.peek(), Some(TokenKind::Compare(_))) => {
                self.unknown(token, &name)
            }
            (None, Scope::View) => match Net::parse(word).filter(|_| word.contains('/')) {
                Some(net) => Some(Expr::Test(Test::Address(Core::Host, net))),
                None => Some(self.word(word, None)),
            },
        }
    }

    /// `field:value`, as other languages write it.
    fn colon<T>(&mut self, token: &Token, field: &str, value: &str) -> Option<T> {
        let remedy = match self.peek() {
            Some(TokenKind::Compare(op)) if value.is_empty() => format!("write {field} {} VALUE", op.sign()),
            _ if value.is_empty() => format!("write {field} VALUE"),
            _ => format!("write {field} {value}"),
        };
        let view_only =
            self.scope == Scope::Source && !matches!(self.vocabulary.find(field), Some(FieldRef::Core(_)));
        let remedy = if view_only { format!("{remedy} in --view-filter or /") } else { remedy };
        self.fail(token, format!("no colon after `{field}`"), remedy)
    }

    /// The fields that can stand in place of `word`: packets have few, of the others those nearest to it.
    fn fields(&self, word: &str) -> String {
        match self.scope {
            Scope::Source => self.vocabulary.names(true),
            Scope::View => self.vocabulary.names_near(word),
        }
    }

    fn unknown<T>(&mut self, token: &Token, name: &str) -> Option<T> {
        let source = self.scope == Scope::Source;
        let remedy = match name.parse::<std::net::IpAddr>() {
            Ok(_) => format!("write host {name}"),
            Err(_) => format!("fields: {}", self.fields(name)),
        };
        let hint = hint(name, self.vocabulary.names(source).split(", "));
        self.fail(token, format!("unknown field '{name}'{hint}"), remedy)
    }

    fn word(&self, text: &str, figure: Option<usize>) -> Expr {
        let text = text.to_lowercase();
        let words = self.vocabulary.words_with(&text);
        Expr::Test(Test::Word(Word { text, words, figure }))
    }

    /// A comparison after a field.
    fn operator(&mut self) -> Option<Op> {
        let op = match self.peek() {
            Some(TokenKind::Compare(op)) => Some(*op),
            _ => None,
        };
        self.next += usize::from(op.is_some());
        op
    }

    /// The same where only equality makes sense: whether it is negated.
    fn equality(&mut self, name: &str) -> Option<(bool, bool)> {
        let op = self.operator();
        match op {
            None | Some(Op::Equal) => Some((op.is_some(), false)),
            Some(Op::NotEqual) => Some((true, true)),
            Some(op) => {
                let token = self.tokens.get(self.next - 1).cloned()?;
                let cause = format!("`{name}` has no order for `{}`", op.sign());
                self.fail(&token, cause, format!("write {name} VALUE or {name} != VALUE"))
            }
        }
    }

    /// A word or a quoted text.
    fn value(&mut self, after: &str, (kind, example): (&str, &str)) -> Option<(Token, String)> {
        let remedy = format!("for example {example}");
        let Some(token) = self.take() else {
            return self.fail_at_end(format!("expected {kind} after `{after}`"), remedy);
        };
        match &token.kind {
            TokenKind::Word(text) | TokenKind::Quoted(text) => {
                let text = text.clone();
                Some((token, text))
            }
            _ => {
                let cause = format!("expected {kind} after `{after}`, found {}", self.found(&token));
                self.fail(&token, cause, remedy)
            }
        }
    }

    fn core(&mut self, core: Core, name: &str) -> Option<Expr> {
        let wanted = core.wanted();
        if matches!(core, Core::Qp | Core::Port | Core::Vlan | Core::Dscp) {
            return self.number(core, name, wanted);
        }
        let (_, not) = self.equality(name)?;
        if matches!(core, Core::Source | Core::Destination)
            && matches!(self.peek(), Some(TokenKind::Word(word)) if word == "host" || word == "net")
        {
            self.next += 1;
        }
        let (token, text) = self.value(name, wanted)?;
        let found = match core {
            Core::Link => Some(Test::Link(Pattern::new(&text))),
            Core::Opcode => match opcodes(&text) {
                Some(set) => Some(Test::Opcode(text, set)),
                None => return self.no_value(&token, name, wanted, &opcode_hint(&text)),
            },
            // `net 10` is a network; a host of one number is none, and tcpdump's would be another one.
            _ if name == "host" && text.bytes().all(|byte| byte.is_ascii_digit()) => None,
            _ => Net::parse(&text).map(|net| Test::Address(core, net)),
        };
        let found = Expr::Test(found.or_else(|| self.no_value(&token, name, wanted, ""))?);
        Some(if not { Expr::Not(Box::new(found)) } else { found })
    }

    fn number(&mut self, core: Core, name: &str, wanted: (&str, &str)) -> Option<Expr> {
        let op = self.operator();
        // `vlan` alone: any tag.
        if core == Core::Vlan && op.is_none() && !matches!(self.peek(), Some(TokenKind::Word(_))) {
            return Some(Expr::Test(Test::Number(core, Op::More, 0)));
        }
        let (token, text) = self.value(name, wanted)?;
        let number = whole(&text).filter(|n| *n <= core.most());
        let number = number.or_else(|| self.no_value(&token, name, wanted, ""))?;
        Some(Expr::Test(Test::Number(core, op.unwrap_or(Op::Equal), number)))
    }

    fn no_value<T>(
        &mut self,
        token: &Token,
        name: &str,
        (kind, example): (&str, &str),
        hint: &str,
    ) -> Option<T> {
        let cause = format!("expected {kind} after `{name}`, found {}{hint}", self.found(token));
        self.fail(token, cause, format!("for example {example}"))
    }

    fn figure(&mut self, row: RowField, field: &Field) -> Option<Expr> {
        let op = self.operator();
        let value_follows = match self.peek() {
            // An address is a word of its own.
            Some(TokenKind::Word(word)) => {
                word.starts_with(|c: char| c.is_ascii_digit())
                    && !word.contains(['/', ':'])
                    && word.matches('.').count() < 2
            }
            _ => false,
        };
        if op.is_none() && !value_follows {
            return Some(self.word(row.name, Some(row.at)));
        }
        let wanted = field.unit.example();
        let (token, text) = self.value(row.name, wanted)?;
        let Some(value) = field.unit.number(&text) else {
            let percent = matches!(field.unit, Unit::Ratio) && Unit::Count.number(&text).is_some();
            if percent {
                let cause = format!("`{}` is a share from 0 to 1, found {}", row.name, self.found(&token));
                return self.fail(&token, cause, format!("write {text}%"));
            }
            return self.no_value(&token, row.name, wanted, "");
        };
        let op = op.unwrap_or(Op::Equal);
        Some(Expr::Test(Test::Figure(Figure { field: row, op, value, text })))
    }

    fn named(&mut self, row: RowField, field: &Field) -> Option<Expr> {
        let (given, not) = self.equality(row.name)?;
        if !given && !matches!(self.peek(), Some(TokenKind::Word(_) | TokenKind::Quoted(_))) {
            return Some(self.word(row.name, None));
        }
        let (token, text) = self.value(row.name, field.unit.example())?;
        let part = text.to_lowercase();
        let found = match field.unit {
            Unit::Words(words) => {
                let bits = bits_with(words(), &part);
                if bits == 0 {
                    let names = words().iter().filter(|word| !word.ends_with('+'));
                    let names: Vec<&str> = names.map(String::as_str).collect();
                    let cause = format!("unknown {} '{text}'", row.name);
                    return self.fail(&token, cause, format!("one of: {}", names.join(", ")));
                }
                Test::Words(row, part, bits)
            }
            _ => Test::Text(row, part),
        };
        let found = Expr::Test(found);
        Some(if not { Expr::Not(Box::new(found)) } else { found })
    }
}

fn joined(mut exprs: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Option<Expr> {
    if exprs.len() > 1 { Some(join(exprs)) } else { exprs.pop() }
}
