"""Files of the live view's page: HTML, CSS and modules as they are, which hold no data.

Everything that the page shows it asks of ``/api/v1``, with the rights of who looks at it.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kaisched.daemon.serving import Page, Source, text_page

if TYPE_CHECKING:
    from kaisched.daemon.serving import Pages, Request

PREFIX: Final = "/page/"
FOLDER: Final = Path(__file__).parents[1] / "data" / "page"
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; style-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'"
)
"""Nothing from elsewhere, nothing inline, and no text that becomes markup."""
_HEADERS: Final = (
    ("Cache-Control", "no-cache"),
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)


class StaticPages:
    """The files of the page, read once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Read the files."""
        self._files = {
            f"{PREFIX}{path.relative_to(folder).as_posix()}": (
                _TYPES[path.suffix],
                path.read_bytes(),
            )
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        self._files["/"] = self._files[f"{PREFIX}{_INDEX}"]

    @property
    def pages(self) -> Pages:
        """The pages by path."""
        source = Source(self._page, (), ("if-none-match",))
        return {"/": source, PREFIX: source}

    def _page(self, request: Request) -> Page:
        found = self._files.get(request.path)
        if found is None:
            return text_page(HTTPStatus.NOT_FOUND, "no such file; the page is at /")
        content_type, body = found
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        headers = (("ETag", tag), *_HEADERS)
        if tag in [it.strip().removeprefix("W/") for it in request.if_none_match.split(",")]:
            return Page(HTTPStatus.NOT_MODIFIED, content_type, b"", headers)
        return Page(HTTPStatus.OK, content_type, body, headers)
