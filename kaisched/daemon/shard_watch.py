"""Watch for changes of SchedulingShards, which are reported but not applied.

Plugins live as long as their shard, and their arguments do not change meanwhile. So a change
takes effect at the next start, like a change of any other setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from kaisched.engine.policy import default_shard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.cluster.kubernetes.change import Change
    from kaisched.objects.shard import ShardSpec


class ShardWatch:
    """Compares the present shards of the cluster with those at our start."""

    def __init__(self) -> None:
        """Report nothing before :meth:`start`, which is never called if files define the shards."""
        self._served: dict[str, ShardSpec] | None = None
        self._found: dict[str, ShardSpec] = {}
        self._log: Any = structlog.get_logger()
        self.outdated: tuple[str, ...] = ()
        """Changes that a restart would apply, for people to read."""

    def start(self, shards: Sequence[Any]) -> None:
        """Remember the cluster's shards at the start."""
        self._found = {shard.name: shard.spec for shard in shards}
        self._served = self._wanted()

    def tell(self, change: Change) -> None:
        """Process an added, changed or deleted shard; from the reflector's thread."""
        shard: Any = change.obj
        if self._served is None:
            return
        if change.is_gone:
            self._found.pop(shard.name, None)
        else:
            self._found[shard.name] = shard.spec
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
