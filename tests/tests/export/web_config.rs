//! TLS and passwords, with a real Prometheus and its own certificate.

use std::path::{Path, PathBuf};

use rocescope_tests::live::root_or_skip;
use rocescope_tests::packages::program_or_skip;

use super::{METRICS, PACKAGE, Prometheus, data, exporting, get, until, world};

/// Hash of "a secret" with the lowest cost.
const HASH: &str = "$2b$04$ocROEnNrwiMooFIPUY8Nr.C/VvgsMHSpYboKpOaROv2hHu0kGvRCy";

fn tls(name: &str) -> String {
    data("tls").join(name).display().to_string()
}

/// The configuration, and a private key that only its owner may read.
fn configuration(folder: &Path) -> PathBuf {
    let key = folder.join("server.key");
    std::fs::copy(tls("server.key"), &key).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = folder.join("web.yml");
    let text = format!(
        "tls_server_config:\n  cert_file: {}\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  \
         client_ca_file: {}\n  client_allowed_sans: [prometheus.example]\nbasic_auth_users:\n  alice: {HASH}\n",
        tls("server.pem"),
        tls("authority.pem")
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// Scrape jobs of Prometheus: a correct one, and one for each kind of error.
fn jobs() -> String {
    let job = |name: &str, client: &str, password: &str| {
        let client = match client {
            "" => String::new(),
            client => format!(
                ", cert_file: {}, key_file: {}",
                tls(&format!("{client}.pem")),
                tls(&format!("{client}.key"))
            ),
        };
        format!(
            "{{job_name: {name}, scheme: https, tls_config: {{ca_file: {}{client}}}, \
             basic_auth: {{username: alice, password: {password}}}, static_configs: [{{targets: ['{METRICS}']}}]}}",
            tls("authority.pem")
        )
    };
    let jobs = [
        job("right", "client", "a secret"),
        job("password", "client", "another"),
        job("certificate", "", "a secret"),
        // Signed by the same authority, for another name.
        job("name", "server", "a secret"),
        format!("{{job_name: plain, static_configs: [{{targets: ['{METRICS}']}}]}}"),
    ];
    jobs.join(", ")
}

#[test]
fn tls_and_passwords_are_those_of_the_web_configuration() {
    const TEST: &str = "tls_and_passwords_are_those_of_the_web_configuration";
    if !root_or_skip(TEST) {
        return;
    }
    let Some(program) = program_or_skip(TEST, PACKAGE, "prometheus") else { return };
    let (world, _link) = world();
    let folder = tempfile::tempdir().unwrap();
    let file = configuration(folder.path());
    let socket = folder.path().join("m.sock");
    let listen = format!("unix:{}", socket.display());
    let export = exporting(
        &world,
        &["--web-config", file.to_str().unwrap(), "--listen", METRICS, "--listen", &listen],
    );
    // A wrong password is answered after a second.
    let _prometheus = Prometheus::scraping(&world.near, &program, "2s", &jobs());
    let up = |job: &str| {
        let value = Prometheus::query(&world.near, &format!("sum(up{{job=\"{job}\"}})").replace('"', "%22"))?;
        value.into_values().next()
    };
    for (name, wanted) in
        [("right", 1.0), ("password", 0.0), ("certificate", 0.0), ("name", 0.0), ("plain", 0.0)]
    {
        until(name, || up(name).filter(|up| (up - wanted).abs() < 0.5));
    }
    // The socket file has permissions of its own.
    let answer = super::ask(
        std::os::unix::net::UnixStream::connect(&socket).unwrap(),
        "GET /metrics HTTP/1.0\r\n\r\n",
    );
    assert_eq!(answer.unwrap().status, 200);
    assert!(
        get(&world.near, METRICS, "/healthz", "").map_or(0, |answer| answer.status) != 200,
        "HTTP on the port of TLS"
    );

    // Replaced after privileges were dropped: without client certificates, with the same password.
    let text = format!(
        "tls_server_config: {{cert_file: {}, key_file: server.key}}\nbasic_auth_users: {{alice: {HASH}}}\n",
        tls("server.pem")
    );
    std::fs::write(folder.path().join("aside"), text).unwrap();
    std::fs::rename(folder.path().join("aside"), &file).unwrap();
    until("without a certificate of the client", || up("certificate").filter(|up| *up > 0.5));
    assert!(up("password").is_none_or(|up| up < 0.5));
    let ended = export.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains(&format!("metrics at https://{METRICS}/metrics\n")), "{}", ended.err);
    assert!(ended.err.contains("the web configuration was read again"), "{}", ended.err);
    assert!(!ended.err.contains("stays in use"), "{}", ended.err);
}
