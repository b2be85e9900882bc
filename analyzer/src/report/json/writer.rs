//! JSON as serde_json writes it, but for names of fields: these need no escape, which serde_json looks for in each of
//! their characters, and a flow has more than a hundred.

use std::fmt::{self, Write as _};
use std::io::Write;
use std::mem;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Error, Result, to_string, to_writer};

/// Writes values as JSON.
pub(super) struct JsonWriter<W> {
    out: W,
    depth: Option<usize>,
    /// Text of the latest value that is written as text; reused.
    text: String,
}

impl<W: Write> JsonWriter<W> {
    /// Within `depth` lists and objects, over several lines that are indented by two spaces; `None`: on one line.
    pub(super) const fn new(depth: Option<usize>, out: W) -> Self {
        Self { out, depth, text: String::new() }
    }

    /// Begins an element of a list or object.
    pub(super) fn element(&mut self, first: bool) -> Result<()> {
        if !first {
            self.raw(b",")?;
        }
        self.line()
    }

    /// A line end and its indentation in one piece, for as many levels as a report has.
    fn line(&mut self) -> Result<()> {
        const LINE: &[u8] = b"\n                                                                ";
        const MOST: usize = LINE.len() / 2;
        let Some(depth) = self.depth else { return Ok(()) };
        self.raw(LINE.get(..1 + 2 * depth.min(MOST)).unwrap_or_default())?;
        (MOST..depth).try_for_each(|_| self.raw(b"  "))
    }

    fn raw(&mut self, text: &[u8]) -> Result<()> {
        self.out.write_all(text).map_err(Error::io)
    }

    fn begin(&mut self, bracket: &[u8]) -> Result<()> {
        self.depth = self.depth.map(|depth| depth + 1);
        self.raw(bracket)
    }

    fn end(&mut self, empty: bool, bracket: &[u8]) -> Result<()> {
        self.depth = self.depth.map(|depth| depth.saturating_sub(1));
        if !empty {
            self.line()?;
        }
        self.raw(bracket)
    }

    fn name(&mut self, name: &'static str) -> Result<()> {
        self.raw(b"\"")?;
        self.raw(name.as_bytes())?;
        self.raw(b"\"")?;
        self.colon()
    }

    fn colon(&mut self) -> Result<()> {
        self.raw(if self.depth.is_some() { b": " } else { b":" })
    }

    /// Begins an object whose only value is that of a variant.
    fn variant(&mut self, name: &'static str) -> Result<()> {
        self.begin(b"{")?;
        self.element(true)?;
        self.name(name)
    }

    fn list(&mut self, in_variant: bool) -> Result<Open<'_, W>> {
        self.begin(b"[")?;
        Ok(Open { writer: self, empty: true, bracket: b"]", in_variant })
    }

    fn object(&mut self, in_variant: bool) -> Result<Open<'_, W>> {
        self.begin(b"{")?;
        Ok(Open { writer: self, empty: true, bracket: b"}", in_variant })
    }
}

/// A list or an object that has begun.
pub(super) struct Open<'w, W> {
    writer: &'w mut JsonWriter<W>,
    empty: bool,
    /// What ends it.
    bracket: &'static [u8],
    /// Another object ends with it.
    in_variant: bool,
}

impl<W: Write> Open<'_, W> {
    fn element(&mut self) -> Result<()> {
        let first = mem::take(&mut self.empty);
        self.writer.element(first)
    }

    fn close(self) -> Result<()> {
        self.writer.end(self.empty, self.bracket)?;
        if self.in_variant { self.writer.end(false, b"}") } else { Ok(()) }
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method(self, value: $type) -> Result<()> {
            to_writer(&mut self.out, &value)
        }
    )*};
}

impl<'w, W: Write> Serializer for &'w mut JsonWriter<W> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Open<'w, W>;
    type SerializeTuple = Open<'w, W>;
    type SerializeTupleStruct = Open<'w, W>;
    type SerializeTupleVariant = Open<'w, W>;
    type SerializeMap = Open<'w, W>;
    type SerializeStruct = Open<'w, W>;
    type SerializeStructVariant = Open<'w, W>;

    scalars! {
        serialize_bool: bool,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64,
        serialize_char: char, serialize_str: &str,
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    /// In one piece, whatever the pieces of its text.
    fn collect_str<T: ?Sized + fmt::Display>(self, value: &T) -> Result<()> {
        self.text.clear();
        write!(self.text, "{value}").map_err(Error::custom)?;
        to_writer(&mut self.out, &self.text)
    }

    fn serialize_none(self) -> Result<()> {
        self.raw(b"null")
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

    fn serialize_newtype_struct<T: ?Sized + Serialize>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
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
        self.end(false, b"}")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'w, W>> {
        self.list(false)
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'w, W>> {
        self.list(false)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'w, W>> {
        self.list(false)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, W>> {
        self.variant(variant)?;
        self.list(true)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'w, W>> {
        self.object(false)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'w, W>> {
        self.object(false)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, W>> {
        self.variant(variant)?;
        self.object(true)
    }
}

macro_rules! lists {
    ($($of:ident: $method:ident,)*) => {$(
        impl<W: Write> $of for Open<'_, W> {
            type Ok = ();
            type Error = Error;

            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
                self.element()?;
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<()> {
                self.close()
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
        impl<W: Write> $of for Open<'_, W> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<()> {
                self.element()?;
                self.writer.name(name)?;
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<()> {
                self.close()
            }
        }
    )*};
}

objects! {
    SerializeStruct,
    SerializeStructVariant,
}

impl<W: Write> SerializeMap for Open<'_, W> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<()> {
        self.element()?;
        let key = to_string(key)?;
        // A key that is a number becomes text.
        let quote: &[u8] = if key.starts_with('"') { b"" } else { b"\"" };
        self.writer.raw(quote)?;
        self.writer.raw(key.as_bytes())?;
        self.writer.raw(quote)?;
        self.writer.colon()
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;
    use serde_json::{Value, json, to_string_pretty};

    use super::*;

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
