"""What the Dockerfile says: pinned, hash-locked, two stages, not root, and small."""

import re
import runpy
import subprocess
import sys

import pytest

from tests.deploy.manifests import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SLIM = ROOT / "deploy" / "image" / "slim.py"


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
    (base,) = [rest for word, rest in statements() if word == "ARG"]
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base)
    bases = [rest.split()[0] for word, rest in statements() if word == "FROM"]
    assert bases == ["${BASE}", "${BASE}"]
    assert "latest" not in DOCKERFILE


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
