"""Watch for changes of SchedulingShards, which are reported but not applied.

Plugins live as long as their shard, and their arguments do not change meanwhile. So a change
takes effect at the next start, like a change of any other setting. A change with an error takes
effect never: its shard goes on as it was usable last, after a restart too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from kaisched.daemon.stored_shards import read
from kaisched.engine.policy import default_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaisched.cluster.kubernetes.reflector import Change
    from kaisched.daemon.stored_shards import StoredShard
    from kaisched.errors import KaischedError
    from kaisched.objects.shard import SchedulingShard, ShardSpec


class ShardWatch:
    """Compares the present shards of the cluster with those at our start."""

    def __init__(self, report: Callable[[StoredShard], None] = lambda _: None) -> None:
        """Report nothing before :meth:`start`, which is never called if files define the shards.

        ``report`` is called with each shard whose status may have to be written.
        """
        self._served: dict[str, ShardSpec] | None = None
        self._found: dict[str, ShardSpec] = {}
        self._report = report
        self._log: Any = structlog.get_logger()
        self.outdated: tuple[str, ...] = ()
        """Changes that a restart would apply, for people to read."""
        self.wrong: dict[str, str] = {}
        """The first error of each shard that is wrong, by name."""

    def start(
        self, shards: Sequence[SchedulingShard], wrong: Mapping[str, Sequence[KaischedError]]
    ) -> None:
        """Remember the cluster's shards at the start, and the errors of wrong ones by name."""
        self._found = {shard.name: shard.spec for shard in shards}
        self._served = self._wanted()
        for name, errors in wrong.items():
            self._note_errors(name, errors)

    def tell(self, change: Change) -> None:
        """Process an added, changed or deleted shard; from the reflector's thread."""
        stored: Any = change.obj
        if self._served is None:
            return
        if change.is_gone:
            self._found.pop(stored.name, None)
            self.wrong.pop(stored.name, None)
        else:
            self._report(stored)
            reading = read(stored)
            self._note_errors(stored.name, reading.errors)
            if reading.shard is not None:
                self._found[stored.name] = reading.shard.spec
        wanted = self._wanted()
        outdated = tuple(
            f"{name}: {_difference(self._served.get(name), wanted.get(name))}"
            for name in sorted({*self._served, *wanted})
            if self._served.get(name) != wanted.get(name)
        )
        if outdated != self.outdated:
            self.outdated = outdated
            if outdated:
                fix = "restart the scheduler to apply them; until then it works as at its start"
                self._log.warning("shards_changed", shards=list(outdated), fix=fix)
            else:
                self._log.info("shards_as_at_start")

    def summary(self) -> str:
        """Return how the present shards differ from those at the start, for a probe."""
        texts = [f"{name} is wrong: {text}" for name, text in sorted(self.wrong.items())]
        if self.outdated:
            texts.append(f"restart to apply changes: {', '.join(self.outdated)}")
        return "; ".join(texts) or "as at the start"

    def _note_errors(self, name: str, errors: Sequence[KaischedError]) -> None:
        """Log the errors of a shard, once."""
        if not errors:
            self.wrong.pop(name, None)
        elif self.wrong.get(name) != str(errors[0]):
            self.wrong[name] = str(errors[0])
            fix = (
                "correct it; until then it counts as it was usable last, after a restart too"
                if name in self._found
                else "correct or delete it: it was never usable, and ends the next start"
            )
            self._log.error("shard_wrong", shard=name, err=[str(it) for it in errors], fix=fix)

    def _wanted(self) -> dict[str, ShardSpec]:
        """Return the shards that a restart would serve: without any, the default one."""
        default = default_shard()
        return dict(self._found) or {default.name: default.spec}


def _difference(served: ShardSpec | None, wanted: ShardSpec | None) -> str:
    """Name the parts in which two specs differ."""
    if served is None:
        return "is new"
    if wanted is None:
        return "is gone"
    old, new = msgspec.to_builtins(served), msgspec.to_builtins(wanted)
    parts = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return ", ".join(f"spec.{part}" for part in parts)
