//! The files and rows of a recording.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rocescope::record::parquet;
use rocescope::record::registry::FlowSecond;
use rocescope::record::table::Row;

/// The files below a folder with the suffix `.parquet`.
pub fn tables(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files.extend(tables(&entry.path()));
        } else if entry.path().extension().is_some_and(|ending| ending == "parquet") {
            files.push(entry.path());
        }
    }
    files
}

/// The rows of the flows of a recording, file by file.
pub fn flow_rows(recording: &Path) -> Result<Vec<FlowSecond>> {
    rows(recording)
}

/// The rows of a table of a recording, file by file.
pub fn rows<R: Row>(recording: &Path) -> Result<Vec<R>> {
    let mut rows = Vec::new();
    for file in tables(&recording.join("v1").join(R::TABLE.name)) {
        rows.extend(parquet::decode::<R>(std::fs::read(file)?.into())?);
    }
    Ok(rows)
}
