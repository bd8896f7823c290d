"""Parses expressions of the Common Expression Language (CEL) into trees.

All of the grammar is read but messages, bytes and optional values, which selectors hardly use.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kaisched.core.claims.cel_tokens import Token, tokens_of
from kaisched.core.claims.model import ClaimError

_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_DEEPEST: Final = 60


class TooDeepError(ClaimError):
    """An expression is nested deeper than is read here."""


class Node(NamedTuple):
    """A node of the tree.

    Kinds: const (value), name (value), list, member (value is its name), index,
    call (value is the function), method (value is its name; the target comes first),
    not, minus, if, and the signs of operators.
    """

    kind: str
    value: object = None
    below: tuple[Node, ...] = ()


def tree_of(expression: str) -> Node:
    """Parse an expression.

    Raises:
        ClaimError: it is none, or uses what is not read here.

    """
    parser = _Parser(tokens_of(expression))
    tree = parser.expression()
    parser.expect("end")
    return tree


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TooDeepError("the expression is nested too deep")
        found = self._binary(0)
        if self._has("?"):
            then = self._binary(0)
            self.expect(":")
            found = Node("if", None, (found, then, self.expression()))
        self._depth -= 1
        return found

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        found = self._binary(level + 1)
        while (sign := self._tokens[self._at].text) in _LEVELS[level] and self._is_sign():
            self._at += 1
            found = Node(sign, None, (found, self._binary(level + 1)))
        return found

    def _is_sign(self) -> bool:
        token = self._tokens[self._at]
        return token.kind == "sign" or token.text == "in"

    def _unary(self) -> Node:
        signs = []
        while (sign := self._tokens[self._at]).kind == "sign" and sign.text in ("!", "-"):
            signs.append("not" if sign.text == "!" else "minus")
            self._at += 1
        if len(signs) > _DEEPEST:
            raise TooDeepError("the expression is nested too deep")
        found = self._member()
        for kind in reversed(signs):
            found = Node(kind, None, (found,))
        return found

    def _member(self) -> Node:
        found = self._primary()
        while True:
            if self._has("."):
                if self._has("?"):
                    raise ClaimError("optional values (.?) are not understood")
                name = self._name()
                found = (
                    Node("method", name, (found, *self._listed(")")))
                    if self._has("(")
                    else Node("member", name, (found,))
                )
            elif self._has("["):
                if self._has("?"):
                    raise ClaimError("optional values ([?) are not understood")
                found = Node("index", None, (found, self.expression()))
                self.expect("]")
            else:
                return found

    def _primary(self) -> Node:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind in ("number", "text"):
            return Node("const", token.value)
        if token.kind == "name":
            return self._named(token.text)
        if token.text == "(":
            found = self.expression()
            self.expect(")")
            return found
        if token.text == "[":
            return Node("list", None, tuple(self._listed("]")))
        raise ClaimError(f"{token.text} is not understood here")

    def _named(self, name: str) -> Node:
        if name in _CONSTANTS:
            return Node("const", _CONSTANTS[name])
        return (
            Node("call", name, tuple(self._listed(")"))) if self._has("(") else Node("name", name)
        )

    def _listed(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self._has(end):
            found.append(self.expression())
            if not self._has(","):
                self.expect(end)
                break
        return found

    def _name(self) -> str:
        token = self._tokens[self._at]
        if token.kind != "name":
            raise ClaimError(f"{token.text} is no name")
        self._at += 1
        return token.text

    def _has(self, sign: str) -> bool:
        token = self._tokens[self._at]
        if token.kind != "sign" or token.text != sign:
            return False
        self._at += 1
        return True

    def expect(self, sign: str) -> None:
        token = self._tokens[self._at]
        found = "end" if token.kind == "end" else token.text
        if token.kind not in ("sign", "end") or found != sign:
            raise ClaimError(f"{token.text} is not understood here")
        self._at += 1
