"""Sessions that let plugins touch the public names of a session, and nothing of the host's.

The host passes the session itself, since a wrapper would cost every question. So it is the tests
that see to it: the kit opens its sessions this way.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kaisched.framework.memory import Memory
from kaisched.framework.session.session import HOST_ONLY, Session

if TYPE_CHECKING:
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.framework.policy import Policy


class BeyondViewError(AttributeError):
    """A plugin asked a session for what only the host may use, or wrote to it."""


class GuardedSession(Session):
    """A session that refuses any other name to whoever is not the session."""

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute.

        Raises:
            BeyondViewError: a plugin asks for what is the host's.

        """
        if name in HOST_ONLY or (name.startswith("_") and not name.startswith("__")):
            _refuse_others(f"session.{name} is not for plugins")
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute.

        Raises:
            BeyondViewError: a plugin does so.

        """
        _refuse_others(f"plugins set nothing of a session: {name}")
        super().__setattr__(name, value)


def _refuse_others(why: str) -> None:
    """Raise unless the caller's caller is of the session."""
    caller = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - the documented way
    if caller.partition(".")[0] != "kaisched":
        raise BeyondViewError(f"{why}; docs/reference/session.md names what is")


def open_session(
    snapshot: Snapshot, policy: Policy, now_s: float, usage: Usage | None = None
) -> Session:
    """Return a guarded session of which no plugin has been asked anything yet."""
    return GuardedSession(snapshot, usage, policy, now_s, Memory(), policy.questions)
