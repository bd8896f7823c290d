"""The manifests as they are written and as they are rendered."""

import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "kaisched"
KUSTOMIZE = DEPLOY / "kustomize"


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


def read(path):
    return documents((DEPLOY / path).read_text(encoding="utf-8"))


def written():
    """Every object in the files of kustomize and monitoring, base and components."""
    folders = (KUSTOMIZE / "base", KUSTOMIZE / "components", DEPLOY / "monitoring", DEPLOY / "crds")
    return [
        obj
        for folder in folders
        for path in sorted(folder.rglob("*.yaml"))
        for obj in documents(path.read_text(encoding="utf-8"))
        if "kustomize.config.k8s.io" not in obj.get("apiVersion", "") and "metadata" in obj
    ]


def of_kind(objects, kind):
    return [obj for obj in objects if obj["kind"] == kind]


def key_of(obj):
    meta = obj["metadata"]
    return f"{obj['kind']} {meta.get('namespace', '')}/{meta['name']}"


def _run(*words):
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed; deploy/README.md says how to get it")
    run = subprocess.run(words, capture_output=True, check=False, text=True)
    assert run.returncode == 0, run.stderr
    return [_readable(obj) for obj in documents(run.stdout)]


@cache
def kustomized(overlay, *components):
    """The objects that kustomize makes of an overlay, and of other components in deploy."""
    if not components:
        return _run("kustomize", "build", str(KUSTOMIZE / overlay))
    with tempfile.TemporaryDirectory() as folder:
        here = Path(os.path.relpath(DEPLOY, Path(folder).resolve()))
        body = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [str(here / "kustomize" / overlay)],
            "components": [str(here / it) for it in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(json.dumps(body), encoding="utf-8")
        return _run("kustomize", "build", folder)


@cache
def templated(*settings, namespace="kaisched", serves=("monitoring.coreos.com/v1",)):
    """The objects that helm makes of the chart, definitions included."""
    words = [word for setting in settings for word in ("--set", setting)]
    versions = [word for version in serves for word in ("--api-versions", version)]
    return helm("--include-crds", *words, *versions, namespace=namespace)


def helm(*words, namespace="kaisched"):
    """The objects that helm makes of the chart with these flags, without those of `helm test`."""
    return rendered("--skip-tests", *words, namespace=namespace)


@cache
def rendered(*words, namespace="kaisched"):
    """The same, with those of `helm test`."""
    return _run(
        *("helm", "template", "kaisched", str(CHART), "--namespace", namespace),
        *("--kube-version", "1.33", *words),
    )


def _readable(obj):
    """The object with YAML and JSON in a ConfigMap read, so that layout does not count."""
    if obj["kind"] != "ConfigMap":
        return obj
    readers = {".yaml": yaml.safe_load, ".json": json.loads}
    data = {name: readers[Path(name).suffix](text) for name, text in obj["data"].items()}
    return {**obj, "data": data}
