//! Markup that data cannot get into: what is not a literal of this program is escaped.

use std::fmt::Write as _;

use crate::util::layout::plain;

/// A page while it is written.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Markup of this program. Data has no such lifetime.
    pub(crate) fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// A text, escaped.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escape(text));
        self
    }

    /// The begin of an element; values of attributes are escaped, empty ones are left out.
    pub(crate) fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) -> &mut Self {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes.iter().filter(|(_, value)| !value.is_empty()) {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.0.push_str(&escape(value));
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    /// The end of an element.
    pub(crate) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        self
    }

    /// An element with a text.
    pub(crate) fn leaf(&mut self, tag: &'static str, class: &str, text: &str) -> &mut Self {
        self.open(tag, &[("class", class)]).text(text).close(tag)
    }

    /// Lines in a block that keeps their layout.
    pub(crate) fn lines(&mut self, lines: &[String]) -> &mut Self {
        self.raw("<pre>");
        for line in lines {
            self.text(line).raw("\n");
        }
        self.raw("</pre>")
    }

    /// Data for a script: JSON, of which no character can end its element.
    pub(crate) fn data(&mut self, id: &'static str, json: &str) -> &mut Self {
        self.raw("\n").open("script", &[("type", "application/json"), ("id", id)]);
        self.0.push_str(&inert(json));
        self.close("script")
    }

    /// Markup that is finished.
    pub(crate) fn append(&mut self, part: &Self) -> &mut Self {
        self.0.push_str(&part.0);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// A text as text of a page or a value of an attribute: without markup and without control characters.
pub(crate) fn escape(text: &str) -> String {
    let plain = plain(text);
    let mut escaped = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The same JSON without characters of markup and without any that change how the source is shown: they stand in
/// strings only, where an escape means the same.
fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        let shows = c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric();
        if matches!(c, '<' | '>' | '&') || !(shows || c == '\n') {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        let hostile = "</script><img src=x onerror='alert(1)'>&\"\u{1b}[2J\u{202e}\n";
        let mut page = Markup::default();
        page.open("p", &[("title", hostile), ("class", "")]).text(hostile).close("p");
        let text = "&lt;/script&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&quot;\u{fffd}[2J\u{fffd}\u{fffd}";
        assert_eq!(page.finish(), format!("<p title=\"{text}\">{text}</p>"));
    }

    #[test]
    fn data_reads_back_and_cannot_end_its_element() {
        let value = serde_json::json!({"name": "</script><!--&\u{202e}\u{2028}\u{1f600}é\u{7}\n"});
        let mut page = Markup::default();
        page.data("report", &value.to_string());
        let page = page.finish();
        let inner = page.split_once('>').unwrap().1.strip_suffix("</script>").unwrap();
        assert!(!inner.contains(['<', '>', '&', '\u{202e}', '\u{2028}']), "{inner}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(inner).unwrap(), value);
    }
}
