"""What came of a case."""

from dataclasses import dataclass


class NotBuiltError(Exception):
    """The case needs a feature that this scheduler does not have; the text names it."""


@dataclass(frozen=True)
class Outcome:
    """One line of the report."""

    id: str
    mode: str
    """``single`` or ``rounds`` for scheduling cases, ``unit`` for the others."""
    group: str
    """The action of a single case, ``rounds``, or the kind of a unit case."""
    features: tuple[str, ...]
    outcome: str
    """``pass``, ``fail`` or ``deviation``."""
    detail: str = ""
    """Why it is no pass: ``node`` where only a node differs, ``not built: ...``, the name of the
    rule of a deviation, or what differs."""
    note: str = ""
    """More about it: which node, or what differs in a deviation."""

    def as_json(self) -> dict[str, object]:
        """Return the report's entry."""
        return {
            "id": self.id,
            "mode": self.mode,
            "kind" if self.mode == "unit" else "action": self.group,
            "features": list(self.features),
            "outcome": self.outcome,
            "detail": self.detail,
            "note": self.note,
        }
