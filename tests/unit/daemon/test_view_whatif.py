"""What-if of the live view: a worker tries other values on a recording of the last cycle."""

import json
import subprocess
from pathlib import Path

import pytest

from kaisched.cli.app import run_line
from kaisched.daemon import view_whatif
from kaisched.daemon.access import open_access
from kaisched.daemon.http_wire import Request
from kaisched.daemon.view_pages import ViewPages
from kaisched.daemon.view_whatif import KEPT_S, Whatif
from kaisched.engine.recording import read_recording, replay
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.view.publisher import Publisher
from kaisched.view.reading import Sight

TEAMS = Path(__file__).parents[3] / "docs" / "examples" / "two-teams.yaml"


class Shard:
    """Recordings of one shard, counted."""

    name = "default"

    def __init__(self, recording):
        self.recording, self.asked = recording, 0

    def next_one(self, wait_s):
        del wait_s
        self.asked += 1
        return self.recording


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    file = tmp_path_factory.mktemp("whatif") / "cycle.json"
    assert run_line(["snapshot", "take", str(file), "-f", str(TEAMS)]) == 0
    return read_recording(file)


@pytest.fixture
def shard(recording):
    return Shard(recording)


def test_it_tells_the_values_as_they_are(shard):
    found = Whatif(lambda: [shard]).values("")
    quotas = {it["name"]: it["gpu"].get("quota") for it in found["queues"]}
    assert quotas == {"lab": 16, "speech": 4, "vision": 8}


def test_a_worker_tries_another_value(shard):
    found = json.loads(Whatif(lambda: [shard]).difference("", "queue/vision", ["gpu.limit=16"]))
    (job,) = found["jobs"]
    assert (job["without"]["reason"], job["with"]["reason"]) == ("OverLimit", "NoRoom")


def test_a_worker_submits_a_job_and_foresees_another(shard):
    """A gang of 16 GPUs is over the limit of its queue, which is 12."""
    whatif = Whatif(lambda: [shard])
    found = json.loads(whatif.submission("", "vision", 8, 2))
    (job,) = [it for it in found["jobs"] if it["without"] is None]
    assert (job["queue"], job["with"]["reason"]) == ("vision", "OverLimit")
    foreseen = json.loads(whatif.forecast("", "vision/sweep"))["when"]
    assert foreseen["courses"] >= 1
    assert foreseen["assumptions"]
    starts = json.loads(whatif.starts(""))["jobs"]
    assert all(it["when"]["courses"] >= 1 for it in starts)
    assert {it["state"] for it in starts} <= {"pending", "partly"}
    with pytest.raises(ConfigError, match="is no queue"):
        whatif.submission("", "--help", 1, 1)


def test_starts_are_told_of_the_jobs_that_a_reader_sees(shard):
    """The gang of vision and the job of speech start; sweep waits, over the limit of vision."""
    publisher, result = Publisher("default"), replay(shard.recording).result
    publisher.take(result, cycle=1, time_s=0.0, duration_s=0.0)
    whatif = Whatif(lambda: [shard])
    told = {}
    for queue in ("vision", "speech"):
        sight = Sight(sees_all=False, of_queue=lambda it, queue=queue: it == queue)
        pages = ViewPages(lambda: [publisher], lambda _, it=sight: it, whatif=whatif)
        request = Request({"starts": ["true"]}, "", "localhost", "/api/v1/whatif")
        told[queue] = json.loads(pages.pages["/api/v1/whatif"].make(request).body)["starts"]
    (sweep,) = (it for it in told["vision"] if "sweep" in it)
    assert told["vision"][sweep]["started"] == 0
    assert not any("vision" in it for it in told["speech"])


def test_the_loop_is_asked_every_half_minute_at_most(shard):
    now_s = [0.0]
    whatif = Whatif(lambda: [shard], lambda: now_s[0])
    for now_s[0] in (0.0, 1.0, KEPT_S - 1, KEPT_S + 1):
        whatif.values("")
    assert shard.asked == 2


@pytest.mark.parametrize(
    ("target", "values"),
    [
        ("queue/vision", [""]),
        ("queue/vision", ["--kubeconfig=x"]),
        ("queue/vision", ["spec.parentQueue=x"]),
        ("node/n", ["gpu.quota=1"]),
        ("--help", ["gpu.quota=1"]),
    ],
)
def test_only_what_the_sliders_change_is_tried(shard, target, values):
    with pytest.raises(ConfigError):
        Whatif(lambda: [shard]).difference("", target, values)
    assert shard.asked == 0


def test_a_trial_that_takes_too_long_is_ended(shard, monkeypatch):
    def late(line, **options):
        raise subprocess.TimeoutExpired(line, options["timeout"])

    monkeypatch.setattr(view_whatif.subprocess, "run", late)
    with pytest.raises(ClusterUnavailable, match="took over"):
        Whatif(lambda: [shard]).difference("", "queue/vision", ["gpu.limit=16"])


def test_one_is_tried_at_a_time(shard, monkeypatch):
    monkeypatch.setattr(view_whatif, "_PATIENCE_S", 0.0)
    whatif = Whatif(lambda: [shard])
    with whatif._turn(), pytest.raises(ClusterUnavailable, match="under way"):
        whatif.values("")


def test_without_recordings_it_is_off():
    pages = ViewPages(list, open_access).pages
    page = pages["/api/v1/whatif"].make(Request({}, "", "localhost", "/api/v1/whatif"))
    assert json.loads(page.body)["enabled"] is False


@pytest.mark.parametrize(
    ("target", "values", "said"),
    [
        ("queue/visoin", ["gpu.limit=16"], r"^target: there is no Queue visoin"),
        ("queue/vision", ["gpu.limit=12"], r"^set: gpu\.limit=12: makes no difference"),
        ("queue/vision", ["gpu.limit=1.2.3"], r"^set: Queue vision: spec\.resources\.gpu\.limit"),
        ("shard", ["kValue=-1"], r"^set: SchedulingShard default: spec\.kValue"),
    ],
)
def test_a_refusal_names_the_parameter_that_is_wrong(shard, target, values, said):
    with pytest.raises(ConfigError, match=said) as refused:
        Whatif(lambda: [shard]).difference("", target, values)
    assert "cycle.json" not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (70, b"kaisched: this is a bug: KeyError: 1; --debug shows where\n"),
        (-9, b""),
        (1, b"Traceback (most recent call last):\nMemoryError\n"),
    ],
)
def test_a_worker_that_fails_is_no_fault_of_who_asked(shard, monkeypatch, code, text):
    def failed(line, **options):
        del options
        return subprocess.CompletedProcess(line, code, b"", text)

    monkeypatch.setattr(view_whatif.subprocess, "run", failed)
    with pytest.raises(ClusterUnavailable, match="the trial failed"):
        Whatif(lambda: [shard]).difference("", "queue/vision", ["gpu.limit=16"])
