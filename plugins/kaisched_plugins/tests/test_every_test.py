"""What holds for the host's tests holds for those of plugins, also where they run by themselves."""

import inspect

from hypothesis import settings

from kaisched.framework.cycle import run_cycle


def test_laws_have_no_deadline_and_always_the_same_examples():
    assert settings().deadline is None
    assert settings().derandomize


def test_every_cycle_is_checked():
    assert inspect.unwrap(run_cycle) is not run_cycle
