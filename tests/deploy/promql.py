"""What a PromQL expression names, as far as ours go: metrics, and the labels of each."""

import re

_SELECTOR = re.compile(r"\b((?:kaisched|kai_queue)[\w:]*)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def metrics_of(expression):
    """The names of series, as they are written, with the labels that select among them."""
    return [
        (found[1], set(_MATCHER.findall(found[2] or "")))
        for found in _SELECTOR.finditer(expression)
    ]


def selectors_of(expression):
    """Each selector of series as it is written, with its matchers."""
    return [found[0] for found in _SELECTOR.finditer(expression)]


def grouped_by(expression):
    """The labels that anything is grouped or matched by."""
    named = ",".join(found[1] for found in _GROUPING.finditer(expression))
    return {name.strip() for name in named.split(",") if name.strip()}
