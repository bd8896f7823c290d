"""What one pastes above a law to look at an example again."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FOUND = re.compile(r"(?:Failing test case|Falsifying example): (?=\w+\()")
_BLOB = re.compile(r"@reproduce_failure\(.*\)")
_MEMBER = re.compile(r"<(\w+\.\w+): [^<>]*>")
"""An enum's member as it shows itself."""
_HOMES = ("tests.", "kaisched.", "kaisched_plugins.", "math", "numpy", "random", "fractions")
"""Where names come from that the module of a law does not have."""


def reproduction(notes: Sequence[str], known: Mapping[str, Any], fixtures: Iterable[str]) -> str:
    """Return the lines to be pasted, with the imports that they need.

    ``notes`` are those that hypothesis adds to the error, ``known`` the names that the module of
    the law has. The arguments that are ``fixtures`` are left out. Where the values have no text
    that gives them back, the lines name what hypothesis chose, which only its own version knows.
    """
    call = called(notes)
    if call is not None:
        call.keywords = [each for each in call.keywords if each.arg not in set(fixtures)]
        lacking = {name: found(name) for name in names_in(call) if name not in known}
        if is_readable(call, {**known, **{name: value for name, (value, _) in lacking.items()}}):
            call.func = ast.Name("example")
            lines = sorted({line for _, line in lacking.values() if line})
            return "\n".join([*lines, f"@{ast.unparse(call)}"])
    blobs = [told[0] for note in notes if (told := _BLOB.search(note))]
    return "\n".join(["from hypothesis import reproduce_failure", *blobs[:1]])


def called(notes: Sequence[str]) -> ast.Call | None:
    """Return the call of a law that failed, or None where it cannot be read as Python."""
    for note in notes:
        told = _FOUND.match(note)
        if told:
            try:
                text = _MEMBER.sub(r"\1", note[told.end() :])
                call = ast.parse(text, mode="eval").body
            except SyntaxError:
                return None
            return call if isinstance(call, ast.Call) else None
    return None


def names_in(call: ast.Call) -> list[str]:
    """Return the names that the arguments of a call use."""
    nodes = [node for argument in values_of(call) for node in ast.walk(argument)]
    return sorted({node.id for node in nodes if isinstance(node, ast.Name)})


def values_of(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call."""
    return [*call.args, *(each.value for each in call.keywords)]


def found(name: str) -> tuple[Any, str]:
    """Return what a name stands for and the line that imports it; nothing where nobody has it."""
    if name in vars(builtins):
        return vars(builtins)[name], ""
    having = {
        module: vars(content)[name]
        for module, content in list(sys.modules.items())
        if module.startswith(_HOMES) and name in vars(content)
    }
    made = [home for home in having if home == getattr(having[home], "__module__", "")]
    home = min(made or having, key=lambda home: (len(home), home), default="")
    if home:
        return having[home], f"from {home} import {name}"
    return sys.modules.get(name), f"import {name}"


def values(call: ast.Call, known: Mapping[str, Any]) -> list[Any]:
    """Return the values of a call's arguments; raises what evaluating them raises."""
    return [
        eval(compile(ast.Expression(value), "<example>", "eval"), dict(known))
        for value in values_of(call)
    ]


def is_readable(call: ast.Call, known: Mapping[str, Any]) -> bool:
    """Tell whether the arguments can be read back."""
    try:
        values(call, known)
    except Exception:  # noqa: BLE001 - whatever the text of a value does when it is read
        return False
    return True
