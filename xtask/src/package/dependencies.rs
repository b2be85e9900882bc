//! What the program is made of, its kernel programs, the standard library and the C library included: the licences, and
//! a software bill of materials in CycloneDX's format.

use super::Release;
use crate::dist::Target;
use crate::ebpf_toolchain::EbpfToolchain;
use crate::run::{cargo, output_of, workspace_root};
use crate::setup;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the program's own crate.
const PROGRAM: &str = "rocescope";

/// The name of the crate of the kernel programs, which the program contains as data.
const KERNEL_PROGRAMS: &str = "rocescope-ebpf";

/// Where the code of a component is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Repository,
    Registry,
    /// Libraries that a compiler brings along.
    Compiler,
}

/// A component of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependency {
    name: String,
    /// Empty where it is not known.
    version: String,
    licence: String,
    origin: Origin,
    /// Folder with the text of its licence.
    folder: Option<PathBuf>,
    /// Package URLs of its dependencies.
    uses: Vec<String>,
}

impl Dependency {
    /// Its package URL.
    fn purl(&self) -> String {
        match (self.origin, self.version.as_str()) {
            (Origin::Compiler, "") => format!("pkg:generic/{}", self.name),
            (Origin::Compiler, version) => format!("pkg:generic/{}@{version}", self.name),
            _ => of_crate(&self.name, &self.version),
        }
    }

    fn of_compiler(name: &str, version: String, licence: &str) -> Self {
        let (name, licence) = (name.to_owned(), licence.to_owned());
        Self { name, version, licence, origin: Origin::Compiler, folder: None, uses: Vec::new() }
    }
}

/// The package URL of a crate.
fn of_crate(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The components of the program for a target.
///
/// # Errors
/// cargo or a compiler does not say what it uses.
pub(crate) fn of_program(target: Target) -> Result<Vec<Dependency>> {
    let metadata = output_of(cargo().args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--features=rocescope/live",
        "--filter-platform",
        target.triple(),
    ]));
    let metadata: Value = serde_json::from_str(&metadata.context("cargo metadata failed")?)?;
    let program = linked(&metadata, PROGRAM, &tree(PROGRAM, &["--features=live"], target.triple())?);
    let kernel = linked(&metadata, KERNEL_PROGRAMS, &tree(KERNEL_PROGRAMS, &[], "bpfel-unknown-none")?);
    with_compilers(program, kernel, &compilers()?)
}

/// Names and versions of the crates that a package is linked with: cargo's resolution has features of the whole
/// workspace, and thus crates that are in no program.
fn tree(package: &str, features: &[&str], target: &str) -> Result<BTreeSet<String>> {
    let mut command = cargo();
    command.args(["tree", "--locked", "--package", package, "--edges=normal,no-proc-macro", "--prefix=none"]);
    let text = output_of(command.args(["--format={p}", "--target", target]).args(features));
    Ok(in_tree(&text.with_context(|| format!("cargo tree failed for {package}"))?))
}

/// Versions of the compiler of the program and of that of the kernel programs.
fn compilers() -> Result<[String; 2]> {
    let chosen = EbpfToolchain::from_env().or_else(EbpfToolchain::from_record);
    let chosen = chosen.context("no compiler of the kernel programs is chosen: `cargo xtask setup` does")?;
    let mut for_kernel = setup::in_toolchain(&chosen.toolchain, "rustc");
    let version = |command: &mut Command| {
        let text = output_of(command.arg("--version")).context("rustc does not say its version")?;
        text.split_whitespace().nth(1).map(str::to_owned).context("rustc says no version")
    };
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Ok([version(&mut Command::new(program))?, version(&mut for_kernel)?])
}

/// The crates of the program and of its kernel programs, and what their compilers add to them: the standard library and
/// the libraries that it brings for programs of musl, the C library and the unwinder of LLVM (whose versions rustc does
/// not say), and the core library of the kernel programs.
fn with_compilers(
    program: Vec<Dependency>,
    kernel: Vec<Dependency>,
    [of_program, of_kernel]: &[String; 2],
) -> Result<Vec<Dependency>> {
    const RUST: &str = "MIT OR Apache-2.0";
    let std = Dependency::of_compiler("rust-std", of_program.clone(), RUST);
    let core = Dependency::of_compiler("rust-core-bpf", of_kernel.clone(), RUST);
    let mut musl = Dependency::of_compiler("musl", String::new(), "MIT");
    musl.folder = Some(workspace_root().join("xtask/src/package/musl"));
    let unwind = Dependency::of_compiler("libunwind", String::new(), "Apache-2.0 WITH LLVM-exception");
    let of_compilers = [std.clone(), core.clone(), musl.clone(), unwind.clone()];
    let mut all: BTreeMap<String, Dependency> = BTreeMap::new();
    for one in program.into_iter().chain(kernel).chain(of_compilers) {
        let uses = all.remove(&one.purl()).map_or_else(Vec::new, |before| before.uses);
        let uses: BTreeSet<String> = uses.into_iter().chain(one.uses).collect();
        let one = Dependency { uses: uses.into_iter().collect(), ..one };
        all.insert(one.purl(), one);
    }
    let kernel = all.values().find(|one| one.name == KERNEL_PROGRAMS).map(Dependency::purl);
    let kernel = kernel.with_context(|| format!("cargo metadata does not name {KERNEL_PROGRAMS}"))?;
    let more = [(PROGRAM, vec![kernel, std.purl()]), ("rust-std", vec![musl.purl(), unwind.purl()])];
    for (name, uses) in more.into_iter().chain([(KERNEL_PROGRAMS, vec![core.purl()])]) {
        let one = all.values_mut().find(|one| one.name == name);
        let one = one.with_context(|| format!("cargo metadata does not name {name}"))?;
        one.uses.extend(uses);
        one.uses.sort();
    }
    let mut all: Vec<Dependency> = all.into_values().collect();
    all.sort();
    Ok(all)
}

/// Names and versions in the output of `cargo tree`: `name v1.2.3 (source)`.
fn in_tree(text: &str) -> BTreeSet<String> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{}@{}", words.next()?, words.next()?.strip_prefix('v')?))
    };
    text.lines().filter_map(one).collect()
}

/// Dependencies with which `root` is linked, among those `known` to be in it, including itself, sorted by name and
/// version.
fn linked(metadata: &Value, root: &str, known: &BTreeSet<String>) -> Vec<Dependency> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    // Without those of tests and build scripts, which leave nothing in the program.
    let normal =
        |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let uses = |id: &String| -> Vec<String> {
        let all = nodes.get(id).map(|node| list(&node["deps"])).unwrap_or_default();
        all.iter()
            .filter(|dependency| normal(dependency))
            .map(|dependency| text(&dependency["pkg"]))
            .collect()
    };
    let named = |id: &String| packages.get(id).map(|one| (text(&one["name"]), text(&one["version"])));
    let is_known =
        |id: &String| named(id).is_some_and(|(name, version)| known.contains(&format!("{name}@{version}")));
    let mut open: Vec<String> =
        packages.iter().filter(|(_, package)| package["name"] == root).map(|(id, _)| id.clone()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if is_known(&id) && found.insert(id.clone()) {
            open.extend(uses(&id));
        }
    }
    let described = |id: &String| {
        let package = packages.get(id)?;
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
        let crates = uses(id).into_iter().filter(|id| is_known(id)).filter_map(|id| named(&id));
        let mut below: Vec<String> = crates.map(|(name, version)| of_crate(&name, &version)).collect();
        below.sort();
        let origin = if package["source"].is_null() { Origin::Repository } else { Origin::Registry };
        Some(Dependency {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
            origin,
            folder: Some(folder),
            uses: below,
        })
    };
    let mut all: Vec<Dependency> = found.iter().filter_map(described).collect();
    all.sort();
    all
}

/// The bill of materials as JSON.
pub(crate) fn sbom(all: &[Dependency], release: &Release) -> Result<String> {
    let component = |one: &Dependency| {
        let mut component = json!({
            "type": if one.name == PROGRAM { "application" } else { "library" },
            "bom-ref": one.purl(),
            "name": one.name,
            "licenses": [{ "expression": one.licence.replace('/', " OR ") }],
            "purl": one.purl(),
        });
        if !one.version.is_empty() {
            component["version"] = json!(one.version);
        }
        component
    };
    let own = all.iter().find(|one| one.name == PROGRAM).context("cargo metadata does not name rocescope")?;
    let components: Vec<Value> = all.iter().filter(|one| one.name != own.name).map(component).collect();
    let depends: Vec<Value> =
        all.iter().map(|one| json!({ "ref": one.purl(), "dependsOn": one.uses })).collect();
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": time(release.epoch), "component": component(own) },
        "components": components,
        "dependencies": depends,
    });
    let mut text = serde_json::to_string_pretty(&bom).context("cannot write the bill of materials")?;
    text.push('\n');
    Ok(text)
}

/// A Unix time as RFC 3339.
pub(crate) fn time(epoch: u64) -> String {
    let ((year, month, day), second) = (date(epoch), epoch % 86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// A Unix time in mail format: `Tue, 14 Nov 2023 22:13:20 +0000`.
pub(crate) fn mail_time(epoch: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let ((year, month, day), second) = (date(epoch), epoch % 86_400);
    let of = |names: &[&'static str], at: u64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} +0000",
        of(&DAYS, epoch / 86_400 % 7),
        of(&MONTHS, month - 1),
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of a Unix time (Howard Hinnant's `civil_from_days`).
fn date(epoch: u64) -> (u64, u64, u64) {
    let days = epoch / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// The licences of everything in the program, with the texts included in the crates, each text once. A crate without
/// a text gets that of Apache-2.0, if this is one of its licences.
pub(crate) fn licences(all: &[Dependency]) -> Result<String> {
    let apache = workspace_root().join("LICENSE-APACHE");
    let apache = fs::read_to_string(&apache).with_context(|| format!("cannot read {}", apache.display()))?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out = String::from("Licences of the libraries in rocescope\n\n");
    for one in all.iter().filter(|one| one.origin != Origin::Repository) {
        let name = format!("{} {}", one.name, one.version);
        let name = name.trim_end();
        writeln!(out, "{name}: {}", one.licence)?;
        let mut own = one.folder.as_deref().map(texts_in).transpose()?.unwrap_or_default();
        if own.is_empty() {
            let is_alike = one.licence.contains("Apache-2.0") && !one.licence.contains("AND");
            ensure!(is_alike, "{name} ({}) comes without the text of its licence", one.licence);
            own.push(apache.clone());
        }
        for text in own {
            texts.entry(text).or_default().push(name.to_owned());
        }
    }
    for (text, of) in texts {
        write!(out, "\n{}\n{}\n\n{}\n", "=".repeat(78), of.join(", "), text.trim_end())?;
    }
    Ok(out)
}

fn texts_in(folder: &Path) -> Result<Vec<String>> {
    const NAMES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().to_uppercase()).unwrap_or_default();
            path.is_file() && NAMES.iter().any(|start| name.starts_with(start))
        })
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Value {
        let package = |name: &str, source: Option<&str>| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source,
                    "manifest_path": format!("/nowhere/{name}/Cargo.toml") })
        };
        let uses = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [package("rocescope", None), package("rocescope-ebpf", None), package("a", Some("r")),
                         package("b", Some("r")), package("t", Some("r")), package("o", Some("r"))],
            "resolve": { "nodes": [
                { "id": "rocescope", "deps": [uses("a", None), uses("o", None), uses("t", Some("dev")), uses("t", Some("build"))] },
                { "id": "rocescope-ebpf", "deps": [uses("b", None)] },
                { "id": "a", "deps": [uses("b", None)] },
                { "id": "b", "deps": [] },
                { "id": "t", "deps": [] },
                { "id": "o", "deps": [] },
            ] },
        })
    }

    #[test]
    fn what_is_linked_is_listed_and_nothing_of_tests() {
        // `o` is in the workspace's resolution, but not in the program.
        let known = in_tree("rocescope v1.0.0 (/here)\na v1.0.0\nb v1.0.0 (*)\n\nt v1.0.0\n");
        let program = linked(&metadata(), PROGRAM, &known);
        let of_kernel = in_tree("rocescope-ebpf v1.0.0 (/here)\nb v1.0.0\n");
        let kernel = linked(&metadata(), KERNEL_PROGRAMS, &of_kernel);
        let all =
            with_compilers(program, kernel, &["1.95.0".to_owned(), "1.98.0-nightly".to_owned()]).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            ["a", "b", "libunwind", "musl", "rocescope", "rocescope-ebpf", "rust-core-bpf", "rust-std"]
        );
        let text = sbom(&all, &Release { version: "1.0.0".to_owned(), epoch: 1_764_088_331 }).unwrap();
        let bom: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bom["metadata"]["timestamp"], "2025-11-25T16:32:11Z");
        assert_eq!(bom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let on = |name: &str| {
            let all = bom["dependencies"].as_array().unwrap().iter();
            all.clone().find(|one| one["ref"] == name).unwrap()["dependsOn"].clone()
        };
        assert_eq!(
            on("pkg:cargo/rocescope@1.0.0"),
            json!(["pkg:cargo/a@1.0.0", "pkg:cargo/rocescope-ebpf@1.0.0", "pkg:generic/rust-std@1.95.0"])
        );
        assert_eq!(
            on("pkg:cargo/rocescope-ebpf@1.0.0"),
            json!(["pkg:cargo/b@1.0.0", "pkg:generic/rust-core-bpf@1.98.0-nightly"])
        );
        assert_eq!(on("pkg:generic/rust-std@1.95.0"), json!(["pkg:generic/libunwind", "pkg:generic/musl"]));
        assert!(licences(&all[3..4]).unwrap().contains("Rich Felker"));
    }

    #[test]
    fn a_crate_without_a_text_has_that_of_apache_or_is_refused() {
        let folder = std::env::temp_dir().join(format!("rocescope-licence-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let one = |licence: &str| Dependency {
            name: "x".to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.to_owned(),
            origin: Origin::Registry,
            folder: Some(folder.clone()),
            uses: Vec::new(),
        };
        let given = licences(&[one("MIT OR Apache-2.0")]);
        let refused = [licences(&[one("MIT")]), licences(&[one("Apache-2.0 AND Unicode-3.0")])];
        fs::remove_dir_all(&folder).unwrap();
        assert!(given.unwrap().contains("Apache License"));
        assert!(refused.iter().all(Result::is_err));
    }

    #[test]
    fn dates() {
        for (epoch, text) in [(0, "1970-01-01T00:00:00Z"), (951_827_696, "2000-02-29T12:34:56Z")] {
            assert_eq!(time(epoch), text);
        }
        assert_eq!(mail_time(1_700_000_000), "Tue, 14 Nov 2023 22:13:20 +0000");
    }
}
