"""Readers of YAML and JSON written by people: plain values, or the line and the fix of a fault.

YAML is read from its event stream instead of by a ready-made loader, because loaders accept
duplicate keys silently, expand aliases without bound and recurse as deep as the text is nested.
Scalars are read as by the tools around Kubernetes, except that numbers must be written as numbers:
octal, underscores and base 60 are not read, and a time stays a text. Answers of an API server are
not read here, but decoded straight into structs (``decode``).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from kaisched.errors import join_path

MAX_DEPTH: Final = 64
MAX_ALIASED: Final = 100_000
"""Most values that all aliases of a document may expand to."""

_MAX_PATH: Final = 12  # steps of a path that are shown
PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # some builds lack the C parser
_CORE: Final = "tag:yaml.org,2002:"
_SEPARATOR: Final = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_NO_CONTENT: Final = (b"#", b"%", b"...")
_TAGS: Final = ("str", "int", "float", "bool", "null", "map", "seq")
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39})", re.ASCII)
_HEX: Final = re.compile(r"0x[0-9a-fA-F]{1,32}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_HELM: Final = re.compile(r"\{\{.*\}\}")
_WORDS: Final[dict[str, bool | float | None]] = {
    form: value
    for word, value in (
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("yes", True),
        ("on", True),
        ("false", False),
        ("no", False),
        ("off", False),
        (".nan", math.nan),
        (".inf", math.inf),
        ("+.inf", math.inf),
        ("-.inf", -math.inf),
    )
    for form in (word, word.title(), word.upper())
} | {".NaN": math.nan}


class TextFault(Exception):  # noqa: N818 - becomes a problem of the document, never leaves this package
    """A text that cannot be read; ``path`` and ``partial`` tell how far reading came."""

    def __init__(self, message: str, fix: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.line = line
        self.path: tuple[str | int, ...] = ()
        self.partial: object = None


@dataclass(slots=True)
class _Frame:
    """A map or list under construction."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    size: int = 1
    key: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    merges: list[Any] = field(default_factory=list)


class _Reader:
    """Builds plain values from the events of one document."""

    def __init__(self) -> None:
        self.root: Any = None
        self.is_complete = False
        self.frames: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.aliased = 0

    def read(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            _check_tag(event.tag, line)
            if self._is_key_due():
                self._take_key(event, line)
            else:
                self._place(_scalar(event), 1, event.anchor)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            _check_tag(event.tag, line)
            if self._is_key_due():
                raise TextFault("a key that is a map or a list", "write a plain key", line)
            if len(self.frames) >= MAX_DEPTH:
                raise TextFault(f"nested deeper than {MAX_DEPTH} levels", "flatten it", line)
            is_map = isinstance(event, yaml.MappingStartEvent)
            self.frames.append(_Frame({} if is_map else [], event.anchor))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            frame = self.frames.pop()
            for merged in frame.merges:
                _merge(frame.value, merged, line)
            self._place(frame.value, frame.size, frame.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(str(event.anchor), line)

    def _is_key_due(self) -> bool:
        top = self.frames[-1] if self.frames else None
        return top is not None and top.key is None and isinstance(top.value, dict)

    def _take_key(self, event: yaml.ScalarEvent, line: int) -> None:
        top, key = self.frames[-1], str(event.value)
        if key != "<<" or not event.implicit[0]:
            first = top.lines.setdefault(key, line)
            if key in top.value or first != line:
                top.key = key
                raise TextFault(
                    f"key {key[:80]!r} is given twice, first in line {first}",
                    "keep one of the two",
                    line,
                )
        top.key = key

    def _take_alias(self, anchor: str, line: int) -> None:
        if self._is_key_due():
            raise TextFault("an alias as a key", "write the key out", line)
        if anchor not in self.anchors:
            raise TextFault(f"alias *{anchor} is used before its anchor is complete", "", line)
        value, size = self.anchors[anchor]
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            raise TextFault(
                f"its aliases stand for more than {MAX_ALIASED} values", "write them out", line
            )
        self._place(value, size, None)

    def _place(self, value: Any, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = (value, size)
        if not self.frames:
            self.root, self.is_complete = value, True
            return
        top = self.frames[-1]
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
            return
        key, top.key = top.key, None
        if key == "<<" and key not in top.lines:
            top.merges.append(value)
        else:
            top.value[str(key)] = value

    def stuck(self, fault: TextFault) -> TextFault:
        """Add to a fault how far reading came."""
        for frame in self.frames:
            at = len(frame.value) if isinstance(frame.value, list) else frame.key
            if at is not None and len(fault.path) < _MAX_PATH:
                fault.path += (at,)
        fault.partial = self.frames[0].value if self.frames else self.root
        return fault


def documents(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each document that has content, with the number of its first line.

    The text is cut before parsing, so that a bad document spoils no other. A line that begins with
    ``---`` always separates: YAML forbids it inside a text.
    """
    start, line = 0, 1
    ends = [(match.start(), match.end()) for match in _SEPARATOR.finditer(data)]
    for end, following in [*ends, (len(data), len(data))]:
        chunk = data[start:end]
        lines = (it.strip() for it in chunk.splitlines())
        if any(it and not it.startswith(_NO_CONTENT) for it in lines):
            yield chunk, line
        line += data.count(b"\n", start, following)
        start = following


def first_document(data: bytes) -> tuple[Any, int]:
    """Read the first YAML document of a text; return it with the number of documents.

    Raises:
        TextFault: it cannot be read.

    """
    found = list(documents(data))
    try:
        return (read_yaml(found[0][0].decode(), found[0][1]) if found else None), len(found)
    except UnicodeDecodeError as error:
        raise TextFault(f"is not UTF-8: byte {error.start}", "save it as UTF-8") from None


def read_yaml(text: str, first_line: int = 1) -> Any:
    """Read the value of a text with one YAML document; None for an empty one.

    Raises:
        TextFault: with a line counted from ``first_line``.

    """
    reader = _Reader()
    try:
        try:
            for event in yaml.parse(text, Loader=PARSER):
                if reader.is_complete and isinstance(event, yaml.NodeEvent):
                    raise TextFault(
                        "a second document begins here", "put --- on a line of its own before it"
                    )
                reader.read(event)
        except yaml.YAMLError as error:
            raise _syntax_fault(error, text) from None
        except UnicodeEncodeError:
            raise TextFault("half a character (a lone surrogate)", "save it as UTF-8") from None
    except TextFault as found:
        fault = found
        if _HELM.search(text):
            fix = "read what `helm template` makes of it"
            fault = TextFault("looks like a Helm template", fix, fault.line)
        fault.line += first_line - 1
        raise reader.stuck(fault) from None
    return reader.root


def _check_tag(tag: str | None, line: int) -> None:
    if tag in (None, "!"):
        return
    if not (tag.startswith(_CORE) and tag.removeprefix(_CORE) in _TAGS):
        raise TextFault(f"tag {tag[:80]!r} is not allowed", "leave the tag out", line)


def _scalar(event: yaml.ScalarEvent) -> Any:
    text = str(event.value)
    if event.tag == _CORE + "str" or (event.tag is None and not event.implicit[0]):
        return text
    return text if event.tag == "!" else plain_scalar(text)


def plain_scalar(text: str) -> Any:
    """Interpret an unquoted word: nothing, true or false, a number, or else a text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text) and not text.lstrip("+-").isdigit():
        number = float(text)
        # 1e999 is not infinity: an error about the amount must show the text as written.
        return number if math.isfinite(number) else text
    return text


def _merge(target: Any, merged: Any, line: int) -> None:
    for source in merged if isinstance(merged, list) else [merged]:
        if not isinstance(source, dict):
            raise TextFault("<< takes a map or a list of maps", "name an anchor of a map", line)
        for key, value in source.items():
            target.setdefault(key, value)


def _syntax_fault(error: yaml.YAMLError, text: str) -> TextFault:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
    line = mark.line if mark is not None else 0
    lines = text.splitlines()
    here = lines[line] if line < len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return TextFault(f"no YAML: {problem}", "indent with spaces, not with tabs", line + 1)
    return TextFault(f"no YAML: {problem}", "check indentation, colons and quotes here", line + 1)


# -- JSON ------------------------------------------------------------------------------------------

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


# -- lines of keys, for messages that editors can follow -------------------------------------------

_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=plain_scalar,
    parse_float=plain_scalar,
    parse_constant=lambda word: float(word.replace("Infinity", "inf")),
)


def line_of(data: bytes, document: int, path: str) -> int:
    """Return the line of the longest part of a path that a document has; 0 if it cannot be read.

    Args:
        data: the text.
        document: number of the document in it, from 1.
        path: what ``join_path`` made of the steps to a value.

    """
    for number, (chunk, first) in enumerate(documents(data), 1):
        if number != document:
            continue
        try:
            node = yaml.compose(chunk.decode(), Loader=PARSER)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
            return 0
        return 0 if node is None else first + _line_in(node, path)
    return 0


def _line_in(node: yaml.Node, path: str) -> int:
    line, at, way = node.start_mark.line, node, ""
    while True:
        for name, mark, below in _entries(at):
            there = f"{way}{name}" if not way or name.startswith("[") else f"{way}.{name}"
            if path == there or path.startswith((f"{there}.", f"{there}[")):
                line, at, way = mark, below, there
                break
        else:
            return line


def _entries(node: yaml.Node) -> Iterator[tuple[str, int, yaml.Node]]:
    """Yield the step to each entry of a mapping or a list, its line and its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield join_path(key.value), key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield f"[{number}]", value.start_mark.line, value
