"""Checks a bill of materials against CycloneDX's own schema, and that its parts fit together. Argument: the file."""

import json
import sys
from importlib.resources import files

from jsonschema import Draft7Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

folder = files("cyclonedx.schema._res")


def schema(name):
    return json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text())


def fault(bom):
    """The first one, or None."""
    others = [(f"{name}.schema.json", schema(name)) for name in ("spdx", "jsf-0.82")]
    resources = []
    for name, contents in others:
        resource = Resource(contents=contents, specification=DRAFT7)
        resources += [(name, resource), (f"http://cyclonedx.org/schema/{name}", resource), (contents["$id"], resource)]
    validator = Draft7Validator(schema("bom-1.5"), registry=Registry().with_resources(resources))
    for error in validator.iter_errors(bom):
        return f"{error.json_path}: {error.message}"
    parts = [bom["metadata"]["component"]] + bom["components"]
    known = [part["bom-ref"] for part in parts]
    if len(set(known)) != len(known):
        return "two components have one name"
    for depends in bom["dependencies"]:
        for name in [depends["ref"]] + depends["dependsOn"]:
            if name not in known:
                return f"{name} is not among the components"
    return None


text = json.load(open(sys.argv[1], encoding="utf-8"))
# A check that accepts everything would accept this, too.
if fault(dict(text, specVersion=1)) is None or fault(dict(text, components=[])) is None:
    sys.exit("the check finds no fault where there is one")
found = fault(text)
if found:
    sys.exit(f"{sys.argv[1]}: {found}")
print(f"{len(text['components'])} components, valid CycloneDX {text['specVersion']}")
