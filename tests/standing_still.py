"""A test that failed while the machine stood still is run again: it said nothing about the code.

A virtual machine may be held for many seconds, and any time-out in it runs out meanwhile: leases
are lost, servers take each other for gone. Whether that was so is measured, by a thread that wants
to run ten times a second and could not for a whole one. What fails otherwise fails at once, and
what fails each time fails.
"""

import gc
import sys

import pytest
from _pytest.runner import runtestprotocol

from tests.pulse import Pulse

TRIES = 3
PROPERTY = "machine stood still"


PULSE = Pulse().start()


def told(run, pulse, again):
    """Return the reports of a test, of the last time it was run.

    Args:
        run: runs it and returns its reports.
        pulse: says whether the machine stood still.
        again: told for how many seconds it did, before the test is run once more.

    """
    for left in reversed(range(TRIES)):
        before_s = pulse.look()
        reports = run()
        if not any(report.failed for report in reports):
            break
        stood_s = pulse.look() - before_s
        if not left or not stood_s:
            break
        again(stood_s)
    return reports


def _forget_failure():
    """Let go of what it left open, lest that is found out in the next run and fails it too."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    gc.collect()
    sys.unraisablehook = hook


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run a test, and once more where it failed for want of a machine."""

    def again(seconds):
        item.user_properties.append((PROPERTY, seconds))
        item.session._setupstate.teardown_exact(None)  # servers that others share may be gone
        _forget_failure()

    where = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**where)
    for report in told(lambda: runtestprotocol(item, log=False, nextitem=nextitem), PULSE, again):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(**where)
    return True


def pytest_terminal_summary(terminalreporter):
    """Say which tests were run again."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, seconds in getattr(report, "user_properties", ()):
                if name == PROPERTY and report.when == "teardown":
                    line = (
                        f"{report.nodeid}: run again, the machine stood still for {seconds:.0f} s"
                    )
                    terminalreporter.write_line(line)
