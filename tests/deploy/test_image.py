"""What the Dockerfile says: pinned, hash-locked, two stages, not root, and small."""

import json
import os
import re
import runpy
import subprocess
import sys
import sysconfig

import pytest

from tests.deploy.manifests import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SLIM = ROOT / "deploy" / "image" / "slim.py"
SBOM = ROOT / "deploy" / "image" / "sbom.py"
DIGEST = "sha256:" + "0a" * 32


def statements():
    """Each statement as (word, rest), with continued lines joined and comments left out."""
    text = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [
        (word, rest) for line in lines if line.strip() for word, _, rest in [line.partition(" ")]
    ]


def stage(number):
    """The statements of a stage, its FROM included."""
    starts = [at for at, (word, _) in enumerate(statements()) if word == "FROM"]
    return statements()[starts[number] : [*starts, None][number + 1]]


def test_there_are_two_stages_on_one_pinned_base():
    base, release, *again = [rest for word, rest in statements() if word == "ARG"]
    assert (release, again) == ("RELEASE=0", ["BASE", "RELEASE", "BASE"])
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base)
    bases = [rest.split()[0] for word, rest in statements() if word == "FROM"]
    assert bases == ["${BASE}", "${BASE}"]
    assert "latest" not in DOCKERFILE


@pytest.mark.fault("I131")
@pytest.mark.parametrize(
    ("release", "base", "is_built"),
    [
        ("0", "python:3.13.15-slim-bookworm", True),
        ("1", f"python:3.13.15-slim-bookworm@{DIGEST}", True),
        ("1", f"registry.example:5000/python@{DIGEST}", True),
        ("1", "python:3.13.15-slim-bookworm", False),
        ("1", "python@sha256:0a", False),
        ("1", f"@{DIGEST}", False),
        ("yes", "python:3.13.15-slim-bookworm", False),
    ],
)
def test_a_release_is_built_on_a_base_that_cannot_change(release, base, is_built):
    first = next(rest for word, rest in stage(0) if word == "RUN")
    run = subprocess.run(
        ["sh", "-c", first],
        env={"PATH": os.environ["PATH"], "RELEASE": release, "BASE": base},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (run.returncode == 0) is is_built
    assert run.stderr == (
        ""
        if is_built
        else f"a release needs a base with its digest, BASE=name@sha256:..., not {base}\n"
    )
    # Nothing is fetched or made before it.
    words = [word for word, _ in stage(0)]
    assert words[: words.index("RUN")] == ["FROM", "ARG", "ARG"]
    labels = dict(rest.split("=", 1) for word, rest in stage(1) if word == "LABEL")
    assert labels["org.opencontainers.image.base.name"] == "${BASE}"


def test_what_is_installed_is_locked():
    installs = re.findall(r"pip install ([^&\n]*)", DOCKERFILE)
    assert installs
    for words in installs:
        assert "--require-hashes" in words or "--no-deps" in words
    for name in re.findall(r"-r (\S+)", DOCKERFILE):
        assert (ROOT / name).is_file()
    assert not re.search(r"apt-get|curl|wget|\bADD\b|https?://", DOCKERFILE)


def test_what_is_copied_is_there_and_nothing_else_is():
    for word, rest in stage(0):
        if word == "COPY":
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)
    copies = [rest for word, rest in stage(1) if word == "COPY"]
    assert copies == ["--from=build /opt/kaisched /opt/kaisched"]
    assert all(word != "RUN" for word, _ in stage(1))


def test_it_does_not_run_as_root_and_says_so_with_a_number():
    (user,) = [rest for word, rest in stage(1) if word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_it_writes_nothing_and_starts_one_process():
    (variables,) = [rest for word, rest in stage(1) if word == "ENV"]
    assert "PYTHONDONTWRITEBYTECODE=1" in variables
    (entry,) = [rest for word, rest in stage(1) if word == "ENTRYPOINT"]
    assert entry == '["kaisched"]'


def test_no_secret_is_in_it():
    assert not re.search(r"password|secret|token|_key", DOCKERFILE, re.IGNORECASE)


@pytest.fixture
def installation(tmp_path):
    packages = tmp_path / "lib" / "python3.13" / "site-packages"
    files = {
        "kubernetes/__init__.py": "",
        "kubernetes/aio/client.py": "",
        "kubernetes/client/__init__.py": "",
        "kubernetes/client/api/__init__.py": "",
        "kubernetes/client/api/core.py": '"""Very long."""\nVALUE = 7\n',
        "numpy/tests/test_it.py": "",
        "numpy/it.pyi": "",
        "aiohttp_retry/it.py": "",
        "aiohttp_retry-2.9.dist-info/METADATA": "",
        "kaisched/__init__.py": "",
        "kaisched-0.1.dist-info/METADATA": "",
    }
    for name, text in files.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    return tmp_path


def test_slimming_leaves_what_is_used(installation):
    runpy.run_path(str(SLIM))["slim"](installation)
    packages = installation / "lib" / "python3.13" / "site-packages"
    left = {
        path.relative_to(packages).as_posix()
        for path in packages.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert left == {
        "kubernetes/__init__.py",
        "kubernetes/client/__init__.py",
        "kubernetes/client/api/__init__.pyc",
        "kubernetes/client/api/core.pyc",
        "kaisched/__init__.py",
        "kaisched-0.1.dist-info/METADATA",
    }
    code = "from kubernetes.client.api import core; print(core.VALUE, core.__doc__)"
    run = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = [{str(packages)!r}]; {code}"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert run.stdout == "7 None\n"


def test_an_installation_that_is_not_as_it_should_be_stops_the_build(installation):
    (installation / "lib/python3.13/site-packages/kaisched/wrong.py").write_text("def")
    with pytest.raises(SystemExit, match="cannot be compiled"):
        runpy.run_path(str(SLIM))["slim"](installation)


# -- what is in it -------------------------------------------------------------------------------


def listed(packages, *more):
    return subprocess.run(
        [sys.executable, str(SBOM), str(packages), *map(str, more)],
        capture_output=True,
        check=False,
        text=True,
    )


def package(folder, name, version, *lines):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, ""])
    (info / "METADATA").write_text(text, encoding="utf-8")


@pytest.fixture
def packages(tmp_path):
    package(tmp_path, "kaisched", "0.1.0", "License-Expression: Apache-2.0")
    package(tmp_path, "exact", "1", "License-Expression: MIT AND 0BSD", "License: wrong")
    package(tmp_path, "Old.Style", "2", "Classifier: License :: OSI Approved :: MIT License")
    package(tmp_path, "whole-text", "3", "License: BSD-3-Clause", "        Copyright somebody")
    return tmp_path


def test_what_is_installed_is_listed_with_its_licences(packages):
    run = listed(packages)
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/kaisched@0.1.0"
    assert {it["purl"]: it["licenses"] for it in document["components"]} == {
        "pkg:pypi/exact@1": [{"expression": "MIT AND 0BSD"}],
        "pkg:pypi/old-style@2": [{"license": {"name": "MIT License"}}],
        "pkg:pypi/whole-text@3": [{"license": {"name": "BSD-3-Clause"}}],
    }
    assert run.stdout == listed(packages).stdout


def test_a_package_without_a_licence_stops_the_build(packages):
    package(packages, "nameless", "4")
    run = listed(packages)
    assert (run.returncode, run.stderr) == (1, "nameless 4 does not say its licence\n")


def test_with_a_lock_what_it_names_is_listed_and_must_be_there(packages, tmp_path):
    lock = tmp_path / "some.lock"
    lock.write_text("exact==1 \\\n    --hash=x\nelsewhere==1 ; sys_platform == 'x' \\\n")
    assert [it["name"] for it in json.loads(listed(packages, lock).stdout)["components"]] == [
        "exact"
    ]
    lock.write_text("exact==1 \\\ngone==1 \\\n")
    assert listed(packages, lock).stderr == f"of {lock} is not installed: gone\n"


def test_every_dependency_of_a_checkout_says_its_licence():
    lock = ROOT / "requirements" / "runtime.lock"
    run = listed(sysconfig.get_path("purelib"), lock)
    assert run.returncode == 0, run.stderr
    pins = re.findall(r"^([\w.-]+)==\S+ \\", lock.read_text(encoding="utf-8"), re.MULTILINE)
    names = {it["purl"].partition("@")[0] for it in json.loads(run.stdout)["components"]}
    assert {f"pkg:pypi/{name}" for name in pins} <= names


def test_the_image_has_the_list_of_what_is_left_in_it():
    (run,) = [rest for word, rest in stage(0) if "sbom.py" in rest and word == "RUN"]
    assert run.index("slim.py") < run.index("sbom.py")
    assert "> /opt/kaisched/sbom.cdx.json" in run
