//! The Helm chart: rendered and linted by Helm, its objects validated against strict schemas of Kubernetes, and the
//! arguments of its container read by the program.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rocescope_tests::oracle::binary;
use rocescope_tests::packages::helm_or_skip;
use serde_json::{Value, json};

/// Result of the chart in `folder` with `values`.
fn rendered(mut python: Command, folder: &Path, values: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/helm/chart.py");
    let mut child = python
        .arg(script)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(values.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn chart(test: &str, values: &Value) -> Option<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/helm/rocescope");
    Some(rendered(helm_or_skip(test)?, &folder, values))
}

/// The objects of a chart in which neither Helm nor the schemas find a fault.
fn sound(test: &str, values: &Value) -> Option<Vec<Value>> {
    let result = chart(test, values)?;
    for faults in ["lint", "invalid"] {
        assert_eq!(result[faults], json!([]), "{values}: {result}");
    }
    Some(result["objects"].as_array().unwrap().clone())
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    kinds
}

fn pod(objects: &[Value]) -> &Value {
    let set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    &set["spec"]["template"]["spec"]
}

fn container(objects: &[Value]) -> &Value {
    &pod(objects)["containers"][0]
}

/// Runs the program with the arguments of the container, without a network: valid ones end with status 1, since there
/// is no such interface; invalid ones with 2.
fn read_by_the_program(container: &Value) {
    let arguments = container["args"].as_array().unwrap().iter().map(|word| {
        // kubelet puts the node's address in.
        word.as_str().unwrap().replace("$(NODE_ADDRESS)", "127.0.0.1").replace("14791", "0")
    });
    let arguments: Vec<String> = arguments.collect();
    let output = Command::new(binary::path().unwrap())
        .args(&arguments)
        .args(["--interface", "no-such-link"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn the_default_values_give_one_pod_per_node_that_listens_on_the_address_of_the_node() {
    let test = "the_default_values_give_one_pod_per_node_that_listens_on_the_address_of_the_node";
    let Some(objects) = sound(test, &json!({})) else { return };
    assert_eq!(kinds(&objects), ["DaemonSet", "Service"]);
    let container = container(&objects);
    assert_eq!(container["args"], json!(["export", "--listen", "$(NODE_ADDRESS):14791"]));
    assert_eq!(container["env"][0]["name"], "NODE_NAME", "of the resource of OTLP");
    let of_node = &container["env"][1];
    assert_eq!(of_node["name"], "NODE_ADDRESS");
    assert_eq!(of_node["valueFrom"]["fieldRef"]["fieldPath"], "status.hostIP");
    for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
        assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": "metrics" }), "{probe}");
    }
    let rights = &container["securityContext"];
    assert_eq!(rights["capabilities"], json!({ "drop": ["ALL"], "add": ["BPF", "PERFMON", "NET_ADMIN"] }));
    for (name, wanted) in [
        ("readOnlyRootFilesystem", json!(true)),
        ("privileged", json!(false)),
        ("allowPrivilegeEscalation", json!(false)),
        // Capabilities of a container are those of root.
        ("runAsUser", json!(0)),
    ] {
        assert_eq!(rights[name], wanted, "{name}");
    }
    let pod = pod(&objects);
    for name in ["hostNetwork", "hostPID"] {
        assert_eq!(pod[name], true, "{name}");
    }
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(container["volumeMounts"], json!([{ "name": "sys", "mountPath": "/sys", "readOnly": true }]));
    read_by_the_program(container);
}

#[test]
fn every_switch_of_the_values_can_be_on() {
    let values = json!({
        "image": { "repository": "registry.example/rocescope", "tag": "1", "pullPolicy": "Always" },
        "command": "agent",
        "interfaces": ["eth2", "mlx5_0"],
        "listen": "127.0.0.1",
        "port": 9000,
        "dataDir": "/data/rocescope",
        "extraArgs": ["--keep", "10m", "--on", "loss.*|qp.died"],
        "podNames": true,
        "podInterfaces": true,
        "netRaw": true,
        "config": "[agent]\ninterval = \"5s\"\n",
        "seccompProfile": { "type": "Localhost", "localhostProfile": "rocescope.json" },
        "nodeSelector": { "gpu": "true" },
        "tolerations": [{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }],
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "rdma", "operator": "Exists" }] }
        ] } } },
        "priorityClassName": "system-node-critical",
    });
    let test = "every_switch_of_the_values_can_be_on";
    let Some(objects) = sound(test, &values) else { return };
    assert_eq!(kinds(&objects), ["ConfigMap", "DaemonSet", "Service"]);
    let container = container(&objects);
    let words: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(
        words.join(" "),
        "agent --listen 127.0.0.1:9000 --interface eth2 --interface mlx5_0 --config /etc/rocescope/config.toml \
         --record /var/lib/rocescope --keep 10m --on loss.*|qp.died"
    );
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["host"], "127.0.0.1", "{probe}");
    }
    assert_eq!(
        container["securityContext"]["capabilities"]["add"],
        json!(["BPF", "PERFMON", "NET_ADMIN", "SYS_PTRACE", "SYS_ADMIN", "NET_RAW"])
    );
    let mounts = container["volumeMounts"].as_array().unwrap();
    let data = mounts.iter().find(|mount| mount["mountPath"] == "/var/lib/rocescope").unwrap();
    assert!(data.get("readOnly").is_none(), "{data}");
    // For the Prometheus operator, which needs an address that it can reach.
    let values = json!({ "listen": "::", "serviceMonitor": { "enabled": true, "interval": "5s", "labels": { "a": "b" } } });
    let Some(objects) = sound(test, &values) else { return };
    assert_eq!(kinds(&objects), ["DaemonSet", "Service", "ServiceMonitor"]);
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let (service, monitor) = (of_kind("Service"), of_kind("ServiceMonitor"));
    assert_eq!(monitor["metadata"]["labels"]["a"], "b");
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(
        (&endpoint["port"], &endpoint["interval"]),
        (&service["spec"]["ports"][0]["name"], &json!("5s"))
    );
    for (name, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(service["metadata"]["labels"][name], *value, "the service is not selected: {service}");
    }
    read_by_the_program(self::container(&objects));
}

#[test]
fn the_arguments_of_an_agent_in_a_pod_are_valid() {
    let test = "the_arguments_of_an_agent_in_a_pod_are_valid";
    let values = json!({ "command": "agent", "extraArgs": ["--keep", "10m", "--on", "loss.*|qp.died"] });
    let Some(objects) = sound(test, &values) else { return };
    read_by_the_program(container(&objects));
}

#[test]
fn values_that_cannot_work_are_refused_by_name() {
    for (values, named) in [
        (json!({ "nodeSelektor": {} }), "nodeSelektor"),
        (json!({ "image": { "repository": "a", "name": "b" } }), "name"),
        (json!({ "port": 0 }), "port"),
        (json!({ "command": "record" }), "command"),
        (json!({ "listen": "eth0" }), "listen"),
        // Only the agent records.
        (json!({ "dataDir": "/data" }), "command"),
        (json!({ "listen": "127.0.0.1", "serviceMonitor": { "enabled": true } }), "listen"),
    ] {
        let Some(result) = chart("values_that_cannot_work_are_refused_by_name", &values) else { return };
        let said = result["refused"].as_str().unwrap_or_else(|| panic!("{values} is accepted"));
        assert!(said.contains(named), "{values}: {said}");
    }
}

#[test]
fn a_fault_in_a_template_is_found() {
    let values = json!({ "listen": "::", "serviceMonitor": { "enabled": true } });
    for (file, right, wrong, named) in [
        ("daemonset.yaml", "readOnlyRootFilesystem:", "readOnlyRoot:", "readOnlyRoot"),
        // A field that the operator does not know, a label that Prometheus refuses, an interval without a unit.
        ("monitor.yaml", "relabelings:", "relabelConfigs:", "relabelConfigs"),
        ("monitor.yaml", "targetLabel: node", "targetLabel: node-name", "node-name"),
        ("monitor.yaml", "{{ .Values.serviceMonitor.interval }}", "\"15\"", "'15'"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("rocescope");
        let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/helm/rocescope");
        assert!(Command::new("cp").arg("-r").args([&whole, &broken]).status().unwrap().success());
        let file = broken.join("templates").join(file);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(right, wrong)).unwrap();
        let Some(python) = helm_or_skip("a_fault_in_a_template_is_found") else { return };
        let result = rendered(python, &broken, &values);
        assert!(result["invalid"].to_string().contains(named), "{named}: {result}");
    }
}
