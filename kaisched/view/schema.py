"""Shapes of the live view's documents, for the description of the API and for tests.

The documents themselves are plain dicts, made where their contents are known; a test reads each of
them with these types, which refuse a field that is missing or not described.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from kaisched.view.schema_amounts import Amounts, Doc, Project
from kaisched.view.schema_devices import Card, Instances

Time: TypeAlias = Annotated[str, Meta(description="RFC 3339, in UTC.")]
Counts: TypeAlias = Annotated[
    dict[str, int], Meta(description="Waiting jobs by reason, those of queues below included.")
]


class Document(Doc):
    """What every document begins with."""

    schema_version: Annotated[str, Meta(description="`kaisched.io/view/v1`; of one job, why/v1.")]
    shard: str
    revision: Annotated[
        int, Meta(description="Grows when a cycle has found anything else than the one before.")
    ]
    since: Annotated[Time | None, Meta(description="End of the first cycle of the revision.")]


class Listed(Document):
    """A part of a list."""

    total: Annotated[int, Meta(description="Entries of the whole list that the reader sees.")]
    offset: int
    limit: int
    next: Annotated[int | None, Meta(description="The next offset; null at the end.")]


class Failure(Doc):
    """A plugin or an action that failed; then `question` is `run`."""

    plugin: str
    question: str
    error: str


class Gpus(Doc):
    """GPUs of the shard."""

    total: float
    held: float


class JobCounts(Doc):
    """Jobs or pods of all queues; one that partly runs counts in both."""

    running: int
    pending: int


class UsageState(Doc):
    """How reliable the usage history is."""

    state: Literal["fresh", "partial", "stale", "absent"]
    reasons: list[str]
    coverage: Annotated[float, Meta(description="Part of the window that samples cover, 0 to 1.")]


class Overview(Document):
    """Totals of a shard."""

    cycle: Annotated[int, Meta(description="Number of the last cycle.")]
    time: Annotated[Time | None, Meta(description="Its end.")]
    duration_seconds: float | None
    abandoned: Annotated[
        str | None, Meta(description="Why it ended without decisions; null if it did not.")
    ]
    failures: list[Failure]
    capacity: Annotated[Amounts, Meta(description="What is divided among the queues.")]
    gpus: Gpus
    nodes: int
    queues: int
    jobs: JobCounts
    pods: JobCounts
    pending: Counts
    evictions: Annotated[int, Meta(description="Evictions that `/api/v1/evictions` lists.")]
    usage: Annotated[UsageState | None, Meta(description="Null without a usage history.")]


class LeftOut(Doc):
    """Demand that could not be met if nothing else ran, and counts for no share."""

    amounts: Amounts
    reason: Annotated[str, Meta(description="The refusal of most of its jobs.")]
    message: str


class Queue(Doc):
    """A queue; its amounts contain those of the queues below it."""

    name: str
    parent: str | None
    fair_share: Annotated[Amounts, Meta(description="What its demand and weight entitle it to.")]
    allocated: Annotated[Amounts, Meta(description="What its pods hold after the cycle.")]
    requested: Annotated[Amounts, Meta(description="What running and pending pods ask for.")]
    deserved: Annotated[Amounts, Meta(description="Its quota.")]
    unschedulable: Annotated[
        LeftOut | None,
        Meta(description="What its jobs ask for and could never have; not in `requested`."),
    ]
    limit: Amounts
    saturation: Annotated[
        float | None,
        Meta(description="The largest part of its fair share that it holds, of any resource."),
    ]
    figures: Annotated[
        dict[str, float | None], Meta(description="What the policy tells besides, such as `share`.")
    ]
    usage: Annotated[
        dict[str, float] | None,
        Meta(description="Decayed usage, as a part of the capacity; null without a history."),
    ]
    problem: Annotated[str | None, Meta(description="Why it can start nothing, if it cannot.")]
    stop_policy: Literal["Hold", "HoldAndDrain"] | None
    running: Annotated[int, Meta(description="Jobs of it, or of queues below, with running pods.")]
    pending: Counts
    project: Annotated[
        Project | None,
        Meta(
            description="Its project over all node pools; null if that has queues in one pool only,"
            " of an earlier cycle, and in the document of a job."
        ),
    ]


class Queues(Document):
    """Queues, parents before children."""

    queues: list[Queue]


class Place(Doc):
    """The place of a waiting job in its queue, from 1."""

    position: int
    of: int


class PodCounts(Doc):
    """Pods of one job."""

    running: int
    pending: int


class JobGpus(Doc):
    """GPUs of one job."""

    held: float
    pending: Annotated[float, Meta(description="What its waiting pods ask for.")]


class Pending(Doc):
    """A pending pod group, as in `kaisched plan -o json`."""

    pod_group: Annotated[str, Meta(description="`namespace/name`.")]
    queue: Annotated[str, Meta(description="Name of its queue, even if there is none.")]
    reason: Annotated[str | None, Meta(description="Null if it does not wait.")]
    message: Annotated[
        str | None,
        Meta(
            description="One sentence with the numbers; in a list only with `messages`, and null"
            " where the loop had no time to tell."
        ),
    ]
    advice: Annotated[list[dict[str, Any]], Meta(description="Changes that were tried for it.")]
    turn: Annotated[
        dict[str, Any] | None,
        Meta(description="Whose turn it is, level by level; only of one job."),
    ]


class Job(Pending):
    """A job."""

    state: Annotated[
        Literal["pending", "partly", "running", "ending"],
        Meta(description="It waits; some of its pods run and more wait; it runs; it ends."),
    ]
    place: Annotated[Place | None, Meta(description="Null if it takes no part in the order.")]
    priority: int
    preemptible: bool
    created: Time | None
    started: Annotated[Time | None, Meta(description="Null while none of its pods runs.")]
    pods: PodCounts
    gpus: JobGpus


class Jobs(Listed):
    """Jobs that match the parameters, in order."""

    hidden: Annotated[
        int,
        Meta(
            description="Jobs that match, of queues that the reader may not get; none matches a"
            " name or namespace."
        ),
    ]
    reasons: Annotated[
        dict[str, int], Meta(description="Waiting jobs that match by reason, hidden ones too.")
    ]
    jobs: list[Job]


class NodeMiss(Doc):
    """Nodes that are out for a job."""

    reason: str
    nodes: int
    detail: str


class Pod(Doc):
    """A pod of a job."""

    pod: str
    state: Annotated[str, Meta(description="Its state after the cycle, in words.")]
    node: Annotated[str | None, Meta(description="Where it is, will be, or is promised room.")]
    gpus: float


class Decision(Doc):
    """A decision on a job."""

    cycle: int
    time: Time | None
    what: Literal["waits", "bound", "promised", "evicted"]
    pod: str | None
    node: str | None
    reason: Annotated[
        str | None, Meta(description="The reason that it waits for, or was evicted for.")
    ]


class EvictedFor(Doc):
    """Why pods of a job were evicted."""

    action: str
    beneficiary: str | None
    reason: str


class Why(Document):
    """Everything about one job: what `kaisched why -o json` prints, and more."""

    pod_group: str
    pending: Annotated[Pending | None, Meta(description="Null if it does not wait.")]
    complete: Annotated[
        bool, Meta(description="False where the loop had no time to tell the sentences: ask again.")
    ]
    because: Annotated[str | None, Meta(description="The sentence alone, without what would help.")]
    cure: Annotated[str | None, Meta(description="What helps against its reason in general.")]
    node_misses: list[NodeMiss]
    eviction_refusals: Annotated[
        dict[str, str], Meta(description="By action: why it evicted nothing for the job.")
    ]
    pods: list[Pod]
    queues: Annotated[list[Queue], Meta(description="Its queue and those above it.")]
    job: Job
    evictions: Annotated[
        list[EvictedFor], Meta(description="Why its pods were evicted lately, each reason once.")
    ]
    when: Annotated[
        dict[str, Any] | None, Meta(description="Null here: `kaisched why --when` foresees it.")
    ]
    timeline: Annotated[list[Decision], Meta(description="The last decisions, the latest first.")]


class Whose(Doc):
    """A job and its queue."""

    pod_group: Annotated[str | None, Meta(description="Null for jobs that the reader may not see.")]
    queue: Annotated[str | None, Meta(description="Null for pods of other schedulers.")]
    pods: int


class Holder(Whose):
    """A job that holds room of a node."""

    gpus: Annotated[float, Meta(description="Shares, claims and MIG instances included.")]
    devices: Annotated[
        list[str], Meta(description="`driver/pool/device` that its claims have, each once.")
    ]
    ending: Annotated[bool, Meta(description="Whether its pods are being deleted.")]


class NodeGpus(Doc):
    """GPUs of a node as queues count them: for pods, for claims, and MIG instances as parts."""

    total: float
    free: float


class Node(Doc):
    """A node and who holds it."""

    name: str
    ready: bool
    schedulable: bool
    allocatable: Amounts
    free: Amounts
    gpus: NodeGpus
    holders: list[Holder]
    cards: Annotated[list[Card], Meta(description="GPUs that pods share; they count in `gpus`.")]
    instances: Annotated[list[Instances], Meta(description="MIG instances; they count in `gpus`.")]
    promised: Annotated[list[Whose], Meta(description="Who waits for room being released there.")]
    domains: Annotated[
        dict[str, str],
        Meta(description="Its domain at each level of a topology, after those around that."),
    ]


class Nodes(Listed):
    """Nodes by name."""

    nodes: list[Node]


class Eviction(Doc):
    """An eviction, as in `kaisched plan -o json` and with its queues."""

    cycle: int
    time: Time | None
    pod: str
    pod_group: str
    queue: str
    node: str
    action: str
    rule: Annotated[str, Meta(description="What entitled the beneficiary, a word of the policy.")]
    beneficiary: Annotated[
        str | None, Meta(description="A pod group; null for none, or one the reader may not see.")
    ]
    beneficiary_queue: str | None
    reason: str


class Evictions(Listed):
    """Evictions of the last cycles, the latest first."""

    hidden: Annotated[int, Meta(description="Those of queues that the reader may not get.")]
    evictions: list[Eviction]


class Index(Doc):
    """What is served here."""

    schema_version: str
    shards: list[str]
    paths: list[str]


class Fault(Doc):
    """What is wrong with a request."""

    message: str
    path: Annotated[str | None, Meta(description="The parameter that is wrong.")]
    value: str | None
    fix: Annotated[str, Meta(description="What to write instead.")]


class Error(Doc):
    """The answer to a request that fails."""

    error: Fault
