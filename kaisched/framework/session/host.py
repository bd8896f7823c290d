"""From what plugins see of a session back to the session: for functions that plugins may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.view import SessionView


def host_of(view: SessionView) -> Session:
    """Return the session behind a view, which is the very same object."""
    return cast("Session", view)
