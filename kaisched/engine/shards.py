"""Finding the one shard to work by, in a file or among other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaisched.engine.policy import default_shard
from kaisched.errors import ConfigError
from kaisched.objects import SchedulingShard
from kaisched.objects.load import load_manifests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kaisched.objects.load import Loaded


class FoundShard(NamedTuple):
    """A shard, where it was read, and what is told about it."""

    shard: SchedulingShard
    file: str
    warnings: list[str]


def read_shard(file: Path) -> FoundShard:
    """Read the one shard of a file.

    Raises:
        ConfigError: the file is not there, or holds no shard or several.
        ObjectError: the shard is wrong.

    """
    if not file.exists():
        raise ConfigError("no such file", file=str(file))
    loaded = load_manifests([file])
    if loaded.problems:
        raise loaded.problems[0]
    found = _only_shard(loaded)
    if found is None:
        raise ConfigError("holds no SchedulingShard", file=str(file))
    return found._replace(warnings=[str(warning) for warning in loaded.warnings])


def shard_among(loaded: Loaded) -> FoundShard:
    """Return the shard among the objects, or the default one where there is none.

    Raises:
        ConfigError: there are several.
        ObjectError: there is one, and it is wrong: another policy must not take its place.

    """
    for problem in loaded.problems:
        if problem.kind == SchedulingShard.KIND:
            raise problem
    return _only_shard(loaded) or FoundShard(default_shard(), "", [])


def shard_for(loaded: Loaded, files: Sequence[Path]) -> FoundShard:
    """Return the shard of a daemon: the file's that its settings name, or the manifests'.

    Raises:
        ConfigError: several files are named.

    """
    if len(files) > 1:
        raise ConfigError(
            "several shards in one process come with a later version",
            path="shards",
            fix="run one process for each",
        )
    return read_shard(files[0]) if files else shard_among(loaded)


def _only_shard(loaded: Loaded) -> FoundShard | None:
    shards = loaded.of(SchedulingShard)
    if len(shards) > 1:
        names = ", ".join(sorted(shard.name for shard in shards))
        raise ConfigError(f"several SchedulingShards: {names}", fix="choose one with --shard")
    if not shards:
        return None
    source = loaded.sources.get((SchedulingShard.KIND, shards[0].key))
    return FoundShard(shards[0], source.file if source is not None else "", [])
