"""The messages between the scheduler and the process that renews its leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class Begin(msgspec.Struct, tag=True):
    """Order, first line: the settings that are the same for every lease."""

    host: str
    pool: Mapping[str, Any]
    namespace: str
    identity: str
    descriptor: int
    """The board's descriptor."""
    slots: int
    lease_s: float
    renew_s: float
    retry_s: float
    silence_s: float
    """Nothing is renewed after so long without a heartbeat."""


class Beat(msgspec.Struct, tag=True):
    """Order: a heartbeat of the scheduler."""

    authorization: str | None = None
    """The header's value, if it is new."""


class Try(msgspec.Struct, tag=True):
    """Order: take a lease as soon as it is free."""

    lease: str
    slot: int
    epoch: int | None = None
    """The number of a term to continue, instead of beginning another."""


class LetGo(msgspec.Struct, tag=True):
    """Order: release a lease and stop renewing it."""

    lease: str


class Won(msgspec.Struct, tag=True):
    """Report: a lease was taken."""

    lease: str


class Lost(msgspec.Struct, tag=True):
    """Report: a lease was lost."""

    lease: str
    why: str


class Gone(msgspec.Struct, tag=True):
    """Report: a lease was released, as ordered."""

    lease: str


class Renewed(msgspec.Struct, tag=True):
    """Report: a lease was renewed, so many seconds after it was due."""

    lease: str
    seconds: float


class Asked(msgspec.Struct, tag=True):
    """Report: a request was sent to the API server."""

    labels: tuple[str, ...]
    seconds: float


class Said(msgspec.Struct, tag=True):
    """Report: a line for the log."""

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
