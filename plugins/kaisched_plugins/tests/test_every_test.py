"""What holds for the host's tests holds for those of plugins, also where they run by themselves."""

from hypothesis import settings

from kaisched.framework.cycle import run_cycle


def test_laws_have_no_deadline_and_always_the_same_examples():
    assert settings.default.deadline is None
    assert settings.default.derandomize


def test_every_cycle_is_checked():
    assert run_cycle.__wrapped__
