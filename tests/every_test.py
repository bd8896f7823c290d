"""What all tests share, those of plugins included: examples of laws, checked cycles, and logs.

A law is looked at with the same examples in every run and on every machine, so that a red test is
about the change in it. ``make fuzz`` looks for new examples. A law that is slow has fewer of them
in ``@settings(max_examples=...)``; no law needs more here.

After every cycle that runs in a test's own process, whoever runs it, what must always hold is
checked. This module is read before any that could run one. A policy without plugins is left out: it
lacks those who look after gangs and queues.
"""

import functools
import signal

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from kaisched.framework import cycle
from kaisched.framework.invariants.violations import violations

_run_cycle = cycle.run_cycle


@functools.wraps(_run_cycle)
def run_checked(snapshot, usage, policy, *rest, **named):
    """Run a cycle and raise AssertionError when it broke something, or a plugin of ours failed."""
    result, memory = _run_cycle(snapshot, usage, policy, *rest, **named)
    broken = violations(snapshot, result, policy) if policy.plugins else []
    assert not broken, broken
    if result.failures:
        ours = {
            setting.plugin.name
            for setting in policy.plugins
            if type(setting.plugin).__module__.startswith("kaisched_plugins.")
        }
        assert not [it for it in result.failures if it.plugin in ours], result.failures
    return result, memory


cycle.run_cycle = run_checked

# Under nohup the processes that tests start would ignore SIGHUP too, and so never end by it: what
# is handled, a new program begins with anew.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# No deadlines: a test machine that is busy is no defect of the code.
settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    max_examples=20,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")

# Hypothesis also tries numbers and texts that stand in the source of our modules, of those that
# happen to be loaded: so the examples would depend on which tests ran before, and change with code
# that has nothing to do with the law. There is no setting for it.
assert callable(providers.is_local_module_file), "hypothesis calls it something else now"
providers.is_local_module_file = lambda path: False


@pytest.fixture(autouse=True)
def logs_of_its_own():
    """Forget where a command that ran in this process writes its logs: a file that is closed."""
    yield
    structlog.reset_defaults()
