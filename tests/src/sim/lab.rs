//! A scenario: its construction, its run and its truth.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::engine::World;
use super::truth::{Expected, Figure, Place, Truth};
use super::vary::Vary;

/// Microseconds and milliseconds in nanoseconds.
pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
/// Kibibytes and mebibytes in bytes.
pub(crate) const KB: u32 = 1 << 10;
pub(crate) const MB: u32 = 1 << 20;

/// A named way to construct a run.
pub struct Scenario {
    /// Name, unique.
    pub name: &'static str,
    /// Kind of fault; `control` for clean traffic.
    pub kind: &'static str,
    pub(crate) build: fn(&mut Lab),
}

/// A finished run.
#[derive(Debug)]
pub struct LabRun {
    /// Captures, in the order of the command line.
    pub files: Vec<PathBuf>,
    /// Further options of `rocescope replay`.
    pub options: Vec<String>,
    /// The truth.
    pub truth: Truth,
    /// Captures and options of the run that `rocescope diff` compares this one with.
    pub baseline: Option<(Vec<PathBuf>, Vec<String>)>,
}

/// A run under construction.
pub(crate) struct Lab {
    pub(crate) world: World,
    pub(crate) truth: Truth,
    pub(crate) options: Vec<String>,
    /// The run before, of the same world with another seed.
    pub(crate) baseline: Option<fn(&mut Lab)>,
}

impl Lab {
    fn new(world: World) -> Self {
        Self { world, truth: Truth::default(), options: Vec::new(), baseline: None }
    }

    /// Writes the captures.
    fn write(&mut self, folder: &Path) -> Result<Vec<PathBuf>> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut files = Vec::new();
        for tap in &self.world.taps {
            let path = folder.join(&tap.name);
            std::fs::write(&path, tap.file()).with_context(|| format!("cannot write {}", path.display()))?;
            self.truth.counted.push((tap.name.clone(), tap.counted.clone()));
            files.push(path);
        }
        Ok(files)
    }

    /// The address of a host, as reports write it.
    pub(crate) fn addr(&self, host: usize) -> String {
        self.world.hosts[host].addr.text()
    }

    pub(crate) fn host(&self, host: usize) -> Place {
        Place::Host(self.addr(host))
    }

    pub(crate) fn pair(&self, a: usize, b: usize) -> Place {
        Place::Pair(self.addr(a), self.addr(b))
    }

    /// Expects a finding of one of these kinds.
    pub(crate) fn expect(&mut self, ids: &[&'static str], place: Place) -> &mut Self {
        self.truth.expected.push(Expected::new(ids, place));
        self
    }

    /// The same, only in a range of simulation time.
    pub(crate) fn expect_during(
        &mut self,
        ids: &[&'static str],
        place: Place,
        range: (u64, u64),
    ) -> &mut Self {
        self.truth.expected.push(Expected::new(ids, place).during(range.0, range.1));
        self
    }

    /// The same; severity info suffices.
    pub(crate) fn expect_info(&mut self, ids: &[&'static str], place: Place) -> &mut Self {
        self.truth.expected.push(Expected::new(ids, place).or_info());
        self
    }

    /// Expects what is composed otherwise.
    pub(crate) fn expect_that(&mut self, expected: Expected) -> &mut Self {
        self.truth.expected.push(expected);
        self
    }

    /// Findings that are allowed in addition.
    pub(crate) fn also(&mut self, ids: &[&'static str]) -> &mut Self {
        self.truth.also.extend(ids);
        self
    }

    /// Findings that must not be raised.
    pub(crate) fn never(&mut self, ids: &[&'static str]) -> &mut Self {
        self.truth.never.extend(ids);
        self
    }

    pub(crate) fn figure(
        &mut self,
        name: &'static str,
        of: fn(&serde_json::Value) -> Option<f64>,
        low: f64,
        high: f64,
    ) -> &mut Self {
        self.truth.figures.push(Figure { name, of, range: (low, high) });
        self
    }

    pub(crate) fn option(&mut self, words: &[&str]) -> &mut Self {
        self.options.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }
}

impl Scenario {
    /// True for clean traffic.
    pub fn is_control(&self) -> bool {
        self.kind == "control"
    }

    /// Runs the simulation and writes captures and truth into `folder`.
    pub fn run(&self, seed: u64, folder: &Path) -> Result<LabRun> {
        self.run_world(World::new(seed ^ hash(self.name)), seed, folder)
    }

    /// The same with rates, delays, addresses, numbers and settings varied by the seed.
    pub fn run_varied(&self, seed: u64, folder: &Path) -> Result<LabRun> {
        let mut world = World::new(seed ^ hash(self.name));
        world.vary = Vary::of(seed ^ hash(self.name), self.kind);
        self.run_world(world, seed, folder)
    }

    /// The same with a snap length of `snap` bytes.
    pub fn run_with_snap(&self, seed: u64, folder: &Path, snap: u32) -> Result<LabRun> {
        let mut world = World::new(seed ^ hash(self.name));
        world.snap = snap;
        self.run_world(world, seed, folder)
    }

    fn run_world(&self, world: World, seed: u64, folder: &Path) -> Result<LabRun> {
        let (vary, snap) = (world.vary.clone(), world.snap);
        let mut lab = Lab::new(world);
        (self.build)(&mut lab);
        lab.world.run();
        lab.truth.facts = lab.world.facts.clone();
        let files = lab.write(folder)?;
        let baseline = match lab.baseline {
            Some(build) => {
                let mut world = World::new(!seed ^ hash(self.name));
                (world.vary, world.snap) = (vary, snap);
                let mut before = Lab::new(world);
                build(&mut before);
                before.world.run();
                Some((before.write(&folder.join("baseline"))?, before.options))
            }
            None => None,
        };
        let Lab { truth, options, .. } = lab;
        let path = folder.join("truth.json");
        let text = serde_json::to_string_pretty(&truth.json(self.name, seed))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(LabRun { files, options, truth, baseline })
    }
}

/// FNV-1a of a name, so that scenarios with the same seed differ.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}
