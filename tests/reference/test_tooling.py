"""The commands the README promises: they start anywhere, and say in one line what is missing.

Interpreters are stood in for by small shell scripts; nothing is installed, since `make -n` already
looks for an interpreter and stops where there is none that will do.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
VARIABLES = ("ARGS", "PYTHON", "UPGRADE", "VENV")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def interpreter(
    folder: Path, name: str, *, version: str = VERSION, has_ensurepip: bool = True
) -> Path:
    """A stand-in that answers what the Makefile asks; the real one does the rest."""
    ensurepip = "exit 0" if has_ensurepip else "echo Traceback >&2; exit 1"
    is_old = tuple(map(int, version.split("."))) < (3, 11)
    script = folder / name
    script.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f'  "import ensurepip") {ensurepip} ;;\n'
        f'  *"print("*) echo {version} ;;\n'
        f'  *"sys.exit("*) exit {int(is_old)} ;;\n'
        f'  *) exec "{sys.executable}" "$@" ;;\n'
        "esac\n"
    )
    script.chmod(0o755)
    return script


def make(
    folder: Path, *arguments: str, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Ask make what it would do for an environment that does not exist yet."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {*VARIABLES, "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [
            "make",
            "-n",
            "-C",
            str(ROOT),
            "--no-print-directory",
            f"VENV={folder / 'venv'}",
            *arguments,
        ],
        capture_output=True,
        check=False,
        env=environment,
        text=True,
    )


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "lock"])
@pytest.mark.parametrize(
    ("name", "package"),
    [("python3", "python3-venv"), ("python3.12", "python3.12-venv")],
)
def test_a_python_without_ensurepip_is_one_line(tmp_path, target, name, package):
    python = interpreter(tmp_path, name, version="3.12", has_ensurepip=False)
    run = make(tmp_path, f"PYTHON={python}", target)
    assert run.returncode != 0
    (line,) = (run.stdout + run.stderr).splitlines()
    assert f"apt-get install {package}." in line
    assert "Traceback" not in line
    assert not (tmp_path / "venv").exists()


def test_an_old_python_is_one_line(tmp_path):
    python = interpreter(tmp_path, "python3", version="3.9")
    run = make(tmp_path, f"PYTHON={python}", "test")
    assert run.returncode != 0
    (line,) = (run.stdout + run.stderr).splitlines()
    assert "is Python 3.9, 3.11 or later is needed; apt-get install python3.11" in line


def test_a_python_that_is_not_there_is_one_line(tmp_path):
    run = make(tmp_path, "PYTHON=no-such-python", "test")
    assert run.returncode != 0
    (line,) = (run.stdout + run.stderr).splitlines()
    assert "no-such-python was not found; apt-get install python3 python3-venv" in line


@pytest.mark.parametrize(
    "default", [{"version": "3.9"}, {"version": "3.11", "has_ensurepip": False}]
)
def test_another_python_is_found_where_the_default_one_will_not_do(tmp_path, default):
    interpreter(tmp_path, "python3", **default)
    interpreter(tmp_path, "python3.14", version="3.14")
    run = make(tmp_path, "test", path=tmp_path)
    assert run.returncode == 0, run.stderr
    assert f'python3.14 -m venv "{tmp_path / "venv"}"' in run.stdout


def test_a_python_that_was_asked_for_is_not_replaced(tmp_path):
    asked = interpreter(tmp_path, "python3.10", version="3.10")
    interpreter(tmp_path, "python3.14", version="3.14")
    run = make(tmp_path, f"PYTHON={asked}", "test", path=tmp_path)
    assert run.returncode != 0
    assert "python3.10 is Python 3.10" in run.stderr


def test_an_environment_of_somebody_else_is_not_deleted(tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").touch()
    for target in ("test", "clean"):
        run = make(tmp_path, target)
        assert run.returncode == 0, run.stderr
        assert "-m venv" not in run.stdout
        assert not re.search(r"^rm -rf .*venv", run.stdout, flags=re.MULTILINE)


def test_bytecode_is_kept_whatever_the_environment_says(tmp_path):
    """Else each process that a test starts compiles everything anew."""
    run = make(tmp_path, "--eval", "shown:\n\t+@env", "shown")
    assert run.returncode == 0, run.stderr
    assert "VENV=" in run.stdout
    assert "PYTHONDONTWRITEBYTECODE" not in run.stdout


def test_what_is_installed_is_not_installed_again(tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    for name in (".made-by-make", ".stamp-base", ".stamp-dev", ".stamp-package"):
        (tmp_path / "venv" / name).touch()
    run = make(tmp_path, "test")
    assert run.stdout.splitlines() == [
        f"{tmp_path}/venv/bin/python -m pytest -n 3 --dist worksteal "
    ]


def test_a_changed_lock_makes_the_environment_anew(tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    for name in (".made-by-make", ".stamp-base", ".stamp-dev", ".stamp-package"):
        (tmp_path / "venv" / name).touch()
        os.utime(tmp_path / "venv" / name, (0, 0))
    run = make(tmp_path, "demo")
    assert f'rm -rf "{tmp_path / "venv"}"' in run.stdout
    assert "--require-hashes -r requirements/runtime.lock" in run.stdout
    assert "dev.lock" not in run.stdout


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_pins_and_hashes_everything_and_names_no_place(lock):
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    assert "index-url" not in text
    pins = [line for line in text.splitlines() if re.match(r"[A-Za-z]", line)]
    assert pins
    assert all(re.match(r"\S+==\S+ .*\\$", pin) for pin in pins)
    blocks = re.split(r"^(?=[A-Za-z])", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in block for block in blocks)


OURS = {"kaisched-apiserver"}
"""Distributions that are built from this repository."""


def pinned(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([A-Za-z][\w.-]*)==(\S+)", text, flags=re.MULTILINE))


def named(requirements: list[str]) -> set[str]:
    names = [re.match(r"[\w.-]+", requirement) for requirement in requirements]
    return {re.sub(r"[-_.]+", "-", name.group()).lower() for name in names if name}


def test_the_locks_answer_the_project_file():
    """Forgetting `make lock` after adding a dependency shows here, not in a user's install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime, build, dev = pinned("runtime.lock"), pinned("build.lock"), pinned("dev.lock")
    assert named(project["project"]["dependencies"]) <= runtime.keys()
    assert named(project["dependency-groups"]["build"]) <= build.keys()
    assert named(project["dependency-groups"]["site"]) <= pinned("site.lock").keys()
    for extra in project["project"]["optional-dependencies"].values():
        assert named(extra) - OURS <= dev.keys()
    assert {**runtime, **build}.items() <= dev.items()


def test_the_documented_dependencies_are_the_declared_ones():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^- `([^`]+)`", page, flags=re.MULTILINE))
    declared = [
        *project["project"]["dependencies"],
        *chain.from_iterable(project["project"]["optional-dependencies"].values()),
        *project["dependency-groups"]["build"],
        *project["dependency-groups"]["lock"],
        *project["dependency-groups"]["site"],
    ]
    assert named(sorted(documented)) == named(declared)


def test_the_readme_starts_with_its_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(make \w+)", text, flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def ci(folder: Path, *, failing: str = "nothing") -> subprocess.CompletedProcess[str]:
    """Run the CI script with stand-ins for make, apt-get and a python3 without ensurepip."""
    stubs = {
        "apt-get": 'echo "apt-get $*"',
        "sudo": 'exec "$@"',
        "python3": "exit 1",
        "make": f'echo "make $*"; test "$1" != {failing} || {{ '
        'echo "make: *** [Makefile:1: $1] Error 1" >&2; exit 2; }',
    }
    for name, body in stubs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return subprocess.run(
        ["bash", str(ROOT / ".ci" / "run")],
        check=False,
        env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_ci_script_installs_what_is_missing_and_ends_with_the_tests(tmp_path):
    run = ci(tmp_path)
    assert run.returncode == 0, run.stdout
    assert "apt-get install -q -y --no-install-recommends python3-venv" in run.stdout
    steps = re.findall(r"^make (\w+)", run.stdout, flags=re.MULTILINE)
    assert [step for step in steps if step != "example"] == [
        "format",
        "lint",
        "types",
        "imports",
        "spelling",
        "site",
        "chaos",
        "sharing",
        "claims",
        "test",
    ]
    assert run.stdout.splitlines()[-1] == "make test"


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("failing", ["lint", "test"])
def test_the_ci_script_fails_with_any_step_and_still_ends_with_the_tests(tmp_path, failing):
    run = ci(tmp_path, failing=failing)
    assert run.returncode != 0
    assert run.stdout.splitlines()[-1] == "make test"
