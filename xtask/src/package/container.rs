//! Runs the image in a container as the pod of the Helm chart is: three capabilities, no new privileges, a root that is
//! read-only, the network and the processes of the host, which here is a network namespace with a link of its own.

use super::{empty, image};
use crate::run::{root_command, run};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The capabilities of deploy/helm/rocescope/templates/daemonset.yaml.
const CAPABILITIES: [&str; 3] = ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"];
/// The link that it watches.
const LINK: &str = "roce0";

/// Starts `export` of the image with runc, sends packets, scrapes, and ends it.
///
/// # Errors
/// Without root, or if runc or the program fails.
pub(super) fn run_in(archive: &Path, work: &Path) -> Result<()> {
    let (_, entry) = image::unpacked(archive, &empty(work.to_path_buf())?)?;
    let specification = work.join("config.json");
    let text = specification_of(&entry).to_string();
    fs::write(&specification, text).with_context(|| format!("cannot write {}", specification.display()))?;
    let script = work.join("container.sh");
    fs::write(&script, include_str!("container.sh"))
        .with_context(|| format!("cannot write {}", script.display()))?;
    run(root_command("bash", "running the image in a container")?.arg(&script).arg(work).arg(LINK))
}

/// The container, for runc.
fn specification_of(entry: &str) -> Value {
    let mount = |to: &str, kind: &str, options: &[&str]| {
        let options = [&["nosuid", "noexec"], options].concat();
        json!({ "destination": to, "type": kind, "source": kind, "options": options })
    };
    let sets = ["bounding", "effective", "permitted"].map(|set| (set.to_owned(), json!(CAPABILITIES)));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": [entry, "export", "--listen", "127.0.0.1:14791", "--interface", LINK],
            "env": ["PATH=/usr/bin"],
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": sets.into_iter().collect::<serde_json::Map<_, _>>(),
        },
        "root": { "path": "root", "readonly": true },
        "mounts": [
            mount("/proc", "proc", &["nodev"]),
            mount("/sys", "sysfs", &["nodev", "ro"]),
            mount("/dev", "tmpfs", &["mode=755"]),
        ],
        // Those of the network and of processes are the host's.
        "linux": { "namespaces": [{ "type": "mount" }, { "type": "ipc" }, { "type": "uts" }] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::workspace_root;

    #[test]
    fn the_container_has_the_rights_of_the_chart() {
        let chart = workspace_root().join("deploy/helm/rocescope/templates/daemonset.yaml");
        let chart = fs::read_to_string(chart).unwrap();
        let (_, after) = chart.split_once("add:\n").unwrap();
        let added: Vec<&str> = after
            .lines()
            .map(str::trim)
            .take_while(|line| line.starts_with("- "))
            .map(|line| line.trim_start_matches("- "))
            .collect();
        let own = CAPABILITIES.map(|name| name.trim_start_matches("CAP_"));
        assert_eq!(added, own);
        for line in [
            "hostNetwork: true",
            "hostPID: true",
            "allowPrivilegeEscalation: false",
            "readOnlyRootFilesystem: true",
            "runAsUser: 0",
        ] {
            assert!(chart.contains(line), "{line}");
        }
        let made = specification_of("/usr/bin/rocescope");
        assert_eq!(made["process"]["capabilities"]["permitted"], json!(CAPABILITIES));
        assert_eq!(
            (&made["process"]["noNewPrivileges"], &made["root"]["readonly"]),
            (&json!(true), &json!(true))
        );
    }
}
