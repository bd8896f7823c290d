"""Certificate and key, read again when their files change."""

from __future__ import annotations

import ssl
from pathlib import Path


class Certificate:
    """Knows the files, and when they were last changed."""

    def __init__(self, cert: str, key: str) -> None:
        """Read them.

        Raises:
            OSError: they cannot be read, or do not belong together.

        """
        self._files = Path(cert), Path(key)
        self._stamp = self._times()
        self.context = self._read()

    def renew(self) -> None:
        """Read them again if they have changed; connections from now on have the new one.

        Raises:
            OSError: they are being written; the one there is stays.

        """
        stamp = self._times()
        if stamp != self._stamp:
            self.context = self._read()
            self._stamp = stamp

    def _times(self) -> list[int]:
        return [file.stat().st_mtime_ns for file in self._files]

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files)
        return context
