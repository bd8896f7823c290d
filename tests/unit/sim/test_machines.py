"""Runs on other machines: two worker processes of a scheduler on this one, started once."""

import gc
import os
import signal
import socket
import sys
import time
import warnings
from importlib.util import find_spec

import pytest

from kaisched.cli.app import run_line
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.sim import machines as module
from kaisched.sim.machines import Machines, UnwantedError, end_if_unwanted, environment
from kaisched.sim.output.files import Order, carry_out, result_of
from kaisched.sim.output.files import json_of as json_of_run
from kaisched.sim.output.tuning import json_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import read_scenario
from kaisched.sim.tuning import sweep
from tests.waiting import until

if find_spec("distributed") is None:
    pytest.skip("the extra dask is not installed", allow_module_level=True)

JOBS = [
    {"queue": "a", "arrivals": {"backlog": 2}, "gpus": 4, "duration": {"exponential": "40m"}},
    {"queue": "b", "arrivals": {"poissonPerHour": 1}, "gpus": 2, "duration": "1h"},
]
SCENARIO = """
name: {name}
time: {{duration: 6h}}
nodes: [{{count: 2, gpus: 4}}]
queues: [{{name: a}}, {{name: b}}]
jobs: [{{queue: a, arrivals: {{backlog: 2}}, gpus: 4, duration: {{exponential: 40m}}}}]
shardFile: shard.yaml
"""
SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: mine}
spec: {minRuntime: {reclaimMinRuntime: 1h}}
"""


def local_cluster(**wanted):
    """Start a cluster, at the third try at the latest.

    Its thread has ten seconds to start. What is left of former clusters is deleted before, here:
    in that thread it would wait for itself.
    """
    from distributed import LocalCluster

    for is_last in (False, False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of one that did not start
            gc.collect()
        try:
            return LocalCluster(dashboard_address="127.0.0.1:0", **wanted)
        except AssertionError:
            if is_last:
                raise
    return None


@pytest.fixture(scope="module")
def cluster():
    """Two workers; one that ends is started again, at another address."""
    with local_cluster(n_workers=2, threads_per_worker=1, memory_limit=0) as running:
        yield running


@pytest.fixture
def address(cluster):
    until(lambda: cluster.scheduler.workers)
    return cluster.scheduler_address


@pytest.fixture
def machines(address):
    with Machines(address, print) as connected:
        yield connected


def doubled(number):
    return 2 * number, os.getpid()


def at_its_own_pace(number):
    time.sleep(0.05 * (number % 2))
    return number


def test_results_are_in_order_and_come_from_several_processes(machines):
    found = list(machines.each(doubled, range(9)))
    assert [double for double, _ in found] == list(range(0, 18, 2))
    assert os.getpid() not in {process for _, process in found}
    assert list(machines.each(at_its_own_pace, range(5))) == list(range(5))
    assert list(machines.each(doubled, [])) == []


def test_a_sweep_on_machines_is_that_of_one_process_to_the_byte(machines, scenario):
    parameters = {"shard.minRuntime.reclaimMinRuntime": ["0s", "2h"], "seed": [1, 2]}
    read = scenario(jobs=JOBS, tune={"parameters": parameters})
    heard = []
    assert json_of(sweep(read, 1, heard.append, machines)) == json_of(sweep(read, 1))
    assert heard == [1, 2, 3, 4]


@pytest.fixture
def files(tmp_path):
    """Two scenarios, which name the file of their shard."""
    (tmp_path / "shard.yaml").write_text(SHARD)
    paths = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for path in paths:
        path.write_text(SCENARIO.format(name=path.stem))
    return paths


def test_a_worker_needs_none_of_the_files(machines, files):
    here = [json_of_run(carry_out_here(read_scenario(path))) for path in files]
    orders = [Order(read_scenario(path), None, is_checked=True) for path in files]
    for path in files[0].parent.iterdir():
        path.unlink()
    assert [json_of_run(result) for result, _ in machines.each(carry_out, orders)] == here


def test_a_comparison_prints_and_writes_the_same_bytes(address, files, tmp_path, capsys):
    for out, more in (("here", ()), ("there", ("--dask", address))):
        line = ["simulate", "--compare", *map(str, files), "--out", str(tmp_path / out), *more]
        assert run_line(line) == 0
    here, there = (sorted((tmp_path / out).rglob("*.*")) for out in ("here", "there"))
    assert [path.name for path in here] == [path.name for path in there]
    assert [path.read_bytes() for path in here] == [path.read_bytes() for path in there]
    printed = capsys.readouterr().out
    assert printed[: len(printed) // 2] == printed[len(printed) // 2 :]


def lost_once(marker):
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "made"


def test_what_a_lost_worker_was_at_is_done_again(machines, tmp_path):
    markers = [tmp_path / "none", tmp_path / "one", tmp_path / "none"]
    markers[0].touch()
    assert list(machines.each(lost_once, markers)) == ["made"] * 3
    assert markers[1].exists()


def test_a_call_that_ends_every_worker_is_told(machines, cluster, address, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(ClusterUnavailable) as caught:
        list(machines.each(lost_once, [tmp_path / "marker"]))
    assert str(caught.value) == (
        f"the dask scheduler at {address} lost several workers at one call; "
        "look into the workers' logs; they may need more memory"
    )


def test_workers_with_another_version_are_told_before_anything_is_sent(address, monkeypatch):
    ours = {**environment(), "kaisched": "9.9", "numpy": "9.8"}
    monkeypatch.setattr(module, "environment", lambda: ours)
    there = environment()["kaisched"]
    with pytest.raises(ConfigError) as caught, Machines(address, print):
        pass
    assert f"has kaisched {there}, this machine has kaisched 9.9" in str(caught.value)
    assert "--dask: worker tcp://127.0.0.1:" in str(caught.value)
    assert str(caught.value).endswith("; install the same versions there, and start it again")


def test_a_worker_of_another_version_that_comes_later_makes_no_call(machines, monkeypatch):
    monkeypatch.setattr(machines, "_environment", {**environment(), "numpy": "9.8"})
    with pytest.raises(
        ConfigError, match=r"worker tcp://\S+ has numpy \S+, this machine has numpy 9\.8;"
    ):
        list(machines.each(doubled, [1]))


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({}, "worker tcp://w:1 has no kaisched, this machine has kaisched 1.0; install"),
        (AttributeError("no f"), "worker tcp://w:1 has a kaisched that cannot say .*: no f; "),
    ],
)
def test_a_worker_that_lacks_kaisched_is_told(found, complaint):
    with pytest.raises(ConfigError, match=complaint):
        module._check("tcp://w:1", {"kaisched": "1.0"}, found)


def test_a_scheduler_that_cannot_be_reached_is_told_with_its_address(monkeypatch, capsys, files):
    monkeypatch.setattr(module, "_CONNECT_S", 0.1)
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        line = ["simulate", "--compare", *map(str, files), "--dask", address]
        assert run_line(line) == ClusterUnavailable.exit_code
    said = capsys.readouterr().err.strip()
    assert said.startswith(f"kaisched: the dask scheduler at {address} cannot be reached: ")
    assert said.endswith("; start one with `dask scheduler`, or correct the address")
    assert "\n" not in said


def test_an_address_of_no_known_form_is_told():
    with pytest.raises(ConfigError, match=r"--dask: .*carrier.* \(value 'carrier://pigeon'\)"):
        Machines("carrier://pigeon", print).__enter__()


def test_the_missing_extra_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError) as caught:
        Machines("tcp://h:1", print).__enter__()
    assert str(caught.value) == (
        "--dask: needs the package distributed, which is not installed (value 'tcp://h:1'); "
        "run: pip install 'kaisched[dask]'"
    )


def test_without_workers_a_run_waits_and_says_so_until_the_scheduler_is_lost(monkeypatch):
    monkeypatch.setattr(module, "_CONNECT_S", 0.1)
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    alone = local_cluster(n_workers=0, processes=False)
    heard = []
    with Machines(alone.scheduler_address, heard.append) as machines:
        monkeypatch.setattr(machines, "_look", alone.close)
        with pytest.raises(ClusterUnavailable, match="was lost") as caught:
            list(machines.each(doubled, [1, 2, 3]))
    assert heard == [f"no worker is connected to {alone.scheduler_address}: waiting for one"]
    assert alone.scheduler_address in str(caught.value)


def until_unwanted(folder):
    (folder / "begun").touch()
    try:
        while True:
            end_if_unwanted(0.0)
            time.sleep(0.01)
    except UnwantedError:
        (folder / "ended").touch()
        raise


class Interrupted:
    """An event that is interrupted by Ctrl-C once a call has begun."""

    def __init__(self, folder):
        self._folder = folder

    def wait(self, _):
        until((self._folder / "begun").exists)
        raise KeyboardInterrupt

    def set(self):
        """Nobody waits."""


def test_an_interrupted_run_ends_its_calls(address, cluster, tmp_path, monkeypatch):
    with Machines(address, print) as machines:
        monkeypatch.setattr(machines, "_has_news", Interrupted(tmp_path))
        with pytest.raises(KeyboardInterrupt):
            list(machines.each(until_unwanted, [tmp_path] * 5))
    until((tmp_path / "ended").exists)
    until(lambda: not cluster.scheduler.tasks)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (["simulate", "{file}", "--dask", "h:1"], "--dask: there is one run only (value 'h:1')"),
        (["simulate", "--dask", "h:1"], "--dask: needs a scenario"),
        (["tune", "{file}", "--dask", "h:1", "--processes", "2"], "--processes: does not apply"),
    ],
)
def test_what_makes_no_sense_beside_machines_is_told(line, complaint, files, capsys):
    assert run_line([word.format(file=files[0]) for word in line]) == ConfigError.exit_code
    assert complaint in capsys.readouterr().err


def carry_out_here(scenario):
    policy, _ = policy_of(scenario)
    return result_of(run_scenario(scenario, policy))
