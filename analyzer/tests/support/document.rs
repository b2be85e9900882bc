//! The documents that are made from the code, for the tests of every crate.

/// True when this run writes them anew: with `ROCESCOPE_BLESS=1`.
pub fn blessing() -> bool {
    std::env::var("ROCESCOPE_BLESS").is_ok_and(|value| value == "1")
}

/// Compares `docs/<name>` with `made`, or writes it when blessing.
///
/// # Panics
/// If the document is not up to date.
pub fn check(name: &str, made: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if blessing() {
        std::fs::write(&path, made)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
    let document = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        document == made,
        "docs/{name} is not up to date: ROCESCOPE_BLESS=1 writes it. It would be:\n{made}"
    );
}
