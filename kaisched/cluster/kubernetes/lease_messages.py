"""What the process that leads and the one that renews its leases say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class Begin(msgspec.Struct, tag=True):
    """The first line: all that is the same for every lease."""

    host: str
    pool: Mapping[str, Any]
    namespace: str
    identity: str
    descriptor: int
    """Of the board."""
    slots: int
    lease_s: float
    renew_s: float
    retry_s: float
    silence_s: float
    """Nothing is renewed for a process that was not heard of for so long."""


class Beat(msgspec.Struct, tag=True):
    """The process that leads is there."""

    authorization: str | None = None
    """The header's value, if it is a new one."""


class Try(msgspec.Struct, tag=True):
    """Take a lease as soon as nobody holds it."""

    lease: str
    slot: int
    epoch: int | None = None
    """The number of a term that we have: it is gone on with, and no other is begun."""


class LetGo(msgspec.Struct, tag=True):
    """Release a lease and renew it no more."""

    lease: str


class Won(msgspec.Struct, tag=True):
    """A lease was taken."""

    lease: str


class Lost(msgspec.Struct, tag=True):
    """A lease is ours no more."""

    lease: str
    why: str


class Gone(msgspec.Struct, tag=True):
    """A lease was let go, as asked."""

    lease: str


class Renewed(msgspec.Struct, tag=True):
    """A lease was renewed, so many seconds after it was due."""

    lease: str
    seconds: float


class Asked(msgspec.Struct, tag=True):
    """The API server was asked something."""

    labels: tuple[str, ...]
    seconds: float


class Said(msgspec.Struct, tag=True):
    """A line for the log."""

    level: str
    event: str
    fields: dict[str, Any]


Order = Begin | Beat | Try | LetGo
Report = Won | Lost | Gone | Renewed | Asked | Said
ORDERS: Final = msgspec.json.Decoder(Order)
REPORTS: Final = msgspec.json.Decoder(Report)


def line_of(message: Order | Report) -> bytes:
    """Return a message as a line."""
    return msgspec.json.encode(message, enc_hook=str) + b"\n"
