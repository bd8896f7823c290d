"""A real server plays what can be played with it, by a command where it needs one."""

import pytest

from tests.chaos.faults import LANES, Faults
from tests.chaos.objects import kubeconfig
from tests.chaos.stage import BY_COMMAND, Real


class NoFront:
    """What is asked of the front is of no interest here."""

    def __init__(self, *_):
        self.url = "http://127.0.0.1:1"

    def close(self):
        pass


@pytest.fixture
def real(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.chaos.stage.Away", NoFront)
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig("http://127.0.0.1:1", "a-token"), encoding="utf-8")
    return lambda command="": Real(file, command)


def faults_on(stage, *, is_fixed=False):
    return Faults(stage, None, None, None, None, None, 0, is_fixed=is_fixed)


def test_a_command_is_called_with_what_is_to_be_done(real, tmp_path):
    log = tmp_path / "log"
    script = tmp_path / "a server"
    script.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\n', encoding="utf-8")
    script.chmod(0o700)
    stage = real(f'"{script}" it')
    for act in (stage.down, stage.up, stage.pause, stage.go_on):
        act()
    assert log.read_text(encoding="utf-8").splitlines() == [
        "it down",
        "it up",
        "it pause",
        "it go-on",
    ]
    assert faults_on(stage).left_out == []


@pytest.mark.parametrize("is_fixed", [False, True])
def test_without_a_command_only_what_needs_it_is_left_out(real, is_fixed):
    faults = faults_on(real(), is_fixed=is_fixed)
    assert faults.left_out == sorted(BY_COMMAND)
    assert set(LANES["server"]) >= BY_COMMAND
    assert set(faults.lanes["server"]) == set(LANES["server"]) - BY_COMMAND
    assert faults.lanes["objects"]
