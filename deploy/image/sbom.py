"""Lists what is installed, with licences, as CycloneDX: ``python sbom.py SITE-PACKAGES [LOCK]``.

With a lock file, only what it names. What has no licence stops the build.
"""

# ruff: noqa: INP001 - a script, part of no package

import json
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

OURS = "kaisched"
_LONGEST_NAME = 80
"""A longer one is the whole text of a licence."""


def licences(distribution: Distribution) -> list[dict]:
    """Return the licences of a package, the most exact way it tells them."""
    told = distribution.metadata
    expression = told.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    names = [
        name.rpartition(" :: ")[2]
        for name in told.get_all("Classifier") or []
        if name.startswith("License :: ") and name != "License :: OSI Approved"
    ]
    text = (told.get("License") or "").strip()
    if not names and text:
        # Of a whole text, the first line is its name.
        names = [text.splitlines()[0].strip()[:_LONGEST_NAME]]
    if not names:
        raise SystemExit(f"{told['Name']} {distribution.version} does not say its licence")
    return [{"license": {"name": name}} for name in names]


def component(distribution: Distribution, kind: str = "library") -> dict:
    """Return the entry of one package."""
    name = distribution.metadata["Name"]
    purl = f"pkg:pypi/{plain(name)}@{distribution.version}"
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": distribution.version,
        "purl": purl,
        "licenses": licences(distribution),
    }


def plain(name: str) -> str:
    """Return a name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sbom(packages: Path, lock: Path | None = None) -> dict:
    """Return the list of what is installed in a folder."""
    found = {plain(it.metadata["Name"]): it for it in distributions(path=[str(packages)])}
    if OURS not in found:
        raise SystemExit(f"{OURS} is not installed in {packages}")
    ours = found.pop(OURS)
    if lock is not None:
        pins = re.findall(r"^([\w.-]+)==(\S+)( ;)?", lock.read_text(encoding="utf-8"), re.MULTILINE)
        missing = [name for name, _, marker in pins if not marker and plain(name) not in found]
        if missing:
            raise SystemExit(f"of {lock} is not installed: {', '.join(missing)}")
        found = {plain(name): found[plain(name)] for name, *_ in pins if plain(name) in found}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(ours, "application")},
        "components": [component(found[name]) for name in sorted(found)],
    }


if __name__ == "__main__":
    print(json.dumps(sbom(*map(Path, sys.argv[1:])), indent=1))  # noqa: T201 - what it is for
