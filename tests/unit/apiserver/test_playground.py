"""The playground as a process: it says where it is, serves, and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from kaisched.cli.app import run_line
from kaisched_apiserver import playground
from tests.contract.apiserver.client import client_of
from tests.waiting import until


def descendants(pid):
    """Return the numbers of all processes below one."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *descendants(child)]
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def start(tmp_path):
    running = []

    def run(*options, scheduler="--no-scheduler"):
        path = tmp_path / "kubeconfig"
        line = [sys.executable, "-m", "kaisched", "playground", "--kubeconfig", str(path)]
        process = subprocess.Popen(
            [*line, scheduler, *options],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        running.append(process)
        told = ""
        while "\nnext  " not in told:
            told += process.stdout.readline()
        return process, path, told

    yield run
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_serves_until_it_is_told_to_end(start, number):
    process, path, told = start("--nodes", "3", "--gpus-per-node", "4")
    server = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]
    assert f"API server  {server}" in told
    assert f"export KUBECONFIG={path}" in told
    assert "nodes       3 with 4 GPUs each" in told
    assert "pods stay pending" in told
    nodes = client_of(path).get("/api/v1/nodes").body["items"]
    assert [it["status"]["capacity"]["nvidia.com/gpu"] for it in nodes] == ["4"] * 3
    process.send_signal(number)
    assert process.wait(60) == 0
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_no_scheduler_outlives_it(start, number):
    """Its scheduler has children of its own: that which serves, and that which keeps the lease."""
    process, _, _ = start("--nodes", "1", scheduler="--scheduler")
    until(lambda: len(descendants(process.pid)) >= 3)
    left = descendants(process.pid)
    process.send_signal(number)
    process.wait(60)
    until(lambda: not any(map(is_alive, left)))


def test_it_says_where_the_page_is(capsys, tmp_path):
    class Server:
        url = "http://127.0.0.1:1"

    playground._print_addresses(
        Server, tmp_path / "k", playground.Size(1, 8), 8090, tmp_path / "log"
    )
    lines = capsys.readouterr().out.splitlines()
    assert f"its log     {tmp_path}/log" in lines
    assert lines[-2:] == [
        "page        http://localhost:8090/",
        f"next        export KUBECONFIG={tmp_path}/k; kubectl get nodes",
    ]


def test_the_page_is_elsewhere_where_its_port_is_taken(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(playground, "_VIEW_PORT", taken.getsockname()[1])
        assert playground._free_port() not in {0, playground._VIEW_PORT}


def test_without_the_extra_the_command_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "kaisched_apiserver.playground", None)
    assert run_line(["playground"]) == 2
    assert "run: pip install 'kaisched[playground]'" in capsys.readouterr().err


def test_a_kubeconfig_that_cannot_be_written_is_an_error(tmp_path, capsys):
    path = tmp_path / "no-such-folder" / "kubeconfig"
    assert run_line(["playground", "--no-scheduler", "--kubeconfig", str(path)]) == 2
    assert f"kaisched: {path}: --kubeconfig: cannot be written" in capsys.readouterr().err


def test_a_scheduler_is_a_process_that_knows_the_kubeconfig(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(
        playground.subprocess, "Popen", lambda line, **options: started.append((line, options))
    )
    playground._start_scheduler(tmp_path / "kubeconfig", 8083, tmp_path / "log")
    line, options = started[0]
    assert line[1] == "-c"
    assert line[3:6] == ["run", "--cluster", "kubernetes"]
    assert options["env"]["KUBECONFIG"] == str(tmp_path / "kubeconfig")
    assert options["stderr"].name == str(tmp_path / "log")


def test_a_scheduler_that_ends_is_told_of_once(capsys):
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    ended.wait()
    stopped = threading.Event()
    threading.Timer(1.5, stopped.set).start()
    playground._wait(stopped, ended)
    assert capsys.readouterr().err.count("the scheduler has ended with exit code 3") == 1


def test_a_scheduler_is_told_to_end():
    running = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    playground._stop(running)
    assert running.poll() == -signal.SIGTERM
    playground._stop(running)
    playground._stop(None)
