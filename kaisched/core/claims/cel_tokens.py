"""Splits expressions of the Common Expression Language (CEL) into tokens."""

from __future__ import annotations

import re
import sys
from typing import Final, NamedTuple

from kaisched.core.claims.model import ClaimError

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<number>0x[0-9a-fA-F]+[uU]?|[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+
        |\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[uU]?)
    |(?P<text>[rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\r\n]*"|'[^'\r\n]*')
        |\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
        |"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*')
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))",
    re.DOTALL,
)
_PLAIN: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
MOST_CHARACTERS: Final = 10_240
"""Characters of an expression, as in the API."""
_SURROGATES: Final = range(0xD800, 0xE000)
_MOST: Final = 1 << 63
"""Largest number that is written without a sign: with a minus it is the least there is."""
_MOST_UNSIGNED: Final = (1 << 64) - 1
_MOST_DIGITS: Final = 20
_OCTAL: Final = 4
"""Group of an octal escape."""


class Token(NamedTuple):
    """A token: kind is number, text, name, sign or end."""

    kind: str
    value: object
    text: str


def tokens_of(expression: str) -> list[Token]:
    """Return the tokens of an expression, with one for its end.

    Raises:
        ClaimError: there is something else in it.

    """
    if len(expression) > MOST_CHARACTERS:
        raise ClaimError(f"the expression is longer than {MOST_CHARACTERS:,} characters")
    found = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise ClaimError(f"{expression[at : at + 10]!r} is not understood")
        at = match.end()
        kind, text = match.lastgroup or "", match.group()
        if kind != "space":
            found.append(Token(kind, _value(kind, text), text))
    return [*found, Token("end", None, "the end")]


def _value(kind: str, text: str) -> object:
    if kind == "number":
        return _number(text)
    if kind == "text":
        return _unquoted(text)
    return text


def _number(text: str) -> int | float:
    body = text.rstrip("uU")
    is_hex = body.startswith("0x")
    if not is_hex and not body.isdecimal():
        return float(body)
    most = _MOST_UNSIGNED if body != text else _MOST
    digits = body.removeprefix("0x").lstrip("0") or "0"
    value = int(digits, 16 if is_hex else 10) if len(digits) <= _MOST_DIGITS else most + 1
    if value > most:
        raise ClaimError(f"{text[:_MOST_DIGITS]} is no 64-bit number")
    return value


def _unquoted(text: str) -> str:
    is_raw = text[0] in "rR"
    body = text[1:] if is_raw else text
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    return body if is_raw else _ESCAPE.sub(_escape, body)


def _escape(match: re.Match[str]) -> str:
    for group, digits in enumerate(match.groups()[:-1]):
        if digits is not None:
            code = int(digits, 8 if group == _OCTAL else 16)
            if code > sys.maxunicode or code in _SURROGATES:
                break
            return chr(code)
    plain = _PLAIN.get(match.group(6))
    if plain is None:
        raise ClaimError(f"{match.group()!r} is no character")
    return plain
