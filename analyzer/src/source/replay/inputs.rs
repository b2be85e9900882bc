//! Groups files into taps, and names the taps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A tap: a place where packets were captured, as one file or the files of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapFiles {
    /// Name, from which the names of its links derive.
    pub name: String,
    /// Its files; `-` is standard input.
    pub files: Vec<PathBuf>,
}

/// A list of files as taps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The taps in the order of their first file.
    pub taps: Vec<TapFiles>,
    /// Automatic decisions that the user should know.
    pub notices: Vec<String>,
}

/// Standard input, as an argument.
pub const STDIN: &str = "-";

/// Groups `files` into taps: each file is a tap, but the files of a rotation are joined. `named` are taps named by
/// the user.
///
/// # Errors
/// If a name or a file is given twice.
pub fn arrange(files: &[PathBuf], named: &[TapFiles]) -> Result<Inputs, String> {
    refuse_twice(files, named)?;
    let mut inputs = Inputs::default();
    let mut taps: Vec<(Option<PathBuf>, TapFiles)> = Vec::new();
    for group in groups(files) {
        let folder = group.folder.clone();
        if let [file] = group.files.as_slice() {
            let name = file_name(file);
            taps.push((folder, TapFiles { name, files: group.files }));
        } else {
            inputs.notices.push(format!(
                "{} files differ only in a rotation suffix and are joined into one tap, {}; name taps with \
                 --tap NAME=FILE to keep them apart",
                group.files.len(),
                group.stem
            ));
            taps.push((folder, TapFiles { name: group.stem, files: group.files }));
        }
    }
    make_unique(&mut taps, &mut inputs.notices);
    for (_, tap) in &taps {
        if named.iter().any(|other| other.name == tap.name) {
            return Err(format!(
                "--tap {}: an input file has the same name; choose another name for the tap",
                tap.name
            ));
        }
    }
    inputs.taps = named.to_vec();
    inputs.taps.extend(taps.into_iter().map(|(_, tap)| tap));
    Ok(inputs)
}

fn refuse_twice(files: &[PathBuf], named: &[TapFiles]) -> Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    for file in files.iter().chain(named.iter().flat_map(|tap| &tap.files)) {
        let same = if file.as_os_str() == STDIN {
            file.clone()
        } else {
            // A missing file is reported later, with its own error.
            file.canonicalize().unwrap_or_else(|_| file.clone())
        };
        if !seen.insert(same) {
            return Err(format!(
                "{} is given twice; its packets would be counted twice: name it once",
                file.display()
            ));
        }
    }
    for (at, tap) in named.iter().enumerate() {
        if named.iter().skip(at + 1).any(|other| other.name == tap.name) {
            return Err(format!(
                "--tap {}: the name is given twice; join files with --tap {}=FILE,FILE",
                tap.name, tap.name
            ));
        }
    }
    Ok(())
}

struct Group {
    folder: Option<PathBuf>,
    stem: String,
    files: Vec<PathBuf>,
}

/// Groups of files, in the order of their first member.
fn groups(files: &[PathBuf]) -> Vec<Group> {
    /// Folder and stem of a file, which the files of a rotated capture share.
    type Key = (Option<PathBuf>, String);
    /// Rotation suffix and path.
    type Member = (String, PathBuf);
    let mut order: Vec<Key> = Vec::new();
    let mut members: BTreeMap<Key, Vec<Member>> = BTreeMap::new();
    for file in files {
        let folder = file.parent().map(Path::to_path_buf);
        let (stem, part) = rotation(&file_name(file));
        let key = (folder, stem);
        if !members.contains_key(&key) {
            order.push(key.clone());
        }
        members.entry(key).or_default().push((part, file.clone()));
    }
    let mut groups = Vec::new();
    for key in order {
        let Some(found) = members.remove(&key) else { continue };
        let (folder, stem) = key;
        let mut parts: Vec<&str> = found.iter().map(|(part, _)| part.as_str()).collect();
        parts.sort_unstable();
        let distinct = parts.windows(2).all(|pair| pair[0] != pair[1]);
        let files: Vec<PathBuf> = found.iter().map(|(_, file)| file.clone()).collect();
        if distinct && stem != STDIN {
            groups.push(Group { folder, stem, files });
        } else {
            // x.pcap and x.pcap.gz: not a rotation, but possibly the same packets.
            for file in files {
                groups.push(Group { folder: folder.clone(), stem: stem.clone(), files: vec![file] });
            }
        }
    }
    groups
}

/// Prefixes taps that share a name with as many folders as needed to make them unique.
fn make_unique(taps: &mut [(Option<PathBuf>, TapFiles)], notices: &mut Vec<String>) {
    let names: Vec<String> = taps.iter().map(|(_, tap)| tap.name.clone()).collect();
    let mut reported = Vec::new();
    for at in 0..taps.len() {
        let same: Vec<usize> = (0..taps.len()).filter(|i| names.get(*i) == names.get(at)).collect();
        if same.len() < 2 {
            continue;
        }
        let folders: Vec<Vec<String>> = same
            .iter()
            .filter_map(|i| taps.get(*i))
            .map(|(folder, _)| folder.as_deref().map(components).unwrap_or_default())
            .collect();
        let mine =
            same.iter().position(|i| *i == at).and_then(|i| folders.get(i)).cloned().unwrap_or_default();
        let longest = folders.iter().map(Vec::len).max().unwrap_or(0);
        let tail =
            |folder: &[String], depth: usize| folder[folder.len() - depth.min(folder.len())..].to_vec();
        let depth = (1..=longest)
            .find(|depth| folders.iter().filter(|f| tail(f, *depth) == tail(&mine, *depth)).count() == 1)
            .unwrap_or(longest);
        let (Some((_, tap)), Some(name)) = (taps.get_mut(at), names.get(at)) else { continue };
        let mut parts = tail(&mine, depth);
        parts.push(name.clone());
        tap.name = parts.join("/");
        if !reported.contains(name) {
            reported.push(name.clone());
            notices.push(format!(
                "{} files are named {name}; each is a tap of its own, named with its folder",
                same.len()
            ));
        }
    }
}

fn components(folder: &Path) -> Vec<String> {
    folder.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect()
}

fn file_name(file: &Path) -> String {
    if file.as_os_str() == STDIN {
        return "stdin".into();
    }
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

const EXTENSIONS: [&str; 5] = [".pcapng", ".pcap", ".cap", ".dump", ".dmp"];

/// A file name without its rotation suffix, and the suffix.
///
/// tcpdump's `-C` and `-W` (`x.pcap`, `x.pcap1`, `x.pcap02`), logrotate (`x.pcap.1`), dumpcap
/// (`x_00001_20260101120000.pcapng`), times as of tcpdump's `-G` (`x-20260101-120000.pcap`), each
/// also compressed.
fn rotation(name: &str) -> (String, String) {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let front = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &plain[front.len()..];
    for base in [front, front.strip_suffix('.').unwrap_or(front)] {
        if EXTENSIONS.iter().any(|ext| base.len() > ext.len() && base.ends_with(ext)) {
            // Without a number there may be a time before the extension.
            if !number.is_empty() {
                return (base.into(), number.into());
            }
            break;
        }
    }
    let ext = EXTENSIONS.iter().find(|ext| plain.ends_with(**ext)).copied().unwrap_or("");
    let body = &plain[..plain.len() - ext.len()];
    if let Some(stem) = without_time(body) {
        let suffix = body[stem.len()..].to_owned();
        return (format!("{stem}{ext}"), suffix);
    }
    (plain.into(), String::new())
}

/// `x` of `x_00001_20260101120000`, `x_20260101120000`, `x-20260101-120000`.
fn without_time(body: &str) -> Option<&str> {
    let digits = |text: &str, n: usize| -> Option<usize> {
        let front = text.trim_end_matches(|c: char| c.is_ascii_digit());
        (text.len() - front.len() == n).then_some(front.len())
    };
    let separated = |at: usize| body[..at].strip_suffix(['_', '-', '.', 'T']).map(str::len);
    let mut at = if let Some(at) = digits(body, 14) {
        separated(at)?
    } else {
        let time = separated(digits(body, 6)?)?;
        separated(digits(&body[..time], 8)?)?
    };
    if let Some(number) = digits(&body[..at], 5)
        && let Some(before) = separated(number)
    {
        at = before;
    }
    (at > 0).then(|| &body[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(files: &[&str]) -> (Vec<(String, usize)>, usize) {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let inputs = arrange(&files, &[]).unwrap();
        let taps = inputs.taps.iter().map(|tap| (tap.name.clone(), tap.files.len())).collect();
        (taps, inputs.notices.len())
    }

    fn named(name: &str, n: usize) -> (String, usize) {
        (name.to_owned(), n)
    }

    #[test]
    fn rotation_suffixes() {
        for (name, stem, part) in [
            ("x.pcap", "x.pcap", ""),
            ("x.pcap1", "x.pcap", "1"),
            ("x.pcap007.gz", "x.pcap", "007"),
            ("x.pcap.1", "x.pcap", "1"),
            ("x.pcapng.2.gz", "x.pcapng", "2"),
            ("x_00001_20260101120000.pcapng", "x.pcapng", "_00001_20260101120000"),
            ("x_20260101120000.pcap.gz", "x.pcap", "_20260101120000"),
            ("x-20260101-120000.pcap", "x.pcap", "-20260101-120000"),
            ("x-1.pcap", "x-1.pcap", ""),
            ("h0", "h0", ""),
            ("h1", "h1", ""),
            ("20260101120000.pcap", "20260101120000.pcap", ""),
            (".pcap1", ".pcap1", ""),
            ("é.pcap3", "é.pcap", "3"),
        ] {
            assert_eq!(rotation(name), (stem.to_owned(), part.to_owned()), "{name}");
        }
    }

    #[test]
    fn files_are_taps_and_rotations_are_joined() {
        assert_eq!(arranged(&["d/h0.pcap", "h1.pcap"]), (vec![named("h0.pcap", 1), named("h1.pcap", 1)], 0));
        assert_eq!(arranged(&["x.pcap1"]), (vec![named("x.pcap1", 1)], 0));
        assert_eq!(
            arranged(&["x.pcap", "y.pcap", "x.pcap1", "x.pcap2.gz"]),
            (vec![named("x.pcap", 3), named("y.pcap", 1)], 1)
        );
        assert_eq!(
            arranged(&["x.pcap", "x.pcap.gz"]),
            (vec![named("x.pcap", 1), named("x.pcap.gz", 1)], 0),
            "the same packets twice, rather"
        );
        assert_eq!(arranged(&["-"]), (vec![named("stdin", 1)], 0));
    }

    #[test]
    fn the_same_name_in_two_folders_stays_apart() {
        assert_eq!(
            arranged(&["a/x.pcap", "b/x.pcap", "c.pcap"]),
            (vec![named("a/x.pcap", 1), named("b/x.pcap", 1), named("c.pcap", 1)], 1)
        );
        assert_eq!(
            arranged(&["r/a/d/x.pcap", "r/b/d/x.pcap"]).0,
            [named("a/d/x.pcap", 1), named("b/d/x.pcap", 1)]
        );
        assert_eq!(arranged(&["x.pcap", "b/x.pcap"]).0, [named("x.pcap", 1), named("b/x.pcap", 1)]);
        assert_eq!(
            arranged(&["a/x.pcap0", "a/x.pcap1", "b/x.pcap0"]).0,
            [named("x.pcap", 2), named("x.pcap0", 1)]
        );
    }

    #[test]
    fn names_and_files_given_twice_are_refused() {
        let tap = |name: &str, file: &str| TapFiles { name: name.into(), files: vec![file.into()] };
        assert!(arrange(&["x".into(), "x".into()], &[]).unwrap_err().contains("given twice"));
        assert!(arrange(&["x".into()], &[tap("a", "x")]).unwrap_err().contains("given twice"));
        assert!(arrange(&[], &[tap("a", "x"), tap("a", "y")]).unwrap_err().contains("--tap a"));
        assert!(arrange(&["d/a".into()], &[tap("a", "x")]).unwrap_err().contains("--tap a"));
    }
}
