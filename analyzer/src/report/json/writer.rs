//! JSON as serde_json writes it, into memory, with little done for each field: a flow has more than a hundred.
//!
//! Names of fields need no escape, which serde_json looks for in each of their characters, and the text of a
//! [constant](crate::util::constant) is kept.

use std::fmt::{self, Write as _};
use std::io::Write;
use std::mem;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Error, Result, to_string, to_writer};

use super::beginnings::{Beginnings, Field};
use crate::util::constant::is_constant;

/// Bytes after which text leaves memory, where it has [somewhere to go](JsonWriter::through).
const BUFFER: usize = 1 << 16;

/// Writes values as JSON.
pub(super) struct JsonWriter<'t> {
    text: &'t mut Vec<u8>,
    /// Where long text goes; `None`: the whole text stays.
    out: Option<&'t mut dyn Write>,
    depth: Option<usize>,
    /// Text of the latest value that is written as text; reused.
    shown: String,
    /// Constants by name and depth, with their text.
    constants: Vec<(&'static str, Option<usize>, Vec<u8>)>,
    /// The text of a constant is being made.
    in_constant: bool,
    beginnings: Beginnings,
}

impl<'t> JsonWriter<'t> {
    /// Within `depth` lists and objects, over several lines that are indented by two spaces; `None`: on one line.
    pub(super) fn new(depth: Option<usize>, text: &'t mut Vec<u8>) -> Self {
        Self {
            text,
            out: None,
            depth,
            shown: String::new(),
            constants: Vec::new(),
            in_constant: false,
            beginnings: Beginnings::default(),
        }
    }

    /// The same of a text that goes to `out` many times; its end is left in `text`.
    pub(super) fn through(depth: Option<usize>, text: &'t mut Vec<u8>, out: &'t mut dyn Write) -> Self {
        Self { out: Some(out), ..Self::new(depth, text) }
    }

    /// Begins an element of a list or object.
    pub(super) fn element(&mut self, first: bool) -> Result<()> {
        self.make_room()?;
        self.line(!first);
        Ok(())
    }

    #[inline]
    fn make_room(&mut self) -> Result<()> {
        if self.text.len() >= BUFFER && self.out.is_some() { self.pass_on() } else { Ok(()) }
    }

    #[cold]
    fn pass_on(&mut self) -> Result<()> {
        if let Some(out) = self.out.as_mut().filter(|_| !self.in_constant) {
            out.write_all(self.text).map_err(Error::io)?;
            self.text.clear();
        }
        Ok(())
    }

    /// A comma, if it is wanted, and a line end with its indentation.
    #[inline]
    fn line(&mut self, comma: bool) {
        // Copying as many bytes each time takes no call.
        const LINES: [&[u8; 32]; 2] =
            [b"\n                               ", b",\n                              "];
        let Some(depth) = self.depth else {
            return self.text.extend_from_slice(if comma { b"," } else { b"" });
        };
        let line = LINES[usize::from(comma)];
        let end = self.text.len() + usize::from(comma) + 1 + 2 * depth;
        self.text.extend_from_slice(line);
        // Longer, where there are many levels.
        self.text.resize(end, b' ');
    }

    /// Begins a field.
    #[inline(never)]
    fn field(&mut self, first: bool, name: &'static str) -> Result<()> {
        self.make_room()?;
        let field = Field::new(name, self.depth, first);
        if self.beginnings.add_to(self.text, field) {
            return Ok(());
        }
        let from = self.text.len();
        self.line(!first);
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(if self.depth.is_some() { b"\": " } else { b"\":" });
        self.beginnings.keep(field, self.text.get(from..).unwrap_or_default());
        Ok(())
    }

    fn begin(&mut self, bracket: u8) {
        self.depth = self.depth.map(|depth| depth + 1);
        self.text.push(bracket);
    }

    fn end(&mut self, empty: bool, bracket: u8) {
        self.depth = self.depth.map(|depth| depth.saturating_sub(1));
        if !empty {
            self.line(false);
        }
        self.text.push(bracket);
    }

    /// Begins an object whose only value is that of a variant.
    fn variant(&mut self, name: &'static str) -> Result<()> {
        self.begin(b'{');
        self.field(true, name)
    }

    fn list(&mut self, in_variant: bool) -> Open<'_, 't> {
        self.begin(b'[');
        Open { writer: self, empty: true, bracket: b']', in_variant }
    }

    fn object(&mut self, in_variant: bool) -> Open<'_, 't> {
        self.begin(b'{');
        Open { writer: self, empty: true, bracket: b'}', in_variant }
    }

    /// A whole number: of most counters, a digit.
    #[inline]
    fn number(&mut self, number: u64) -> Result<()> {
        match u8::try_from(number) {
            Ok(digit @ 0..10) => {
                self.text.push(b'0' + digit);
                Ok(())
            }
            _ => to_writer(&mut *self.text, &number),
        }
    }

    fn constant<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<()> {
        let mut constants = self.constants.iter();
        if let Some((.., text)) =
            constants.find(|(of, depth, _)| std::ptr::eq(*of, name) && *depth == self.depth)
        {
            self.text.extend_from_slice(text);
            return Ok(());
        }
        let from = self.text.len();
        let before = mem::replace(&mut self.in_constant, true);
        value.serialize(&mut *self)?;
        self.in_constant = before;
        let text = self.text.get(from..).unwrap_or_default().to_vec();
        self.constants.push((name, self.depth, text));
        Ok(())
    }
}

/// Nearly no text has a character that needs an escape.
#[inline(never)]
fn write_string(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let needs_escape = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    // Without a branch, so that the compiler looks at many at once.
    if text.bytes().fold(false, |any, byte| any | needs_escape(byte)) {
        return to_writer(out, text);
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
    Ok(())
}

/// A list or an object that has begun.
pub(super) struct Open<'w, 't> {
    writer: &'w mut JsonWriter<'t>,
    empty: bool,
    /// What ends it.
    bracket: u8,
    /// Another object ends with it.
    in_variant: bool,
}

impl Open<'_, '_> {
    fn element(&mut self) -> Result<()> {
        let first = mem::take(&mut self.empty);
        self.writer.element(first)
    }

    fn field(&mut self, name: &'static str) -> Result<()> {
        let first = mem::take(&mut self.empty);
        self.writer.field(first, name)
    }

    fn close(self) {
        self.writer.end(self.empty, self.bracket);
        if self.in_variant {
            self.writer.end(false, b'}');
        }
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method(self, value: $type) -> Result<()> {
            to_writer(&mut *self.text, &value)
        }
    )*};
}

macro_rules! numbers {
    ($($method:ident: $type:ty,)*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Result<()> {
            self.number(value.into())
        }
    )*};
}

impl<'w, 't> Serializer for &'w mut JsonWriter<'t> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Open<'w, 't>;
    type SerializeTuple = Open<'w, 't>;
    type SerializeTupleStruct = Open<'w, 't>;
    type SerializeTupleVariant = Open<'w, 't>;
    type SerializeMap = Open<'w, 't>;
    type SerializeStruct = Open<'w, 't>;
    type SerializeStructVariant = Open<'w, 't>;

    scalars! {
        serialize_bool: bool,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64, serialize_char: char,
    }

    numbers! {
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        write_string(self.text, value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    /// In one piece, whatever the pieces of its text.
    fn collect_str<T: ?Sized + fmt::Display>(self, value: &T) -> Result<()> {
        self.shown.clear();
        write!(self.shown, "{value}").map_err(Error::custom)?;
        write_string(self.text, &self.shown)
    }

    fn serialize_none(self) -> Result<()> {
        self.text.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.serialize_none()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(self, name: &'static str, value: &T) -> Result<()> {
        if is_constant(name) { self.constant(name, value) } else { value.serialize(self) }
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.end(false, b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'w, 't>> {
        Ok(self.list(false))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'w, 't>> {
        Ok(self.list(false))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'w, 't>> {
        Ok(self.list(false))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, 't>> {
        self.variant(variant)?;
        Ok(self.list(true))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'w, 't>> {
        Ok(self.object(false))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'w, 't>> {
        Ok(self.object(false))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, 't>> {
        self.variant(variant)?;
        Ok(self.object(true))
    }
}

macro_rules! lists {
    ($($of:ident: $method:ident,)*) => {$(
        impl $of for Open<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
                self.element()?;
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<()> {
                self.close();
                Ok(())
            }
        }
    )*};
}

lists! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

macro_rules! objects {
    ($($of:ident,)*) => {$(
        impl $of for Open<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<()> {
                self.field(name)?;
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<()> {
                self.close();
                Ok(())
            }
        }
    )*};
}

objects! {
    SerializeStruct,
    SerializeStructVariant,
}

impl SerializeMap for Open<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<()> {
        self.element()?;
        let key = to_string(key)?;
        // A key that is a number becomes text.
        let quote: &[u8] = if key.starts_with('"') { b"" } else { b"\"" };
        let colon: &[u8] = if self.writer.depth.is_some() { b": " } else { b":" };
        for part in [quote, key.as_bytes(), quote, colon] {
            self.writer.text.extend_from_slice(part);
        }
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;
    use serde_json::{Value, json, to_string_pretty};

    use super::*;
    use crate::util::constant::Constant;

    fn assert_same(value: &impl Serialize) {
        for (depth, wanted) in [(Some(0), to_string_pretty(value)), (None, to_string(value))] {
            let mut out = Vec::new();
            value.serialize(&mut JsonWriter::new(depth, &mut out)).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), wanted.unwrap());
        }
    }

    #[test]
    fn the_layout_is_that_of_serde_json() {
        let deep =
            (0..40).fold(json!({ "end": [] }), |inner, n| json!({ "n": n, "inner": [inner, {}, null] }));
        for value in [json!([]), json!({}), json!([1, [], [2.5, "a\"\n"], { "b": { "c\\": [{}] } }]), deep] {
            assert_same(&value);
            assert_same(&(Constant(&value), [Constant(&value), Constant(&value)], [[Constant(&[1])]]));
        }
        for text in ["", "a", "\"", "\\", "\n", "\u{1f}", "\u{7f} ", "é\"ö"] {
            assert_same(&[text.to_owned(), text.repeat(20), format!("{text:x<40}")]);
        }
        assert_same(&[0, 9, 10, 255, 256, u64::MAX]);
    }

    #[test]
    fn fields_begin_each_time_as_the_first_time() {
        #[derive(Serialize)]
        struct Nested {
            first: u8,
            #[serde(
                rename = "a field with a name that is longer than what is kept of the beginning of a field"
            )]
            long: u8,
            inner: Option<Box<Self>>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            list: Vec<Self>,
        }
        let leaf = |inner, list| Nested { first: 1, long: 2, inner, list };
        let one = |()| {
            leaf(Some(Box::new(leaf(None, vec![leaf(None, Vec::new()), leaf(None, Vec::new())]))), Vec::new())
        };
        assert_same(&[one(()), one(()), leaf(None, vec![one(())]), one(())]);
    }

    #[test]
    fn long_text_goes_on_and_that_of_a_constant_is_whole() {
        let long = vec![12_345; BUFFER / 4];
        let value: Vec<_> = (0..5).map(|number| (number, Constant(&long), vec![number; 7])).collect();
        for (depth, wanted) in [(Some(0), to_string_pretty(&value)), (None, to_string(&value))] {
            let (mut text, mut out) = (Vec::new(), Vec::new());
            value.serialize(&mut JsonWriter::through(depth, &mut text, &mut out)).unwrap();
            assert!(text.len() < 3 * BUFFER && !out.is_empty(), "{}", text.len());
            out.append(&mut text);
            assert_eq!(String::from_utf8(out).unwrap(), wanted.unwrap());
        }
    }

    #[test]
    fn values_of_every_kind_are_written_as_serde_json_writes_them() {
        #[derive(Serialize)]
        enum Variant {
            Unit,
            New(u8),
            Tuple(i8, char),
            Struct { a: Option<f64>, b: Option<Value> },
        }
        #[derive(Serialize)]
        struct New(Vec<Variant>);
        #[derive(Serialize)]
        struct Pair(u64, i128);
        #[derive(Serialize)]
        struct All<'a> {
            r#type: (bool, f32, &'a str, ()),
            variants: New,
            pair: Pair,
            numbers: BTreeMap<u16, Pair>,
            #[serde(serialize_with = "fmt_arguments")]
            text: (),
            #[serde(flatten)]
            further: BTreeMap<&'static str, [f64; 2]>,
        }
        #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
        fn fmt_arguments<S: Serializer>(_: &(), serializer: S) -> std::result::Result<S::Ok, S::Error> {
            serializer.collect_str(&format_args!("{}\"{}\u{1f}", 1, 'é'))
        }
        let variants = vec![
            Variant::Unit,
            Variant::New(1),
            Variant::Tuple(-1, '"'),
            Variant::Struct { a: Some(f64::NAN), b: None },
        ];
        assert_same(&All {
            r#type: (true, 0.1, "\u{7f}\t", ()),
            variants: New(variants),
            pair: Pair(u64::MAX, i128::MIN),
            numbers: [(7, Pair(0, 0)), (9, Pair(1, 1))].into(),
            text: (),
            further: [("x", [1e300, -0.0])].into(),
        });
    }
}
