"""Certificate and key, loaded again when their files change."""

from __future__ import annotations

import ssl
from pathlib import Path


class Certificate:
    """Certificate and key of a listener, with the times when their files last changed."""

    def __init__(self, cert: str, key: str) -> None:
        """Load both files.

        Raises:
            OSError: they cannot be read, or the key is not the certificate's.

        """
        self._files = Path(cert), Path(key)
        self._stamp = self._times()
        self.context = self._read()

    def renew(self) -> None:
        """Load the files again if they have changed; new connections use the new certificate.

        Raises:
            OSError: they are being written; the old certificate remains.

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
