"""Parser of the head of a request."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

_MOST_FIELDS = 32


def parent_of(path: str, pages: Container[str]) -> str:
    """Return the nearest path above that ends with a slash and has a page; empty without any."""
    while path := path.rstrip("/").rpartition("/")[0]:
        if f"{path}/" in pages:
            return f"{path}/"
    return ""


class Head(NamedTuple):
    """Method, path, query and headers of a request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    """Headers by name in lower case."""


def read(head: bytes) -> Head:
    """Parse the bytes up to the empty line.

    Raises:
        ValueError: the bytes are no HTTP/1 request.

    """
    first, *rest = head.decode("latin-1").replace("\r\n", "\n").partition("\n\n")[0].split("\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    url = urlsplit(target)
    headers = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise ValueError(line)
        headers[name.lower()] = value.strip()
    query = parse_qs(url.query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    return Head(method, url.path, query, headers)
