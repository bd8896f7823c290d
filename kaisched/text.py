"""Makes text of others, such as names and annotations, harmless on a terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""What steers a terminal: control characters, and those that break lines or turn their direction
around."""
_DELETE: Final = 0x7F
_IN_LINE: Final = re.compile(f"[{_CONTROL}]")
_IN_TEXT: Final = re.compile(f"(?![\n\t])[{_CONTROL}]")


def visible(line: str) -> str:
    r"""Return a line with each character that would steer a terminal written out, as ``\x1b``.

    JSON stays JSON: what it lets stand in texts, and is no plain text, is written as JSON would.
    """
    return _IN_LINE.sub(_written_out, line)


def visible_text(text: str) -> str:
    """Return the same for a text of several lines: line breaks and tabs stay."""
    return _IN_TEXT.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    number = ord(found[0])
    if found[0] in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[found[0]]
    return f"\\x{number:02x}" if number < _DELETE else f"\\u{number:04x}"
