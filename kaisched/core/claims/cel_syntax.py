"""Tells what certainly is no expression of the Common Expression Language (CEL).

The evaluator refuses what it does not understand, whether it is an expression or not. Here only
what no evaluator would take has a fault.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from kaisched.core.claims.cel_tokens import Token, tokens_of
from kaisched.core.claims.cel_tree import TooDeepError, tree_of
from kaisched.core.claims.model import ClaimError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_READ: Final = re.compile(r"""`|[bB][rR]?["']""")
"""Names in backticks and bytes, which tokens that are read do not have."""
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}


def syntax_fault(text: str) -> str:
    """Return why a text can be no expression; an empty text if it may be one."""
    try:
        tokens = tokens_of(text)
    except ClaimError as error:
        return "" if _NOT_READ.search(text) else str(error)
    if _has_bytes(tokens):
        return ""
    fault = _unclosed(tokens)
    if fault or _has_other_forms(tokens):
        return fault
    try:
        tree_of(text)
    except TooDeepError:
        return ""
    except ClaimError as error:
        return str(error)
    return ""


def _has_bytes(tokens: Sequence[Token]) -> bool:
    return any(
        first.text.lower() in ("b", "br") and second.kind == "text"
        for first, second in itertools.pairwise(tokens)
    )


def _has_other_forms(tokens: Sequence[Token]) -> bool:
    """Tell whether there may be maps, messages, optional values or names from the root."""
    before = ""
    for token in tokens:
        sign = token.text if token.kind == "sign" else ""
        is_optional = sign == "?" and before in (".", "[", ",", "{")
        is_rooted = sign == "." and before not in ("value", ")", "]", "}")
        if sign == "{" or is_optional or is_rooted:
            return True
        before = sign if sign or token.text == "in" else "value"
    return False


def _unclosed(tokens: Sequence[Token]) -> str:
    """Return which bracket has no other, or an empty text."""
    opened: list[str] = []
    for token in tokens:
        sign = token.text if token.kind == "sign" else ""
        if sign in _CLOSING.values():
            opened.append(sign)
        elif sign in _CLOSING and (not opened or opened.pop() != _CLOSING[sign]):
            return f"{sign} closes no {_CLOSING[sign]}"
    return f"{opened[-1]} is not closed" if opened else ""
