"""When a test is run again: only while the machine stood still, and not for ever."""

from types import SimpleNamespace

import pytest

from tests import pulse
from tests.pulse import Pulse
from tests.standing_still import TRIES, told


class Run:
    """Fails so often, the machine standing still for some seconds each time."""

    def __init__(self, fails, stands_s):
        self.fails, self.stands_s = fails, stands_s
        self.runs, self.stood_s, self.again = 0, 0.0, []

    def __call__(self):
        self.runs += 1
        self.stood_s += self.stands_s
        return [SimpleNamespace(failed=self.runs <= self.fails)]

    def told(self):
        return told(self, self, self.again.append)

    def look(self):
        return self.stood_s


@pytest.mark.parametrize(
    ("fails", "stands_s", "runs", "has_failed"),
    [
        (0, 0.0, 1, False),
        (0, 12.0, 1, False),
        (1, 0.0, 1, True),
        (1, 12.0, 2, False),
        (9, 12.0, TRIES, True),
    ],
)
def test_only_what_failed_while_the_machine_stood_still_is_run_again(
    fails, stands_s, runs, has_failed
):
    run = Run(fails, stands_s)
    (report,) = run.told()
    assert (run.runs, report.failed) == (runs, has_failed)
    assert run.again == [stands_s] * (runs - 1)


def test_a_machine_that_stands_still_is_noticed_by_whoever_looks_first(monkeypatch):
    times, spans = iter([0.0, 0.1, 12.1, 12.2]), []
    monkeypatch.setattr(pulse, "monotonic", lambda: next(times))
    it = Pulse(lambda since_s, until_s: spans.append((since_s, until_s)))
    assert [it.look() for _ in range(3)] == [0.0, 12.0, 12.0]
    assert spans == [(0.1, 12.1)]
