"""Recording: one file with all inputs of a cycle, so that the cycle can be run again.

``docs/reference/snapshot-file.md`` describes the file. A file may come from a stranger: it is plain
JSON, sizes are bounded before anything is read as a whole, and every value is checked.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from kaisched import __version__
from kaisched.core.axis import FIXED
from kaisched.objects.wire import ObjectMeta, StrictWire
from kaisched.objects.workloads import Gang

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.cluster.grouping import Owner
    from kaisched.cluster.state import Assumed, PoolState, StoreState
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.framework.policy import Policy
    from kaisched.objects.shard import SchedulingShard

SCHEMA: Final = "kaisched.io/snapshot/v1"
LATEST_S: Final = 1e11
"""Latest possible time of a recording, in seconds since 1970."""
_MOST_PARTS: Final = 1 << 62

Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)]
Parts = Annotated[int, msgspec.Meta(ge=0, le=_MOST_PARTS)]


class Versions(StrictWire, frozen=True, kw_only=True):
    """Versions of the software that made the recording."""

    kaisched: str
    python: str = ""
    numpy: str = ""
    plugins: dict[str, str] = {}
    """Enabled plugins, with the name and version of their packages."""


class RecordedOwner(Gang, frozen=True, kw_only=True):
    """Metadata of a workload, and the gang in its spec."""

    group: str
    kind: str
    metadata: ObjectMeta

    @property
    def gang(self) -> Gang:
        """The gang alone."""
        return Gang(**{name: getattr(self, name) for name in Gang.__struct_fields__})


class RecordedAssumption(StrictWire, frozen=True, kw_only=True):
    """A pod with a bind, an eviction or a promise that was sent and is not confirmed."""

    pod: str
    node: str = ""
    sent: Literal["bind", "eviction", "promise"]
    cards: list[str] = []
    """The groups of the shared GPUs of a bind."""


class RecordedPast(StrictWire, frozen=True, kw_only=True):
    """Times of a job's last start and eviction, as far as the scheduler itself knew."""

    started_s: Seconds | None = msgspec.field(default=None, name="startedSeconds")
    evicted_s: Seconds | None = msgspec.field(default=None, name="evictedSeconds")


class RecordedPools(StrictWire, frozen=True, kw_only=True):
    """Which jobs with lists of node pools were the shard's, each by one of its pods."""

    served: dict[str, bool]
    """The pools that shards serve, with whether each admits all projects."""
    owned: list[str] = []
    impatient: list[str] = []
    """Of jobs that might evict although idle pools come first."""


class RecordedUsage(StrictWire, frozen=True, kw_only=True):
    """Usage history as the division saw it, in parts per billion of the capacity."""

    resources: list[str]
    queues: dict[str, list[Parts]]
    age_s: Seconds | None = msgspec.field(default=None, name="ageSeconds")
    """None without any sample."""
    coverage: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    state: Literal["fresh", "partial", "stale", "absent"] = "fresh"
    reasons: list[str] = []
    weighed_s: Seconds | None = msgspec.field(default=None, name="weighedSeconds")
    """None if it is unknown how much of the past the parts cover."""


class Recording(StrictWire, frozen=True, kw_only=True):
    """All inputs of one cycle, and a digest of its result."""

    schema_version: Literal["kaisched.io/snapshot/v1"]
    origin: Literal["daemon", "cluster", "manifests"]
    is_redacted: bool = msgspec.field(default=False, name="redacted")
    versions: Versions
    now_s: Seconds = msgspec.field(name="nowSeconds")
    shard: dict[str, Any]
    """The SchedulingShard, without the address of its usage store."""
    scheduler_names: list[str]
    extended: list[str] = []
    """Resources besides cpu, memory, gpu and pods."""
    objects: list[msgspec.Raw]
    owners: list[RecordedOwner] = []
    assumed: list[RecordedAssumption] = []
    past: dict[str, RecordedPast] = {}
    evictions_s: list[Seconds] = msgspec.field(default_factory=list, name="evictionsSeconds")
    """Times of the evictions in the last hour, for an eviction budget."""
    disrupted: list[str] = []
    """Evicted pods that disruption budgets still count."""
    stuck: list[str] = []
    """Pods deleted so long ago that their room is no longer expected."""
    without_owner: list[str] = []
    """Pods that waited for an unread owner."""
    has_volumes: bool = msgspec.field(default=False, name="volumes")
    """Whether claims, volumes and classes were known, so that pods waited for their claims."""
    offers_shares: bool = msgspec.field(default=False, name="shares")
    """Whether pods could share GPUs."""
    pools: RecordedPools | None = None
    """None where there was one pool."""
    has_reservations: bool = msgspec.field(default=False, name="reservations")
    """Whether reservation pods held the GPUs that pods shared."""
    writes_lookups: bool = msgspec.field(default=False, name="lookups")
    """Whether ConfigMaps were written in which pods look up their GPU."""
    claims: str = ""
    """Whether claims on devices were allocated: empty if the objects say so, "on", "off", or why
    pods with claims waited."""
    usage: RecordedUsage | None = None
    facts: dict[str, Any] = {}
    """Memory of plugins and actions from the cycle before, by their names."""
    result: str = ""
    """SHA-256 of the result's canonical bytes; empty without a result."""


def record(
    origin: Literal["daemon", "cluster", "manifests"],
    state: StoreState,
    shard: SchedulingShard,
    policy: Policy,
    *,
    schedulers: Iterable[str],
    now_s: float,
    usage: RecordedUsage | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Recording:
    """Return a recording without a result: see :func:`kaisched.engine.replaying.sealed`."""
    return Recording(
        schema_version=SCHEMA,
        origin=origin,
        versions=_versions(policy),
        now_s=now_s,
        shard=plain_shard(shard, policy),
        scheduler_names=sorted(schedulers),
        extended=list(state.extended),
        objects=[msgspec.Raw(data) for data in state.objects],
        owners=[recorded_owner(it) for it in state.owners],
        assumed=[
            RecordedAssumption(pod=it.pod, node=it.node, sent=_sent(it), cards=[*it.cards])
            for it in state.assumed
        ],
        past={
            job: RecordedPast(started_s=it.started_s, evicted_s=it.evicted_s)
            for job, it in state.past.items()
        },
        evictions_s=list(state.evictions_s),
        disrupted=list(state.disrupted),
        stuck=list(state.stuck),
        without_owner=list(state.without_owner),
        has_volumes=state.has_volumes,
        offers_shares=state.offers_shares,
        pools=recorded_pools(state.pools),
        has_reservations=state.sharing.has_reservations,
        writes_lookups=state.sharing.writes_lookups,
        claims=state.claims,
        usage=usage,
        facts=dict(facts or {}),
    )


def recorded_pools(pools: PoolState | None) -> RecordedPools | None:
    """Return what a shard owned as it is recorded."""
    if pools is None:
        return None
    return RecordedPools(
        served=dict(pools.served), owned=list(pools.owned), impatient=list(pools.impatient)
    )


def recorded_owner(owner: Owner) -> RecordedOwner:
    """Return a workload as it is recorded."""
    return RecordedOwner(
        group=owner.api_group,
        kind=owner.kind,
        metadata=owner.meta,
        **{name: getattr(owner.gang, name) for name in Gang.__struct_fields__},
    )


def _sent(assumed: Assumed) -> Literal["bind", "eviction", "promise"]:
    if assumed.is_promise:
        return "promise"
    return "eviction" if assumed.is_leaving else "bind"


def recorded_usage(usage: Usage | None, snapshot: Snapshot) -> RecordedUsage | None:
    """Return usage by name; ``snapshot`` is the one that the usage is for."""
    if usage is None:
        return None
    return RecordedUsage(
        resources=list(snapshot.axis.names),
        queues=dict(zip(snapshot.queues.name, usage.parts.T.tolist(), strict=True)),
        age_s=usage.age_s if usage.age_s < float("inf") else None,
        coverage=usage.coverage,
        state=usage.state.value,
        reasons=list(usage.reasons),
        weighed_s=usage.weighed_s if usage.weighed_s < float("inf") else None,
    )


def plain_shard(shard: SchedulingShard, policy: Policy) -> dict[str, Any]:
    """Return a shard as plain values, without the address of its usage store.

    An address may hold a password, and a replay reads no store. The store itself remains, since it
    enables fairness over time. Overrides by the process are written into the shard.
    """
    spec: dict[str, Any] = msgspec.to_builtins(shard.spec)
    if policy.evictions_per_hour >= 0:
        spec["evictionsPerHour"] = policy.evictions_per_hour
    store = spec.get("usageDBConfig")
    if isinstance(store, dict):
        for secret in ("connectionString", "connectionStringEnvVar", "extraParams"):
            store.pop(secret, None)
        store.get("usageParams", {}).pop("extraParams", None)
    return {
        "apiVersion": shard.API_VERSION,
        "kind": shard.KIND,
        "metadata": {"name": shard.name},
        "spec": spec,
    }


def resources_of(recording: Recording) -> tuple[str, ...]:
    """Return the names of all resources, in the order of the axis."""
    return (*FIXED, *sorted(recording.extended))


def _versions(policy: Policy) -> Versions:
    return Versions(
        kaisched=__version__,
        python=platform.python_version(),
        numpy=version("numpy"),
        plugins={
            it.plugin.name: f"{it.distribution} {it.version}".strip() for it in policy.plugins
        },
    )
