"""Finds shards in files or among other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.engine.policy import build_policy, default_shard
from kaisched.errors import Collector, ConfigError
from kaisched.objects.load import identity_of, load_manifests
from kaisched.objects.shard import SchedulingShard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kaisched.errors import KaischedError, ObjectError
    from kaisched.objects.faults import Source
    from kaisched.objects.load import Loaded


class FoundShard(NamedTuple):
    """A shard, its file, and warnings about it."""

    shard: SchedulingShard
    file: str
    warnings: list[str]


def read_shard(file: Path) -> FoundShard:
    """Read the one shard of a file.

    Raises:
        ConfigError: the file is missing, or holds no shard or several.
        ObjectError: the shard is wrong.

    """
    if not file.exists():
        raise ConfigError("no such file", file=str(file))
    loaded = load_manifests([file])
    _stop_if_wrong(loaded, loaded.problems)
    found = _only_shard(loaded, str(file), _ONE_IN_FILE)
    if found is None:
        raise ConfigError("holds no SchedulingShard", file=str(file))
    return found._replace(warnings=[str(warning) for warning in loaded.warnings])


def shard_among(loaded: Loaded) -> FoundShard:
    """Return the shard among the objects, or the default one without any.

    Raises:
        ConfigError: there are several.
        ObjectError: the shard is wrong: another policy must not take its place.

    """
    _stop_if_wrong(loaded, [it for it in loaded.problems if it.kind == SchedulingShard.KIND])
    return _only_shard(loaded) or FoundShard(default_shard(), "", [])


def shards_among(loaded: Loaded) -> list[FoundShard]:
    """Return all shards among the objects, by name, or the default one without any.

    Raises:
        ConfigError: two of them are for the same nodes.
        ObjectError: a shard is wrong: another policy must not take its place.

    """
    shards = loaded.of(SchedulingShard)
    if len({shard.spec.partition_label_value for shard in shards}) < max(len(shards), 2):
        return [shard_among(loaded)]
    _stop_if_wrong(loaded, [it for it in loaded.problems if it.kind == SchedulingShard.KIND])
    return [_found(loaded, shard) for shard in sorted(shards, key=lambda it: it.name)]


def shards_in(files: Sequence[Path], among: Sequence[SchedulingShard]) -> list[FoundShard]:
    """Return the shards of a process: from files, or from its cluster, or the default one.

    Raises:
        ConfigError: a file is missing, or two shards have equal nodes.
        ObjectError: a shard is wrong.

    """
    errors, found = Collector(), []
    for file in files:
        with errors.collecting():
            found.append(read_shard(file))
    errors.stop_if_any()
    found = found or [FoundShard(shard, "", []) for shard in among]
    found = found or [FoundShard(default_shard(), "", [])]
    for error in shared_pools((one.shard, one.file) for one in found):
        raise error
    return found


def shard_for(loaded: Loaded, files: Sequence[Path]) -> FoundShard:
    """Return the shard of a daemon: from the file in its settings, or among the manifests.

    Raises:
        ConfigError: several files are named.

    """
    if len(files) > 1:
        raise ConfigError(
            "a cluster in memory has one shard",
            path="shards",
            fix="run one process for each",
        )
    return read_shard(files[0]) if files else shard_among(loaded)


def policy_errors(
    shard: SchedulingShard, file: str = "", reported: Iterable[KaischedError] = ()
) -> list[KaischedError]:
    """Return the errors of the policy of a shard, apart from those at paths that are reported."""
    errors = Collector()
    with errors.collecting():
        build_policy(shard, file)
    paths = {getattr(error, "path", "") for error in reported} - {""}
    return [error for error in errors.errors if getattr(error, "path", "") not in paths]


def shard_errors(loaded: Loaded) -> list[tuple[KaischedError, Source]]:
    """Return the errors of the policies of all shards, faulty ones included, with their sources."""
    reported = [problem for problem in loaded.problems if problem.kind == SchedulingShard.KIND]
    shards = [
        *((it, loaded.sources[identity_of(it)]) for it in loaded.of(SchedulingShard)),
        *((it, source) for it, source in loaded.faulty if isinstance(it, SchedulingShard)),
    ]
    return [
        (error, source)
        for shard, source in shards
        for error in policy_errors(shard, source.file, reported)
    ]


def shared_pools(found: Iterable[tuple[SchedulingShard, str]]) -> Iterator[ConfigError]:
    """Yield an error for each shard with the nodes or the name of an earlier one."""
    earlier: list[SchedulingShard] = []
    for shard, file in found:
        pool = shard.spec.partition_label_value
        other = next(
            (
                it
                for it in earlier
                if it.name == shard.name or it.spec.partition_label_value == pool
            ),
            None,
        )
        earlier.append(shard)
        if other is not None:
            yield ConfigError(
                f"two shards for the same nodes, or of one name: {other.name} and {shard.name}",
                file=file,
                path="spec.partitionLabelValue",
                value=pool,
                fix="give each shard a name and a node pool of its own",
            )


def _stop_if_wrong(loaded: Loaded, problems: Sequence[ObjectError]) -> None:
    """Raise the problems of shards, with those that only the policy of a shard has."""
    if not problems:
        return
    errors = Collector([*problems, *(error for error, _ in shard_errors(loaded))])
    errors.stop_if_any()


_ONE_BY_FILE: Final = "name the file of one with --shard"
_ONE_IN_FILE: Final = "leave one in the file; plan takes several with -f, for a node pool each"


def _only_shard(loaded: Loaded, file: str = "", fix: str = _ONE_BY_FILE) -> FoundShard | None:
    shards = loaded.of(SchedulingShard)
    if len(shards) > 1:
        names = ", ".join(sorted(shard.name for shard in shards))
        raise ConfigError(f"several SchedulingShards: {names}", file=file, fix=fix)
    if not shards:
        return None
    return _found(loaded, shards[0])


def _found(loaded: Loaded, shard: SchedulingShard) -> FoundShard:
    source = loaded.sources.get((SchedulingShard.KIND, shard.key))
    return FoundShard(shard, source.file if source is not None else "", [])
