//! A container image as an OCI archive, built without a daemon: the static program and its licences.

use super::Release;
use super::archive::sorted_tar;
use super::tree::{set_mode, write};
use crate::dist::Target;
use crate::run::workspace_root;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// rocescope-VERSION-ARCH.oci.tar: `skopeo copy oci-archive:FILE docker://REGISTRY/rocescope`, `podman load`, `ctr
/// image import`.
pub(crate) fn image(
    release: &Release,
    target: Target,
    program: &Path,
    licences: &str,
    work: &Path,
    to: &Path,
) -> Result<PathBuf> {
    let root = work.join("image");
    let place = root.join("usr/bin/rocescope");
    write(&place, &fs::read(program).with_context(|| format!("cannot read {}", program.display()))?)?;
    set_mode(&place, 0o755)?;
    let texts = root.join("usr/share/licenses/rocescope");
    write(&texts.join("THIRD-PARTY-LICENSES.txt"), licences.as_bytes())?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        write(&texts.join(name), &fs::read(workspace_root().join(name)).context("cannot read a licence")?)?;
    }
    let layer = work.join("layer.tar");
    sorted_tar(release, &root, &["usr"], &layer, false)?;
    let layout = work.join("oci");
    let layer = fs::read(&layer).context("cannot read the layer")?;
    let layer = blob(&layout, &layer, "application/vnd.oci.image.layer.v1.tar")?;
    let time = super::dependencies::time(release.epoch);
    let configuration = json!({
        "created": time,
        "architecture": target.debian(),
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/rocescope"],
            "Cmd": ["export"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "rocescope",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                "org.opencontainers.image.source": "https://github.com/rocescope/rocescope",
            },
        },
        // Not compressed, so that the digest of the layer is that of its contents.
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
        "history": [{ "created": time, "created_by": "cargo xtask package" }],
    });
    let configuration =
        blob(&layout, configuration.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": configuration,
        "layers": [layer],
    });
    let mut manifest =
        blob(&layout, manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json")?;
    manifest["annotations"] =
        json!({ "org.opencontainers.image.ref.name": format!("rocescope:{}", release.version) });
    manifest["platform"] = json!({ "architecture": target.debian(), "os": "linux" });
    let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest] });
    write(&layout.join("index.json"), index.to_string().as_bytes())?;
    write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let path = to.join(format!("rocescope-{}-{}.oci.tar", release.version, target.debian()));
    sorted_tar(release, &layout, &["blobs", "index.json", "oci-layout"], &path, false)?;
    Ok(path)
}

/// Adds bytes to the layout; returns their descriptor.
fn blob(layout: &Path, bytes: &[u8], media: &str) -> Result<Value> {
    let digits: Vec<String> = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.concat();
    write(&layout.join("blobs/sha256").join(&digits), bytes)?;
    Ok(json!({ "mediaType": media, "digest": format!("sha256:{digits}"), "size": bytes.len() }))
}
