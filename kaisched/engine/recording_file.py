"""Files of recordings: written, and read with bounds on size, ratio and nesting."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.engine.recording import SCHEMA, Recording
from kaisched.errors import ConfigError
from kaisched.objects.decode import without_nulls
from kaisched.objects.faults import Source, explain, to_error
from kaisched.objects.wire import BAD_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILE: Final = 256 << 20
"""Largest file that is read, in bytes."""
MAX_UNPACKED: Final = 1 << 30
"""Most bytes of an unpacked file."""
MAX_RATIO: Final = 200
"""Most bytes unpacked per byte of a compressed file; our files have about 30."""
_FREE: Final = 1 << 20
"""Bytes that a compressed file may always unpack to."""
_BLOCK: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_FIX: Final = "name a file that `kaisched snapshot take` has written"
_DECODER: Final = msgspec.json.Decoder(Recording)


def encoded(recording: Recording) -> bytes:
    """Encode a recording as JSON; equal recordings give equal bytes."""
    return msgspec.json.encode(recording, order="sorted") + b"\n"


def write_recording(recording: Recording, file: Path) -> None:
    """Write a recording; compressed if the name of the file ends in ``.gz``.

    Raises:
        ConfigError: the file cannot be written.

    """
    data = encoded(recording)
    if file.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        file.write_bytes(data)
    except OSError as wrong:
        raise ConfigError(
            f"cannot be written: {wrong.strerror or wrong}",
            file=str(file),
            fix="name a file in a folder that you may write to",
        ) from wrong


def read_recording(file: Path) -> Recording:
    """Read a recording.

    Raises:
        ConfigError: the file is missing, too large, or no recording; names path and value.

    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
    except OSError as wrong:
        raise ConfigError(
            f"cannot be read: {wrong.strerror or wrong}", file=str(file), fix=_FIX
        ) from wrong
    if len(data) > MAX_FILE:
        raise ConfigError(f"larger than {MAX_FILE >> 20} MiB", file=str(file), fix=_FIX)
    return parsed(data, str(file))


def parsed(data: bytes, name: str) -> Recording:
    """Parse the recording in the bytes of a file; errors name ``name`` as the file.

    Raises:
        ConfigError: it is no recording, or too large.

    """
    text = _unpacked(data, name) if data.startswith(_GZIP) else data
    try:
        return _DECODER.decode(text)
    except msgspec.ValidationError as wrong:
        raise _explained(text, name, str(wrong)) from None
    except BAD_JSON as wrong:
        raise ConfigError(f"no JSON: {wrong}", file=name, fix=_FIX) from None
    except RecursionError:
        raise ConfigError("nested too deep", file=name, fix=_FIX) from None


def _unpacked(data: bytes, name: str) -> bytes:
    """Unpack a compressed file, and stop as soon as it is too large."""
    most = min(MAX_UNPACKED, max(_FREE, MAX_RATIO * len(data)))
    parts: list[bytes] = []
    size = 0
    try:
        for part in _parts(data):
            parts.append(part)
            size += len(part)
            if size > most:
                raise ConfigError(
                    f"unpacks to more than {most} bytes, as no recording of {len(data)} bytes does",
                    file=name,
                    fix=_FIX,
                )
    except (OSError, EOFError, zlib.error) as wrong:
        raise ConfigError(f"no gzip file: {wrong}", file=name, fix=_FIX) from wrong
    return b"".join(parts)


def _parts(data: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        while part := stream.read(_BLOCK):
            yield part


def _explained(text: bytes, name: str, said: str) -> ConfigError:
    """Return the first fault of JSON that is no recording, with path and value."""
    try:
        value: Any = without_nulls(msgspec.json.decode(text))
    except RecursionError:
        return ConfigError("nested too deep", file=name, fix=_FIX)
    except (msgspec.DecodeError, ValueError) as wrong:
        return ConfigError(str(wrong), file=name, fix=_FIX)
    found = value.get("schemaVersion") if isinstance(value, dict) else None
    if found != SCHEMA:
        return ConfigError(
            "no recording of a version that is read here",
            file=name,
            path="schemaVersion",
            value=found,
            fix=f"it must be {SCHEMA}; {_FIX}",
        )
    fault = next(explain(value, Recording), None)
    if fault is None:
        return ConfigError(said, file=name, fix=_FIX)
    error = to_error(fault, Source(name))
    return ConfigError(
        error.message, file=name, path=error.path, value=error.value, fix=error.fix or _FIX
    )
