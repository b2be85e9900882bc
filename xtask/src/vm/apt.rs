//! Kernels for guests, and the package sources for apt.

use super::debian::update;
use super::processor::Processor;
use crate::run::{output_of, run};
use crate::ubuntu;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The package that depends on a distribution's current kernel, followed by the architecture. (The cloud variant has
/// fewer modules.)
const CURRENT: &str = "linux-image-";
/// The source of the distribution for another architecture than this machine's.
const FOREIGN: &str =
    "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n";
/// The source of the distribution's newer kernel, for differences between kernels. No package of the machine's own
/// sources comes from it.
const BACKPORTS: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                         http://deb.debian.org/debian bookworm-backports main\n";
/// The Ubuntu releases from which kernels are taken, the generic one of each version.
const SUITES: [&str; 4] = ["jammy", "jammy-updates", "noble", "noble-updates"];

/// The kernel of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The kernel of the distribution.
    #[default]
    Distribution,
    /// The kernel of the distribution's backports.
    Backports,
    /// Ubuntu's kernel of this version, such as `5.15`.
    Ubuntu(String),
}

impl Kernel {
    /// Parses the value of an argument.
    ///
    /// # Errors
    /// Lists the accepted values.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let is_version = |text: &str| {
            let numbers = text.split_once('.');
            numbers.is_some_and(|(a, b)| [a, b].iter().all(|number| number.parse::<u32>().is_ok()))
        };
        match text {
            "distribution" => Ok(Self::Distribution),
            "backports" => Ok(Self::Backports),
            version if is_version(version) => Ok(Self::Ubuntu(version.to_owned())),
            _ => {
                Err("name `distribution`, `backports`, or a version that Ubuntu 22.04 or 24.04 has, as 5.15"
                    .to_owned())
            }
        }
    }

    /// Message for a version without a known package.
    pub(super) fn unknown(&self) -> String {
        match self {
            Self::Ubuntu(version) => {
                format!(
                    "Ubuntu has no general kernel {version} in {}: name another version",
                    SUITES.join(", ")
                )
            }
            _ => format!("apt knows no kernel of the distribution ({CURRENT}*): run this on Debian 12"),
        }
    }
}

/// Package sources for apt: the machine's own, or others given by options.
#[derive(Default)]
pub(super) struct Apt {
    options: Vec<String>,
    processor: Processor,
}

impl Apt {
    /// Uses only the sources that contain a kernel, below `dir`; for the distribution's kernel the machine's own.
    pub(super) fn new(dir: &Path, kernel: &Kernel, processor: Processor) -> Result<Self> {
        let architecture = processor.debian();
        let (name, text) = match kernel {
            Kernel::Distribution if processor == Processor::X86 => return Ok(Self::default()),
            Kernel::Distribution => ("foreign", format!("deb [arch={architecture} {FOREIGN}")),
            _ if processor != Processor::X86 => {
                bail!("other kernels are for x86_64 alone: leave out --kernel or --arch")
            }
            Kernel::Backports => ("backports", BACKPORTS.to_owned()),
            Kernel::Ubuntu(_) => {
                let key = ubuntu::keyring(&dir.join("ubuntu"))?;
                let (key, archive) = (key.display(), ubuntu::ARCHIVE);
                let line = |suite| format!("deb [arch=amd64 signed-by={key}] {archive} {suite} main\n");
                ("ubuntu", SUITES.map(line).concat())
            }
        };
        let (lists, sources) = (dir.join(name).join("lists"), dir.join(name).join("sources.list"));
        fs::create_dir_all(lists.join("partial"))
            .with_context(|| format!("cannot create {}", lists.display()))?;
        fs::write(&sources, text).with_context(|| format!("cannot write {}", sources.display()))?;
        let set = [
            ("Dir::Etc::SourceList", sources.display().to_string()),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
            ("Dir::State::Lists", lists.display().to_string()),
            // The caches of the machine's own sources must not be replaced.
            ("Dir::Cache::pkgcache", String::new()),
            ("Dir::Cache::srcpkgcache", String::new()),
            ("APT::Sandbox::User", "root".to_owned()),
        ];
        let of_processor =
            [("APT::Architecture", architecture.to_owned()), ("APT::Architectures", architecture.to_owned())];
        let all = set.into_iter().chain(of_processor);
        let options = all.flat_map(|(name, value)| ["-o".to_owned(), format!("{name}={value}")]).collect();
        Ok(Self { options, processor })
    }

    /// Arguments for apt's programs.
    pub(super) fn options(&self) -> &[String] {
        &self.options
    }

    /// Updates apt's package lists.
    pub(super) fn update(&self) -> Result<()> {
        if self.options.is_empty() {
            return update();
        }
        // Separate lists need no root.
        run(Command::new("apt-get").args(&self.options).args(["update", "--quiet=2"]).stdin(Stdio::null()))
    }

    /// The packages of a kernel, image first. `None` if the kernel is unknown.
    pub(super) fn kernel(&self, kernel: &Kernel) -> Option<Vec<String>> {
        let ask =
            |arguments: &[&str]| output_of(Command::new("apt-cache").args(&self.options).args(arguments));
        let Kernel::Ubuntu(version) = kernel else {
            let current = format!("{CURRENT}{}", self.processor.debian());
            return Some(vec![dependency(&ask(&["depends", &current])?)?.to_owned()]);
        };
        let begin = format!("linux-image-unsigned-{version}.0-");
        let names = ask(&["pkgnames", &begin])?;
        let release = latest(&names, &begin)?;
        let release = format!("{version}.0-{release}-generic");
        let all = ["linux-image-unsigned", "linux-modules", "linux-modules-extra"];
        Some(all.map(|name| format!("{name}-{release}")).to_vec())
    }
}

/// The highest number of a generic kernel among names of packages.
fn latest(names: &str, begin: &str) -> Option<u32> {
    let number = |name: &str| name.strip_prefix(begin)?.strip_suffix("-generic")?.parse::<u32>().ok();
    names.lines().filter_map(number).max()
}

/// The first dependency in the output of `apt-cache depends`.
fn dependency(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-49-amd64\n  Recommends: apparmor\n";
        assert_eq!(dependency(text), Some("linux-image-6.1.0-49-amd64"));
        assert_eq!(dependency("linux-image-amd64\n"), None);
    }

    #[test]
    fn the_latest_general_kernel_is_taken() {
        let begin = "linux-image-unsigned-5.15.0-";
        let names = ["25-generic", "204-generic", "99-generic", "300-lowlatency"]
            .map(|end| format!("{begin}{end}\n"));
        assert_eq!(latest(&names.concat(), begin), Some(204));
        assert_eq!(latest("", begin), None);
    }

    #[test]
    fn kernels_are_named() {
        assert_eq!(Kernel::parse("5.15"), Ok(Kernel::Ubuntu("5.15".to_owned())));
        assert_eq!(Kernel::parse("backports"), Ok(Kernel::Backports));
        assert!(Kernel::parse("newest").unwrap_err().contains("5.15"));
    }
}
