"""Small changes of a source: one comparison, word, number, sign or call at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

_COMPARED: Final = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_JOINED: Final = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
_COUNTED: Final = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_SIGNS: Final = {ast.Not: "not ", ast.Invert: "~", ast.USub: "-"}
_SWAPPED: Final = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
}
_SILENT: Final = ("log", "_log")
"""Logs: no rule says when they speak."""


class Mutation(NamedTuple):
    """One change of a source: a part of it is replaced."""

    start: int
    """Where the part begins, in characters."""
    before: str
    after: str
    line: int

    def applied_to(self, source: str) -> str:
        """Return the changed source."""
        end = self.start + len(self.before)
        assert source[self.start : end] == self.before
        return source[: self.start] + self.after + source[end:]


def mutations_of(source: str) -> list[Mutation]:
    """Return the changes of a source, in the order of its lines."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node  # type: ignore[attr-defined]
    found = {it for node in ast.walk(tree) for it in _of_node(node, _Text(source))}
    return sorted(found)


class _Text:
    """A source, by the positions that its tree has: lines, and bytes in them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._at(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.end_lineno, node.end_col_offset)

    def line(self, at: int) -> int:
        return self.source.count("\n", 0, at) + 1

    def _at(self, line: int, column: int) -> int:
        start, end = self._starts[line - 1 : line + 1]
        return start + len(self.source[start:end].encode()[:column].decode())

    def between(self, left: ast.expr, right: ast.expr, pair: tuple[str, str]) -> Iterator[Mutation]:
        """Yield the change of the word or sign between two expressions."""
        start, end = self.end(left), self.start(right)
        at = self.source.find(pair[0], start, end)
        if at >= 0:
            yield Mutation(at, *pair, self.line(at))

    def whole(self, node: ast.expr | ast.stmt, after: str) -> Iterator[Mutation]:
        """Yield the change of all of a node."""
        start = self.start(node)
        yield Mutation(start, self.source[start : self.end(node)], after, node.lineno)


def _of_node(node: ast.AST, text: _Text) -> Iterator[Mutation]:
    yield from _of_signs(node, text)
    yield from _of_words(node, text)


def _of_signs(node: ast.AST, text: _Text) -> Iterator[Mutation]:
    """Yield the changes of comparisons, sums and conditions."""
    match node:
        case ast.Compare():
            operands = [node.left, *node.comparators]
            for at, how in enumerate(node.ops):
                yield from text.between(operands[at], operands[at + 1], _COMPARED[type(how)])
        case ast.BoolOp():
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from text.between(left, right, _JOINED[type(node.op)])
        case ast.BinOp() if type(node.op) in _COUNTED and not _is_type(node):
            yield from text.between(node.left, node.right, _COUNTED[type(node.op)])
        case ast.UnaryOp() if type(node.op) in _SIGNS:
            yield Mutation(text.start(node), _SIGNS[type(node.op)], "", node.lineno)
        case ast.IfExp():
            start = text.start(node.test)
            test = text.source[start : text.end(node.test)]
            yield Mutation(start, test, f"(not ({test}))", node.lineno)


def _of_words(node: ast.AST, text: _Text) -> Iterator[Mutation]:
    """Yield the changes of numbers, names and calls."""
    match node:
        case ast.Constant(value=bool()) if not _is_type(node):
            yield from text.whole(node, str(not node.value))
        case ast.Constant(value=int()) if not _is_type(node):
            yield from text.whole(node, str(node.value + 1))
        case ast.Call(func=ast.Name(id=name)) if name in _SWAPPED:
            yield from text.whole(node.func, _SWAPPED[name])
        case ast.Attribute(attr=name) if name in _SWAPPED and not isinstance(node.ctx, ast.Store):
            end = text.end(node)
            yield Mutation(end - len(name), name, _SWAPPED[name], text.line(end))
        case ast.Expr(value=ast.Call() as call) if not _is_silent(call):
            yield from text.whole(node, "pass")


def _is_type(node: ast.AST) -> bool:
    """Tell whether a node is part of an annotation, or says what a type is called."""
    while (parent := getattr(node, "parent", None)) is not None:
        if isinstance(parent, ast.arg) or (
            isinstance(parent, ast.AnnAssign) and node is parent.annotation
        ):
            return True
        if isinstance(parent, ast.FunctionDef) and node is parent.returns:
            return True
        node = parent
    return False


def _is_silent(call: ast.Call) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name in _SILENT
