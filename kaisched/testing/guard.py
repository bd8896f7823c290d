"""Sessions that let plugins touch what the view of a session names, and nothing else.

The host passes the session itself, since a wrapper would cost every question. So it is the tests
that see to it: the kit opens its sessions this way.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.framework.session.view import SessionView

if TYPE_CHECKING:
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.framework.policy import Policy

NAMES: Final = frozenset(name for name in vars(SessionView) if not name.startswith("_"))
"""What plugins may touch."""


class BeyondViewError(AttributeError):
    """A plugin asked a session for what its view does not name, or wrote to it."""


class GuardedSession(Session):
    """A session that refuses any other name to whoever is not the host."""

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute.

        Raises:
            BeyondViewError: a plugin asks for what the view does not have.

        """
        if name not in NAMES and not name.startswith("__"):
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
    """Raise unless the caller's caller is of the host."""
    caller = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - the documented way
    if caller.partition(".")[0] != "kaisched":
        raise BeyondViewError(f"{why}; docs/reference/session.md names what is")


def open_session(
    snapshot: Snapshot, policy: Policy, now_s: float, usage: Usage | None = None
) -> SessionView:
    """Return a guarded session of which no plugin has been asked anything yet."""
    return GuardedSession(snapshot, usage, policy, now_s, Memory(), policy.questions)
