//! What every field of the report means.
