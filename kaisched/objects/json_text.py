"""Reader of JSON written by people: one or several values in a text, no duplicate keys.

Answers of an API server are not read here, but decoded straight into structs (``decode``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kaisched.objects.yaml_text import TextFault, plain_scalar

_SPACE: Final = " \t\r\n"


def read_json(text: str) -> Iterator[Any]:
    """Yield each value of a text with JSON values, in order.

    Numbers too large for a float stay texts, so that errors can show them.

    Raises:
        TextFault: at the first place that is not JSON; the rest of the text is not read.

    """
    at, end = _skip(text, 0), len(text)
    while at < end:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            fix = "check commas, quotes and brackets here"
            raise TextFault(f"no JSON: {error.msg}", fix, error.lineno) from None
        except RecursionError:
            line = text.count("\n", 0, at) + 1
            raise TextFault("nested too deep", "flatten it", line) from None
        yield value
        at = _skip(text, at)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise TextFault(f"key {twice[:80]!r} is given twice", "keep one of the two")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=plain_scalar,
    parse_float=plain_scalar,
    parse_constant=lambda word: float(word.replace("Infinity", "inf")),
)
