"""A simulation that is shown: its speed, and readers while it waits and after its end."""

import threading

import pytest

from kaisched.cli.app import run_line
from kaisched.sim.progress import Stage
from kaisched.telemetry.stopwatch import Stopwatch
from kaisched.testing.builder import ClusterBuilder


@pytest.fixture(scope="module")
def ran():
    return ClusterBuilder().node("n0", gpu=1).queue("a").job("j", queue="a", gpu=4).run()


class Real:
    """Real time, which passes by the waiting of the stage."""

    def __init__(self):
        self.now_s, self.waited_s = 100.0, 0.0

    def __call__(self):
        return self.now_s

    def wait(self, seconds):
        self.now_s += seconds
        self.waited_s += seconds


def staged(ran, speed):
    real = Real()
    stage = Stage(lambda *_: ran.result, Stopwatch(real), speed, now_s=real)
    stage._bell.wait = real.wait
    return stage, real


@pytest.mark.parametrize(("speed", "waits_s"), [(60.0, 10.0), (3600.0, 600.0 / 3600), (0.0, 0.0)])
def test_virtual_time_passes_at_its_speed(ran, speed, waits_s):
    stage, real = staged(ran, speed)
    for now_s in (0.0, 240.0, 600.0):
        stage(ran.snapshot, now_s)
    assert real.waited_s == pytest.approx(waits_s)
    view = stage.publisher.view
    assert (view.cycle, view.time_s) == (3, 600.0)
    assert [it.time_s for it in stage.publisher.frames] == [0.0, 240.0, 600.0]


def test_readers_are_told_of_jobs_after_the_end(ran):
    stage = Stage(lambda *_: ran.result, Stopwatch(lambda: 0.0), 0.0)
    stage(ran.snapshot, 0.0)
    thread = threading.Thread(target=stage.stay)
    thread.start()
    told = stage.publisher.inquiries.ask(["default/j"], 60.0)
    stage.stop()
    thread.join()
    assert "gpu" in told["default/j"].record.message


@pytest.mark.parametrize("option", ["--speed", "--port"])
def test_a_speed_without_a_page_is_an_error(option, capsys):
    assert run_line(["simulate", option, "10"]) == 2
    assert f"{option}: applies to the page" in capsys.readouterr().err
