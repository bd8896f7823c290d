"""Conformance is about what proportion decides: where that is not installed, there is none."""

from importlib.util import find_spec

_ABOUT_IT = ["test_conformance.py", "test_modes.py"]
collect_ignore = [] if find_spec("kaisched_plugins.proportion") else _ABOUT_IT
