"""What reading JSON may raise; not in :mod:`.errors`, which is read before msgspec is needed."""

from __future__ import annotations

from typing import Final

import msgspec

BAD_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError)
"""It is no JSON or of another form, or a text in it is no UTF-8."""
