//! Builds the kernel programs under feature `live`; without it there is nothing to do.

#[cfg(feature = "live")]
#[path = "../xtask/src/ebpf_toolchain.rs"]
mod ebpf_toolchain;

#[cfg(not(feature = "live"))]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}

#[cfg(feature = "live")]
fn main() -> std::process::ExitCode {
    match live::main() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        // Not `main() -> Result`: that prints a backtrace for what is a message to the user.
        Err(error) => {
            println!("cargo::error={}", format!("{error:#}").replace('\n', " "));
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "live")]
mod live {
    use crate::ebpf_toolchain::{
        EbpfToolchain, LINKER_DIR_VAR, SHARED_DIR_VAR, TOOLCHAIN_VAR, find_on_path, record_path,
    };
    use anyhow::{Context as _, Result, bail};
    use aya_build::{Package, Toolchain, build_ebpf};
    use std::env;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    const MISSING: &str = "the eBPF toolchain is missing: run `cargo xtask setup`";
    const OBJECT: &str = "rocescope-ebpf";
    /// Set for the process that builds the test object.
    const IS_TEST_BUILD: &str = "ROCESCOPE_IS_TEST_BUILD";

    pub(crate) fn main() -> Result<()> {
        watch();
        let chosen = EbpfToolchain::from_env().or_else(EbpfToolchain::from_record).context(MISSING)?;
        verify(&chosen)?;
        enter(&chosen)?;
        let out_dir = PathBuf::from(env::var_os("OUT_DIR").context("cargo does not set OUT_DIR")?);
        if env::var_os(IS_TEST_BUILD).is_some() {
            share_builds(&out_dir, "-test")?;
            return build(&chosen, &out_dir, &["test-clock"]);
        }
        // Each takes twenty seconds on one processor.
        let test_dir = out_dir.join("test");
        let test = cfg!(feature = "test-clock").then(|| start_test_build(&test_dir)).transpose()?;
        share_builds(&out_dir, "")?;
        let built = build(&chosen, &out_dir, &[]);
        if let Some(mut test) = test {
            let status = test.wait().context("cannot wait for the build of the test object")?;
            if !status.success() {
                bail!("cannot build the test object of the kernel programs: {status}");
            }
            let object = out_dir.join(format!("{OBJECT}-test"));
            fs::rename(test_dir.join(OBJECT), &object)
                .with_context(|| format!("cannot write {}", object.display()))?;
        }
        built
    }

    /// This script once more, for the object with a clock that tests set: both are built from the same binary target.
    fn start_test_build(out_dir: &Path) -> Result<Child> {
        fs::create_dir_all(out_dir).with_context(|| format!("cannot create {}", out_dir.display()))?;
        let script = env::current_exe().context("cannot find the program of the build script")?;
        let mut command = Command::new(script);
        command.env("OUT_DIR", out_dir).env(IS_TEST_BUILD, "1");
        command.spawn().context("cannot start the build of the test object")
    }

    /// Names what a new build depends on. The kernel programs are no dependency that cargo knows of.
    fn watch() {
        for path in ["build.rs", "../analyzer-common", "../Cargo.toml", "../Cargo.lock"] {
            println!("cargo:rerun-if-changed={path}");
        }
        for variable in [TOOLCHAIN_VAR, LINKER_DIR_VAR] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
        if let Some(record) = record_path().filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", record.display());
        }
    }

    fn verify(chosen: &EbpfToolchain) -> Result<()> {
        if !chosen.linker().is_file() {
            bail!("{MISSING} ({} does not exist)", chosen.linker().display());
        }
        if find_on_path("rustup").is_some() {
            let found = Command::new("rustup")
                .args(["run", &chosen.toolchain, "rustc", "--version"])
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
            if !found {
                bail!("{MISSING} (rustup has no toolchain {})", chosen.toolchain);
            }
        }
        Ok(())
    }

    /// Prepares the environment that the inner cargo inherits.
    fn enter(chosen: &EbpfToolchain) -> Result<()> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(chosen.linker_dir.clone()).chain(env::split_paths(&path));
        let path = env::join_paths(folders).context("the linker's directory cannot be added to PATH")?;
        // SAFETY: this build script has one thread, so nothing reads the environment meanwhile.
        unsafe {
            // rustc looks for `bpf-linker`, the linker of the bpf targets, on PATH.
            env::set_var("PATH", path);
            // `core` must be built from source, which a compiler that is not a nightly allows only so.
            // It holds for the kernel programs alone: this process ends with their build.
            env::set_var("RUSTC_BOOTSTRAP", "1");
            // Paths of this machine would be in the objects, and differ on the next: aya-build leaves no room for flags
            // of rustc's.
            env::set_var("CARGO_UNSTABLE_TRIM_PATHS", "true");
            env::set_var("CARGO_PROFILE_RELEASE_TRIM_PATHS", "all");
            // Its progress lines would appear as warnings with every build.
            env::set_var("CARGO_TERM_QUIET", "true");
        }
        Ok(())
    }

    /// Lets aya-build compile in a folder that all profiles and targets of one architecture share for this variant,
    /// where the environment names one. The kernel programs are always built for release, so that each further build of
    /// the same sources finds them done. An earlier build's own folder stays in use.
    fn share_builds(out_dir: &Path, variant: &str) -> Result<()> {
        let Some(shared) = env::var_os(SHARED_DIR_VAR).map(PathBuf::from) else { return Ok(()) };
        let arch = env::var("CARGO_CFG_TARGET_ARCH").context("cargo does not set CARGO_CFG_TARGET_ARCH")?;
        // See `aya_build::build_ebpf`: this is where it has its target directories.
        let own = out_dir.join("aya-build").join("target");
        let shared = shared.join(arch + variant);
        if fs::symlink_metadata(&own).is_ok() {
            return Ok(());
        }
        fs::create_dir_all(&shared).with_context(|| format!("cannot create {}", shared.display()))?;
        fs::create_dir_all(out_dir.join("aya-build"))
            .with_context(|| format!("cannot create a folder in {}", out_dir.display()))?;
        symlink(&shared, &own).with_context(|| format!("cannot create the link {}", own.display()))
    }

    fn build(chosen: &EbpfToolchain, out_dir: &Path, features: &[&str]) -> Result<()> {
        let package = Package {
            name: "rocescope-ebpf",
            root_dir: "../analyzer-ebpf",
            no_default_features: false,
            features,
        };
        build_ebpf([package], Toolchain::Custom(&chosen.toolchain))
            .context("cannot build the kernel programs")?;
        if !out_dir.join(OBJECT).is_file() {
            bail!(
                "the build of the kernel programs produced no object: unset AYA_BUILD_SKIP, or build without `live`"
            );
        }
        Ok(())
    }
}
