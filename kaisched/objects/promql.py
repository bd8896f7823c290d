"""Checks of PromQL texts without a server: whether they are safe to embed in a query.

An expression is put between parentheses. It must neither close them nor hide what follows.
"""

from __future__ import annotations

import re
from typing import Final

from kaisched.units import UnitError

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_PLAIN: Final = re.compile(r"[\w:.\s,=!~<>+\-*/%^@]", re.ASCII)
_CLOSES: Final = {")": "(", "]": "[", "}": "{"}
_QUOTES: Final = "\"'`"
_MOST_CHARS: Final = 2000
_METRIC_FIX: Final = 'write a metric name or an expression such as sum(node_gpus{kind="a"})'


def is_metric_name(text: str) -> bool:
    """Tell whether a text is a bare metric name."""
    return _NAME.fullmatch(text) is not None


def check_label_name(text: object) -> None:
    """Raise UnitError unless a text is a label name."""
    if not isinstance(text, str) or not _LABEL.fullmatch(text):
        raise UnitError("no label name", "write letters, digits and underscores, as in cluster")


def quoted(value: str) -> str:
    """Quote a label value as a PromQL text that matches exactly this value."""
    escaped = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else _escaped(char)
        for char in value
    )
    return f'"{escaped}"'


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\U{code:08x}"


def check_expression(text: object) -> None:
    """Raise UnitError unless a text can be put between parentheses in a query.

    Quotes and brackets must be closed. Comments and characters that are not part of PromQL are
    refused; so is a backslash before a quote, which comes from a text that was quoted twice.
    """
    if not isinstance(text, str) or not text.strip():
        raise UnitError("no metric", _METRIC_FIX)
    if len(text) > _MOST_CHARS:
        raise UnitError(f"longer than {_MOST_CHARS} characters", "make it a recording rule")
    open_: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in _QUOTES:
            at = _end_of_quote(text, at)
        else:
            _check_char(text[at], open_)
        at += 1
    if open_:
        raise UnitError(f"{open_[-1]} is not closed", _METRIC_FIX)


def _check_char(char: str, open_: list[str]) -> None:
    """Check a character outside of quotes; ``open_`` are the brackets around it."""
    if char in _CLOSES.values():
        open_.append(char)
    elif char in _CLOSES:
        if not open_ or open_.pop() != _CLOSES[char]:
            raise UnitError(f"nothing is open that {char} would close", _METRIC_FIX)
    elif char == "\\":
        fix = 'write {resource="a"}, not {resource=\\"a\\"}'
        raise UnitError("a backslash outside of quotes", fix)
    elif not _PLAIN.fullmatch(char):
        raise UnitError(f"{char!r} is not part of PromQL", _METRIC_FIX)


def _end_of_quote(text: str, start: int) -> int:
    quote, at = text[start], start + 1
    while at < len(text) and text[at] != quote:
        is_escape = text[at] == "\\" and quote != "`"
        at += 2 if is_escape else 1
    if at >= len(text):
        raise UnitError(f"{quote} is not closed", _METRIC_FIX)
    if "\n" in text[start:at] and quote != "`":
        raise UnitError("a line ends inside quotes", _METRIC_FIX)
    return at
