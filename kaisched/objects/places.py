"""Lines of keys in a text of YAML documents, for messages that editors can follow."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from kaisched.errors import join_path
from kaisched.objects.load import documents
from kaisched.objects.yaml_text import PARSER


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
