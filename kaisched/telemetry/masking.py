"""Masks secrets in everything that is shown."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final

MASK: Final = "***"
_LEAST_SECRET: Final = 6
"""Shorter secrets would be found in ordinary words."""
_hidden: deque[str] = deque(maxlen=16)
"""Secrets in use, the latest last: a token is renewed every hour."""
_SECRET_KEY: Final = re.compile(
    r"password|passwd|secret|token|authorization|credential|api_?key", re.IGNORECASE
)
_URL_SECRET: Final = re.compile(r"(?P<scheme>\w+://)[^/@\s:]+:[^/@\s]+@")


def hide(secret: str) -> None:
    """Mask a secret from now on, wherever it appears in an event."""
    if len(secret) >= _LEAST_SECRET and secret not in _hidden:
        _hidden.append(secret)


def masked(key: str, value: Any) -> Any:
    """Return a value that may be shown: without secrets, and without passwords in addresses."""
    if _SECRET_KEY.search(key) and value not in (None, ""):
        return MASK
    if isinstance(value, str):
        for secret in sorted(_hidden, key=len, reverse=True):  # a secret may contain another
            value = value.replace(secret, MASK)
        return _URL_SECRET.sub(rf"\g<scheme>{MASK}@", value)
    if isinstance(value, list | tuple):
        return type(value)(masked("", part) for part in value)
    if isinstance(value, dict):
        return {name: masked(str(name), part) for name, part in value.items()}
    return value
