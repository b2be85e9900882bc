//! Numbers that define what a figure means: no setting changes them, and docs/findings.md lists them.

/// A number that defines what a figure means.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name in the source text.
    pub name: &'static str,
    /// Its value there.
    pub value: &'static str,
    /// Unit and meaning.
    pub meaning: &'static str,
    /// Reason for this value, and its origin.
    pub reason: &'static str,
}

impl std::fmt::Display for Definition {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value, meaning, reason, .. } = self;
        write!(out, "- {meaning}: {value}. {reason}.")
    }
}

/// Declares such numbers, each once with type, value, meaning and reason, and the list of them.
macro_rules! definitions {
    ($($vis:vis $name:ident: $type:ty = $value:expr, $meaning:literal, $reason:literal;)+) => {
        $(#[doc = concat!($meaning, ". ", $reason, ".")] $vis const $name: $type = $value;)+
        // Some stand in SQL alone.
        $(const _: $type = $name;)+

        /// The numbers that this module defines.
        pub(crate) const DEFINITIONS: &[$crate::util::definition::Definition] = &[
            $($crate::util::definition::Definition {
                name: stringify!($name),
                value: stringify!($value),
                meaning: $meaning,
                reason: $reason,
            },)+
        ];
    };
}
pub(crate) use definitions;
