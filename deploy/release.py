"""Makes what a release consists of: ``python deploy/release.py DIST SITE-PACKAGES``.

After `make wheel`. Beside the wheels: the list of parts, the chart, the image, sums of all files,
and a signature of the sums. What lacks a program or a name is said and left out; nothing is sent
anywhere unless ``REGISTRY`` names a place.

============== ===================================================================================
`IMAGE_BASE`   the base of the image with its digest, python:...@sha256:...
`SIGN`         a private key of ssh-keygen, for the sums
`COSIGN_KEY`   a private key of cosign, for what is sent to a registry
`REGISTRY`     where chart and image are sent, such as registry.example/team
============== ===================================================================================
"""

# ruff: noqa: INP001, T201, S603 - a script, part of no package, which runs programs and says so

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = ROOT / "deploy" / "helm" / "kaisched"
SUMS: Final = "SHA256SUMS"
NAMESPACE: Final = "kaisched-release"
"""What a signature is for, so that it stands for nothing else."""


class LeftOutError(Exception):
    """A step that cannot be taken here, and why."""


def version() -> str:
    """Return the version of the package."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def run(*words: str | Path, log: Path | None = None) -> None:
    """Run a program that is there, and end if it fails."""
    program = shutil.which(words[0])
    if program is None:
        raise LeftOutError(f"{words[0]} is not installed")
    if log is None:
        subprocess.run([program, *words[1:]], cwd=ROOT, check=True)
    else:
        with log.open("wb") as file:
            subprocess.run([program, *words[1:]], cwd=ROOT, check=True, stdout=file)


def wanted(given: Mapping[str, str], name: str) -> str:
    """Return what a variable says."""
    if not given.get(name):
        raise LeftOutError(f"{name} is not set")
    return given[name]


def parts(dist: Path, packages: Path) -> str:
    """Write the list of what is installed at run time, with licences."""
    place = dist / f"kaisched-{version()}.cdx.json"
    lock = ROOT / "requirements" / "runtime.lock"
    run(sys.executable, ROOT / "deploy" / "image" / "sbom.py", packages, lock, log=place)
    return place.name


def chart(dist: Path) -> str:
    """Pack the chart."""
    run("helm", "package", CHART, "--destination", dist)
    return f"kaisched-{version()}.tgz"


def image(dist: Path, given: Mapping[str, str]) -> str:
    """Build the image as an archive of OCI."""
    if shutil.which("docker") is None:
        raise LeftOutError("docker is not installed")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:  # noqa: S607
        raise LeftOutError("docker does not run")
    base = wanted(given, "IMAGE_BASE")
    place = dist / f"kaisched-{version()}.oci.tar"
    words = ("--build-arg", "RELEASE=1", "--build-arg", f"BASE={base}")
    run("docker", "buildx", "build", *words, "--output", f"type=oci,dest={place}", ROOT)
    return place.name


def sums(dist: Path) -> str:
    """Write the sums of all files, as `sha256sum --check` reads them."""
    files = sorted(it for it in dist.iterdir() if it.is_file() and not it.name.startswith(SUMS))
    lines = [f"{hashlib.sha256(it.read_bytes()).hexdigest()}  {it.name}\n" for it in files]
    (dist / SUMS).write_text("".join(lines), encoding="utf-8")
    return SUMS


def signature(dist: Path, given: Mapping[str, str]) -> str:
    """Sign the sums, and with them every file."""
    (dist / f"{SUMS}.sig").unlink(missing_ok=True)
    run("ssh-keygen", "-Y", "sign", "-f", wanted(given, "SIGN"), "-n", NAMESPACE, dist / SUMS)
    return f"{SUMS}.sig"


def sent(dist: Path, given: Mapping[str, str]) -> str:
    """Send chart and image to a registry, and sign what is there."""
    place = wanted(given, "REGISTRY").rstrip("/")
    is_here = place.startswith(("localhost:", "127.0.0.1:"))
    plain = ["--plain-http"] if is_here else []
    run("helm", "push", dist / f"kaisched-{version()}.tgz", f"oci://{place}/charts", *plain)
    told = [f"{place}/charts/kaisched:{version()}"]
    archive = dist / f"kaisched-{version()}.oci.tar"
    if archive.exists():
        there = f"{place}/kaisched:{version()}"
        plain = ["--dest-tls-verify=false"] if is_here else []
        run("skopeo", "copy", *plain, f"oci-archive:{archive}", f"docker://{there}")
        told.append(there)
    if key := given.get("COSIGN_KEY"):
        for it in told:
            run("cosign", "sign", "--yes", "--key", key, it)
    return " ".join(told)


def steps(dist: Path, packages: Path, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Take every step; yield its name with what it made, or why it was left out."""
    each = {
        "list of parts": lambda: parts(dist, packages),
        "chart": lambda: chart(dist),
        "image": lambda: image(dist, given),
        "sums": lambda: sums(dist),
        "signature": lambda: signature(dist, given),
        "registry": lambda: sent(dist, given),
    }
    for name, take in each.items():
        try:
            yield name, take()
        except LeftOutError as error:
            yield name, f"left out: {error}"


def main(dist: Path, packages: Path) -> None:
    """Print a line for each step."""
    for wheel in sorted(dist.glob("*.whl")):
        print(f"{'wheel':14} {wheel.name}")
    for name, told in steps(dist, packages, os.environ):
        print(f"{name:14} {told}", flush=True)


if __name__ == "__main__":
    main(*(Path(it).resolve() for it in sys.argv[1:]))
