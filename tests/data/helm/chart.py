#!/usr/bin/env python3
"""`chart.py CHART`: renders a chart with the values of standard input (JSON), by Helm; lints it, warnings as errors; and
validates every object against strict schemas: of Kubernetes, and of a ServiceMonitor that of this folder. Prints JSON:
`refused`, or `objects`, `lint` and `invalid`.
"""

import json
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml
from helm_python import Chart, lint
from helm_python.errors import HelmValuesError

# The oldest one of Chart.yaml, one in between, and the newest one that the validator has.
KUBERNETES = ["1.25", "1.30", "1.37"]


# Kubernetes has schemas of its own objects alone.
OF_THE_OPERATOR = Path(__file__).with_name("servicemonitor.json")


def invalid(thing):
    kind = thing["kind"]
    if thing["apiVersion"].startswith("monitoring.coreos.com/"):
        schema = json.loads(OF_THE_OPERATOR.read_text())
        for error in jsonschema.Draft202012Validator(schema).iter_errors(thing):
            yield f"{kind}: {list(error.path)}: {error.message}"
        return
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(thing, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{version}: {kind}: {list(error.path)}: {error.message}"


def main():
    chart, values = sys.argv[1], json.load(sys.stdin)
    try:
        texts = Chart.load(chart).render(values, name="a", namespace="b").values()
    except HelmValuesError as error:
        return {"refused": str(error)}
    things = [thing for text in texts for thing in yaml.safe_load_all(text) if thing]
    found = lint(chart, values, strict=True)
    return {
        "objects": things,
        # Severity 1 is information.
        "lint": found["errors"] + [one for one in found["messages"] if one["severity"] > 1],
        "invalid": [fault for thing in things for fault in invalid(thing)],
    }


json.dump(main(), sys.stdout)
