"""What a release consists of: each step makes its file, or says what it lacks."""

import importlib.util
import os
import shutil
import subprocess

import pytest

from tests.deploy.manifests import DEPLOY, ROOT

SPEC = importlib.util.spec_from_file_location("release", DEPLOY / "release.py")
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)

VERSION = release.version()
PROGRAMS = ("helm", "docker", "skopeo", "cosign")


@pytest.fixture
def dist(tmp_path):
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / f"kaisched-{VERSION}-py3-none-any.whl").write_bytes(b"wheel")
    return folder


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Stand-ins that write down how they are called, and make the file that they are asked for."""
    place, log = tmp_path / "bin", tmp_path / "calls"
    place.mkdir()
    log.touch()
    made = (
        f'for it; do case "$it" in *dest=*) : > "${{it##*dest=}}";; esac; done; echo "$@" >> {log}'
    )
    for name in PROGRAMS:
        (place / name).write_text(f'#!/bin/sh\nset -- {name} "$@"; {made}\n')
        (place / name).chmod(0o755)
    (place / "ssh-keygen").symlink_to(shutil.which("ssh-keygen") or place / "none")
    monkeypatch.setenv("PATH", os.pathsep.join((str(place), "/bin", "/usr/bin")))
    return lambda: log.read_text(encoding="utf-8").splitlines()


def test_what_lacks_a_program_or_a_name_is_left_out_and_said(dist, monkeypatch):
    monkeypatch.setattr(release, "parts", lambda *_: "parts")
    monkeypatch.setenv("PATH", str(dist))
    told = dict(release.steps(dist, dist, {}))
    assert told["chart"] == "left out: helm is not installed"
    assert told["image"] == "left out: docker is not installed"
    assert told["sums"] == "SHA256SUMS"
    assert told["signature"] == "left out: SIGN is not set"
    assert told["registry"] == "left out: REGISTRY is not set"


def test_nothing_is_sent_anywhere_unless_a_registry_is_named(dist, calls, monkeypatch):
    monkeypatch.setattr(release, "parts", lambda *_: "parts")
    told = dict(release.steps(dist, dist, {"IMAGE_BASE": "python@sha256:1"}))
    assert told["image"] == f"kaisched-{VERSION}.oci.tar"
    lines = calls()
    assert [line for line in lines if " push " in line or "skopeo" in line] == []
    build = next(line for line in lines if line.startswith("docker buildx"))
    assert "RELEASE=1" in build
    assert "BASE=python@sha256:1" in build


def test_an_image_of_a_release_needs_its_base(dist, calls, monkeypatch):
    monkeypatch.setattr(release, "parts", lambda *_: "parts")
    assert dict(release.steps(dist, dist, {}))["image"] == "left out: IMAGE_BASE is not set"


def test_chart_and_image_go_to_the_registry_and_are_signed_there(dist, calls, monkeypatch):
    monkeypatch.setattr(release, "parts", lambda *_: "parts")
    given = {"IMAGE_BASE": "b@sha256:1", "REGISTRY": "r.example/team/", "COSIGN_KEY": "k"}
    told = dict(release.steps(dist, dist, given))
    places = [f"r.example/team/charts/kaisched:{VERSION}", f"r.example/team/kaisched:{VERSION}"]
    assert told["registry"].split() == places
    lines = calls()
    assert f"helm push {dist}/kaisched-{VERSION}.tgz oci://r.example/team/charts" in lines
    assert [it for it in lines if it.startswith("cosign")] == [
        f"cosign sign --yes --key k {place}" for place in places
    ]


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_the_sums_are_signed_and_hold(dist, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    release.sums(dist)
    assert release.signature(dist, {"SIGN": str(key)}) == "SHA256SUMS.sig"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    (tmp_path / "allowed").write_text(f"us {(tmp_path / 'key.pub').read_text()}")
    words = ["-Y", "verify", "-f", tmp_path / "allowed", "-I", "us", "-n", release.NAMESPACE]
    with (dist / "SHA256SUMS").open("rb") as sums:
        checked = subprocess.run(
            ["ssh-keygen", *words, "-s", dist / "SHA256SUMS.sig"],
            stdin=sums,
            capture_output=True,
            check=False,
        )
    assert checked.returncode == 0, checked.stderr


def test_the_makefile_says_how_it_is_run():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "release: wheel\n\t$(BIN)/python deploy/release.py dist" in text
