"""Secrets are masked wherever something is shown."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final

MASK: Final = "***"
_LEAST_SECRET: Final = 6
"""What is shorter would be found in words that are no secret."""
_hidden: deque[str] = deque(maxlen=16)
"""Secrets in use, the latest last: a token is renewed every hour."""
_SECRET_KEY: Final = re.compile(
    r"password|passwd|secret|token|authorization|credential|api_?key", re.IGNORECASE
)
_URL_SECRET: Final = re.compile(r"(?P<scheme>\w+://)[^/@\s:]+:[^/@\s]+@")


def hide(secret: str) -> None:
    """Let a secret never be written, wherever in an event it may turn up."""
    if len(secret) >= _LEAST_SECRET and secret not in _hidden:
        _hidden.append(secret)


def masked(key: str, value: Any) -> Any:
    """Return a value fit to be shown: nothing of a secret, no password inside an address."""
    if _SECRET_KEY.search(key) and value not in (None, ""):
        return MASK
    if isinstance(value, str):
        for secret in sorted(_hidden, key=len, reverse=True):  # one may be in another
            value = value.replace(secret, MASK)
        return _URL_SECRET.sub(rf"\g<scheme>{MASK}@", value)
    if isinstance(value, list | tuple):
        return type(value)(masked("", part) for part in value)
    if isinstance(value, dict):
        return {name: masked(str(name), part) for name, part in value.items()}
    return value
