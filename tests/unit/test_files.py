"""A file is replaced whole, or stays what it was."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from kaisched.files import replace_file, replace_files


def test_a_file_is_replaced_and_keeps_its_rights(tmp_path):
    path = tmp_path / "a"
    replace_file(path, b"one")
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    replace_file(path, b"two")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_leads_on_to_what_is_replaced(tmp_path):
    path, link = tmp_path / "a", tmp_path / "b"
    path.write_text("one")
    link.symlink_to(path)
    replace_file(link, b"two")
    assert (link.is_symlink(), path.read_text()) == (True, "two")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_and_left_as_it_is(tmp_path, kind):
    path = tmp_path / "a"
    {
        "pipe": os.mkfifo,
        "device": lambda it: it.symlink_to("/dev/null"),
        "folder": lambda it: it.mkdir(),
    }[kind](path)
    before = path.stat().st_mode
    with pytest.raises(OSError, match=r"no file|directory"):
        replace_file(path, b"two")
    assert (path.stat().st_mode, list(tmp_path.iterdir())) == (before, [path])


def test_one_that_cannot_be_written_leaves_all_as_they_were(tmp_path):
    first, second = tmp_path / "a", tmp_path / "folder"
    first.write_text("one")
    second.mkdir()
    with pytest.raises(IsADirectoryError):
        replace_files({first: b"two", second: b"two"})
    assert first.read_text() == "one"
    assert sorted(tmp_path.iterdir()) == [first, second]


COMMANDS = {
    "snapshot": ["snapshot", "take", "-f", "{manifests}", "{folder}/now.json"],
    "crds": ["config", "crds", "--into", "{folder}"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_destroys_nothing(tmp_path, name):
    """A limit of one block on files stands for the disk: writing fails in the middle."""
    folder, manifests = tmp_path / "out", tmp_path / "nodes.yaml"
    folder.mkdir()
    nodes = "".join(
        f"{{apiVersion: v1, kind: Node, metadata: {{name: n{at}}}}}\n---\n" for at in range(50)
    )
    manifests.write_text(nodes)
    words = [it.format(manifests=manifests, folder=folder) for it in COMMANDS[name]]
    line = [sys.executable, "-m", "kaisched", *words]
    assert subprocess.run(line, capture_output=True, check=False).returncode in {0, 1}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert max(map(len, before.values())) > 1024
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "-", *line]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode not in {0, 1, -signal.SIGXFSZ}
    assert "File too large" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
