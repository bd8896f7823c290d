"""What is global to the tests: the hypothesis profiles, and that every cycle is checked.

``dev`` looks for something new in each run and is quick; ``ci`` looks longer and always at the same
examples, so that a red build is about the change in it. Choose with ``HYPOTHESIS_PROFILE``.

After every cycle that runs in a test's own process, whoever runs it, what must always hold is
checked. This module is read before any that could run one. A policy without plugins is left out: it
lacks those who look after gangs and queues.
"""

import functools
import os

from hypothesis import HealthCheck, settings

from kaisched.framework import cycle
from kaisched.framework.invariants import violations

_run_cycle = cycle.run_cycle


@functools.wraps(_run_cycle)
def run_checked(snapshot, usage, policy, *rest, **named):
    """Run a cycle and raise AssertionError when it broke something, or a plugin of ours failed."""
    result, memory = _run_cycle(snapshot, usage, policy, *rest, **named)
    broken = violations(snapshot, result) if policy.plugins else []
    assert not broken, broken
    ours = {
        setting.plugin.name
        for setting in policy.plugins
        if type(setting.plugin).__module__.startswith("kaisched_plugins.")
    }
    assert not [failure for failure in result.failures if failure.plugin in ours], result.failures
    return result, memory


cycle.run_cycle = run_checked

# No deadlines: a test machine that is busy is no defect of the code.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=200,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
