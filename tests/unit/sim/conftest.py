"""A cycle in plain Python for tests of the simulator alone, and a writer of tiny traces."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from kaisched.core.axis import GPU
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import scenario_of

NONE = np.empty(0, np.int64)


class FirstFit:
    """Oldest job first, each pod on the first node with room; evicts as a test says."""

    def __init__(self):
        self.evict_at = {}
        """Names of the jobs to evict, by seconds."""
        self.move_at = {}
        """Names of the jobs to evict with node 0 promised to each of their pods, by seconds."""
        self.calls = 0

    def __call__(self, snapshot, now_s):
        self.calls += 1
        tasks, nodes = self.placements(snapshot)
        evicted = [
            task
            for job, name in enumerate(snapshot.jobs.name)
            if snapshot.jobs.active[job] + snapshot.jobs.pending[job]
            and name in (*self.evict_at.get(now_s, ()), *self.move_at.get(now_s, ()))
            for task in snapshot.jobs.tasks[job]
        ]
        moved = evicted if now_s in self.move_at else []
        return SimpleNamespace(
            bind_tasks=np.array(tasks, np.int64) if tasks else NONE,
            bind_nodes=np.array(nodes, np.int64) if tasks else NONE,
            bind_cards={},
            evict_tasks=np.array(evicted, np.int64) if evicted else NONE,
            nominate_tasks=np.array(moved, np.int64),
            nominate_nodes=np.zeros(len(moved), np.int64),
            shares=[
                SimpleNamespace(name=name, fair_share={"gpu": 0}) for name in snapshot.queues.name
            ],
            failures=(),
            stats=SimpleNamespace(abandoned=""),
        )

    def placements(self, snapshot):
        jobs, shape_of_task = snapshot.jobs, snapshot.tasks.shape_of_task
        idle = snapshot.nodes.idle[GPU].tolist()
        request = snapshot.shapes.request[GPU].tolist()
        least = min(request)
        tasks, nodes = [], []
        pending = np.flatnonzero(jobs.pending).tolist()
        for job in sorted(pending, key=lambda job: (jobs.created_s[job], jobs.name[job])):
            if max(idle) < least:
                break
            chosen, before = [], idle.copy()
            for task in jobs.tasks[job]:
                ask = request[shape_of_task[task]]
                node = next((n for n, free in enumerate(idle) if free >= ask), -1)
                if node < 0:
                    idle, chosen = before, []
                    break
                idle[node] -= ask
                chosen.append(node)
            if chosen:
                tasks += jobs.tasks[job]
                nodes += chosen
        return tasks, nodes


def job(queue, gpus, hours, at="0s", **more):
    return {
        "queue": queue,
        "arrivals": {"at": [at]},
        "gpus": gpus,
        "duration": f"{hours}h",
        **more,
    }


@pytest.fixture
def first_fit():
    return FirstFit()


@pytest.fixture
def write_trace(tmp_path):
    """Write a trace folder from job rows and queue rows."""

    def write(jobs, vcs="vc,published_nodes\na,3\nb,1\n", header="submit_s,duration_s,num_gpus,vc"):
        (tmp_path / "jobs.csv").write_text(header + "\n" + jobs, encoding="utf-8")
        (tmp_path / "vcs.csv").write_text(vcs, encoding="utf-8")
        return tmp_path

    return write


SMALL = {
    "name": "small",
    "time": {"duration": "6h"},
    "nodes": [{"count": 2, "gpus": 4}],
    "queues": [{"name": "a"}, {"name": "b"}],
    "jobs": [{"queue": "a", "arrivals": {"every": "30m"}, "duration": "1h"}],
}


@pytest.fixture(scope="session")
def scenario(tmp_path_factory):
    """Return the scenario of a small file with changed keys, in a test's folder or its own."""
    own = tmp_path_factory.mktemp("scenario")

    def read(folder=own, **changes):
        raw = {**copy.deepcopy(SMALL), **changes}
        return scenario_of(raw, folder / "s.yaml")

    return read


@pytest.fixture(scope="session")
def ran(scenario):
    """Run a scenario under its own policy."""

    def run(**changes):
        read = scenario(**changes)
        return run_scenario(read, policy_of(read)[0])

    return run
