"""Shows both pictures where two worlds differ."""

from kaisched.testing import World, explain_difference


def pytest_assertrepr_compare(op, left, right):
    if op == "==" and isinstance(left, World) and isinstance(right, World):
        return explain_difference(left, right)
    return None
