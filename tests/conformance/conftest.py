"""Conformance is about what proportion decides: where that is not installed, there is none."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("kaisched_plugins.proportion") else ["test_conformance.py"]
