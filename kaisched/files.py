"""Files that are replaced whole: written beside their place, and renamed when all is on the disk.

A full disk, or an end in between, leaves what was there before.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_RIGHTS: Final = 0o666
"""Of a new file, less what the umask takes."""


def replace_file(path: Path, data: bytes) -> None:
    """Write one file as :func:`replace_files` does.

    Raises:
        OSError: it cannot be written, or is no regular file.

    """
    replace_files({path: data})


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Write all files beside their places, then rename them; links lead on, rights stay.

    Raises:
        OSError: one cannot be written, or is no regular file; its name is in the error.

    """
    written: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            target = path.resolve()
            written[target] = _beside(path, target, data)
        for target, beside in written.items():
            beside.replace(target)
    except BaseException:
        for beside in written.values():
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        raise


def _beside(path: Path, target: Path, data: bytes) -> Path:
    mode = None
    with suppress(FileNotFoundError):
        found = target.stat().st_mode
        if stat.S_ISDIR(found):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found):
            raise OSError(errno.EINVAL, "is a device or pipe, no file", str(path))
        mode = stat.S_IMODE(found)
    beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}")
    try:
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _RIGHTS)
        try:
            with os.fdopen(number, "wb", closefd=False) as file:
                file.write(data)
            if mode is not None:
                os.fchmod(number, mode)
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as wrong:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        wrong.filename = str(path)  # the reader knows no other name
        raise
    return beside
