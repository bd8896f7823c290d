"""Faults on demand: what a server in trouble does to a client, for tests to script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from kaisched_apiserver.requests import Request
from kaisched_apiserver.statuses import ApiError

Effect = Literal["none", "status", "drop_before", "drop_after", "expire", "mute"]

_REASONS: Final = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_STEPS: Final = 2**32
# A full-period linear congruential step: faults need a sequence that repeats, not good chance.
_MULTIPLY: Final = 1_664_525
_ADD: Final = 1_013_904_223


@dataclass(slots=True)
class Fault:
    """One fault: which requests it meets, when, and what it does to them.

    An empty text matches anything; ``subresource`` of None likewise, while an empty one means the
    object itself. ``delay_s`` goes with any effect. The effects: ``status`` answers with ``code``
    and does nothing; ``drop_before`` closes the connection and does nothing; ``drop_after`` does
    what is asked and closes it without an answer; ``expire`` answers a watch with an event of code
    410; ``mute`` opens a watch through which nothing comes.
    """

    effect: Effect = "none"
    verb: str = ""
    plural: str = ""
    name: str = ""
    namespace: str = ""
    subresource: str | None = None
    token: str = ""
    """Only who asks with this bearer token is met."""
    code: int = 500
    retry_after_s: int = 0
    delay_s: float = 0.0
    skip: int = 0
    """So many matching requests pass first."""
    times: int | None = 1
    """So many are met after that, None for all."""
    share: float = 1.0
    """Of the matching requests only this part is met, by a sequence that ``seed`` fixes."""
    seed: int = 0
    met: int = field(default=0, init=False)
    """How many requests it has met."""

    def meets(self, request: Request) -> bool:
        """Tell whether the fault happens to a request, and count."""
        if not self._matches(request) or (self.times is not None and self.met >= self.times):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.share < 1.0:
            self.seed = (self.seed * _MULTIPLY + _ADD) % _STEPS
            if self.seed >= self.share * _STEPS:
                return False
        self.met += 1
        return True

    def _matches(self, request: Request) -> bool:
        return (
            self.verb in {"", request.verb}
            and self.plural in {"", request.plural}
            and self.name in {"", request.name}
            and self.namespace in {"", request.namespace}
            and self.subresource in {None, request.subresource}
            and self.token in {"", request.token}
        )

    def error(self) -> ApiError:
        """Return what the request is answered with."""
        reason = _REASONS.get(self.code, "InternalError")
        message = f"the server was told to answer {self.code}"
        return ApiError(self.code, reason, message, retry_after_s=self.retry_after_s)


class Faults:
    """The faults that are in force; the first one that meets a request happens to it."""

    def __init__(self) -> None:
        """Be without faults."""
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Put a fault in force and return it, so that it can be counted and taken off."""
        self._faults = [*self._faults, fault]
        return fault

    def remove(self, fault: Fault) -> None:
        """Take a fault off."""
        self._faults = [it for it in self._faults if it is not fault]

    def clear(self) -> None:
        """Take all faults off."""
        self._faults = []

    def of(self, request: Request) -> Fault | None:
        """Return the fault that happens to a request."""
        return next((it for it in self._faults if it.meets(request)), None)
