//! Markup that data cannot inject into: everything except literals of this program is escaped.

use std::fmt::Write as _;

use crate::util::layout::plain;

/// A page under construction.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Appends markup of this program. Data does not have this lifetime.
    pub(crate) fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// Appends a text, escaped.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escape(text));
        self
    }

    /// Appends a start tag; attribute values are escaped, empty ones are left out.
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

    /// Appends an end tag.
    pub(crate) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        self
    }

    /// Appends an element with a text.
    pub(crate) fn leaf(&mut self, tag: &'static str, class: &str, text: &str) -> &mut Self {
        self.open(tag, &[("class", class)]).text(text).close(tag)
    }

    /// Appends lines in a preformatted block.
    pub(crate) fn lines(&mut self, lines: &[String]) -> &mut Self {
        self.raw("<pre>");
        for line in lines {
            self.text(line).raw("\n");
        }
        self.raw("</pre>")
    }

    /// Appends data for a script: JSON in which no character can end the element.
    pub(crate) fn data(&mut self, id: &'static str, json: &str) -> &mut Self {
        self.raw("\n").open("script", &[("type", "application/json"), ("id", id)]);
        self.0.push_str(&inert(json));
        self.close("script")
    }

    /// Appends finished markup.
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

/// Escapes text for a page or an attribute value: no markup and no control characters.
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

/// The same JSON without markup characters and without characters that change how the source is displayed: they occur
/// only in strings, where an escape is equivalent.
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
