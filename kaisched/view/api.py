"""The live view's API: the shapes of its documents, its paths with their parameters, and OpenAPI.

The documents themselves are plain dicts, made where their contents are known; a test reads each of
them with these types, which refuse a field that is missing or not described.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from kaisched.view.hours import MOST_HOURS
from kaisched.view.jobs import SORTS, STATES, WAITING
from kaisched.view.nodes import NODE_STATES
from kaisched.view.paths import CHANGES, MOST, ROOT, USUAL, WHATIF

Amounts: TypeAlias = Annotated[
    dict[str, float | None],
    Meta(
        description="By resource: `gpu` in GPUs, `cpu` in cores, `memory` in bytes, others in"
        " pieces; null is unlimited."
    ),
]


class Doc(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A JSON object with exactly these fields."""


class Workload(Doc):
    """What a job comes from: the topmost owner of its pods, or a PodGroup that a person wrote."""

    kind: str
    namespace: str
    name: str
    part: Annotated[
        str | None,
        Meta(description="Which of several jobs of it, such as the name of a pod; null for one."),
    ]


class Totals(Doc):
    """Amounts of one queue, or of several."""

    fair_share: Amounts
    allocated: Amounts
    requested: Amounts
    deserved: Amounts


class PoolPart(Totals):
    """What a project has in one node pool."""

    node_pool: Annotated[str, Meta(description="`default` for nodes without the label.")]
    shard: str
    queue: Annotated[str, Meta(description="Its queue there.")]


class Project(Totals):
    """Sums over the node pools whose shards this process leads, of the last cycle of each."""

    name: str
    pools: list[PoolPart]


class InstanceHolder(Doc):
    """A job that has MIG instances of one profile."""

    pod_group: Annotated[str | None, Meta(description="Null for jobs that the reader may not see.")]
    workload: Workload | None
    queue: str | None
    instances: int
    ending: Annotated[bool, Meta(description="Whether its pods are being deleted.")]


class Instances(Doc):
    """MIG instances of one profile on a node."""

    resource: Annotated[str, Meta(description="Such as `nvidia.com/mig-1g.5gb`.")]
    part: Annotated[float, Meta(description="What each counts as, in GPUs.")]
    total: int
    free: int
    holders: list[InstanceHolder]


class Sharer(Doc):
    """A pod that has a part of a GPU."""

    pod_group: Annotated[str | None, Meta(description="Null for jobs that the reader may not see.")]
    workload: Workload | None
    queue: str | None
    part: Annotated[float, Meta(description="Of the GPU, 0 to 1.")]


class Card(Doc):
    """A GPU that pods share."""

    slot: Annotated[int, Meta(description="A name for it on its node, not the index of hardware.")]
    free: Annotated[float, Meta(description="The part of it that is left.")]
    holders: list[Sharer]


Time: TypeAlias = Annotated[str, Meta(description="RFC 3339, in UTC.")]
Counts: TypeAlias = Annotated[
    dict[str, int], Meta(description="Waiting jobs by reason, those of queues below included.")
]


class Document(Doc):
    """What every document begins with."""

    schema_version: Annotated[str, Meta(description="`kaisched.io/view/v1`; of one job, why/v1.")]
    shard: str
    revision: Annotated[int, Meta(description="Grows when a cycle differs from the one before.")]
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
            description="Its project over all node pools; null with queues in one pool only, of an"
            " earlier cycle, and in the document of a job."
        ),
    ]


class Queues(Document):
    """Queues, parents before children."""

    queues: list[Queue]


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
    wrong: Annotated[list[str], Meta(description="What is wrong now, a line each.")]
    oldest_wait_seconds: Annotated[
        float | None, Meta(description="The longest wait of a waiting job.")
    ]
    waiting: Annotated[float, Meta(description="GPUs that waiting pods ask for.")]
    furthest: Annotated[
        list[Queue], Meta(description="Leaf queues furthest from their fair shares: at most 8.")
    ]


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
    workload: Annotated[Workload | None, Meta(description="What people call it by.")]
    queue: Annotated[str, Meta(description="Name of its queue, even if there is none.")]
    reason: Annotated[str | None, Meta(description="Null if it does not wait.")]
    message: Annotated[
        str | None,
        Meta(
            description="One sentence with the numbers; in a list only with `messages`; null where"
            " the loop had no time."
        ),
    ]
    advice: Annotated[list[dict[str, Any]], Meta(description="Changes that were tried for it.")]
    turn: Annotated[
        dict[str, Any] | None,
        Meta(description="Whose turn it is, level by level; only of one job."),
    ]


class Job(Pending):
    """A job."""

    user: Annotated[str | None, Meta(description="Who submitted it, where its objects say so.")]
    state: Annotated[
        Literal["pending", "partly", "running", "ending"],
        Meta(description="`partly`: some of its pods run and more wait."),
    ]
    place: Annotated[Place | None, Meta(description="Null if it takes no part in the order.")]
    priority: int
    preemptible: bool
    created: Time | None
    started: Annotated[Time | None, Meta(description="Null while none of its pods runs.")]
    since: Annotated[
        Time | None,
        Meta(description="Since when it runs, or waits (creation or last eviction)."),
    ]
    nodes: Annotated[list[str], Meta(description="Where its pods run: at most four of them.")]
    node_count: int
    pods: PodCounts
    gpus: JobGpus


class Jobs(Listed):
    """Jobs that match the parameters, in order."""

    time: Annotated[Time | None, Meta(description="The end of the cycle of which this is.")]
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
    beneficiary_workload: Workload | None
    reason: str


class AheadOf(Doc):
    """A job of the same queue whose turn comes before."""

    position: int
    pod_group: str
    workload: Workload | None
    user: str | None
    gpus: Annotated[float, Meta(description="What its waiting pods ask for.")]
    since: Time | None
    reason: Annotated[str | None, Meta(description="Why it waits.")]
    because: Annotated[str, Meta(description="What puts it before this job.")]


class Why(Document):
    """Everything about one job: what `kaisched why -o json` prints, and more."""

    pod_group: str
    workload: Workload | None
    pending: Annotated[Pending | None, Meta(description="Null if it does not wait.")]
    complete: Annotated[
        bool, Meta(description="False where the loop had no time for the sentences: ask again.")
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
    ahead: Annotated[
        list[AheadOf], Meta(description="Jobs of its queue before it, at most 50, in order.")
    ]
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
    workload: Workload | None
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


class NodeTotals(Doc):
    """What some nodes have, in whole GPUs."""

    name: Annotated[str, Meta(description="A state, a domain or a queue.")]
    nodes: int
    total: int
    free: Annotated[int, Meta(description="GPUs that nothing holds, of nodes that may be used.")]
    whole_free: Annotated[int, Meta(description="Nodes of which all GPUs are free.")]
    stranded: Annotated[
        int,
        Meta(
            description="Free GPUs without the least CPU and memory that a pod with GPUs asks for."
        ),
    ]


class Capacity(Document):
    """GPUs of all nodes in totals, for clusters with too many nodes to list."""

    all: NodeTotals
    states: Annotated[list[NodeTotals], Meta(description="Each node is in one of them.")]
    levels: Annotated[list[str], Meta(description="Of the topologies, the outermost first.")]
    level: Annotated[str | None, Meta(description="That of `domains`; null without a topology.")]
    domains: list[NodeTotals]
    largest_gang: Annotated[
        int, Meta(description="The most pods of one GPU that start together in one domain.")
    ]
    departments: Annotated[
        dict[str, float],
        Meta(description="GPUs held by each root queue, or child of the only root."),
    ]


class Eviction(Doc):
    """An eviction, as in `kaisched plan -o json` and with its queues."""

    cycle: int
    time: Time | None
    pod: str
    pod_group: str
    workload: Workload | None
    queue: str
    node: str
    action: str
    rule: Annotated[str, Meta(description="What entitled the beneficiary, a word of the policy.")]
    beneficiary: Annotated[
        str | None, Meta(description="A pod group; null for none, or one the reader may not see.")
    ]
    beneficiary_workload: Workload | None
    beneficiary_queue: str | None
    reason: str


class Victim(Doc):
    """A pod that is evicted."""

    pod: str
    pod_group: str
    workload: Workload | None
    queue: str
    node: str


class EvictionDecision(Doc):
    """The pods that one action evicts for one job in one cycle."""

    cycle: int
    time: Time | None
    action: str
    rule: Annotated[str, Meta(description="What entitled the beneficiary, a word of the policy.")]
    beneficiary: Annotated[
        str | None, Meta(description="A pod group; null for none, or one the reader may not see.")
    ]
    beneficiary_workload: Workload | None
    beneficiary_queue: str | None
    reason: Annotated[str, Meta(description="That of its first pod.")]
    pods: int
    jobs: int
    queues: Annotated[list[str], Meta(description="Those that lose pods.")]
    lost_gpu_hours: Annotated[
        float, Meta(description="GPUs of the pods times the hours since their jobs started.")
    ]
    victims: Annotated[list[Victim], Meta(description="At most 50 of the pods.")]


class EvictionDecisions(Listed):
    """Evictions of the last cycles by decision, the latest first."""

    hidden: Annotated[int, Meta(description="Pods of queues that the reader may not get.")]
    decisions: list[EvictionDecision]


class Evictions(Listed):
    """Evictions of the last cycles, the latest first."""

    hidden: Annotated[int, Meta(description="Those of queues that the reader may not get.")]
    evictions: list[Eviction]


class Index(Doc):
    """What is served here."""

    schema_version: str
    shards: list[str]
    paths: list[str]
    whatif: Annotated[bool, Meta(description="Whether `/api/v1/whatif` tries changes.")]


class Fault(Doc):
    """What is wrong with a request."""

    message: str
    path: Annotated[str | None, Meta(description="The parameter that is wrong.")]
    value: str | None
    fix: Annotated[str, Meta(description="What to write instead.")]


class Error(Doc):
    """The answer to a request that fails."""

    error: Fault


class Cycle(Doc):
    """A cycle."""

    cycle: int
    time: Time | None
    duration_seconds: float
    actions: Annotated[dict[str, float], Meta(description="Seconds by action, in order.")]
    plugins: Annotated[dict[str, float], Meta(description="Seconds by plugin.")]
    pending: Annotated[int, Meta(description="Jobs that stayed pending.")]
    binds: int
    evictions: int
    nominations: int


class Cycles(Document):
    """The last 300 cycles, the latest first."""

    cycles: list[Cycle]


class Course(Doc):
    """What a queue held over time; null where it was not there, or no usage was known."""

    name: str
    parent: str | None
    fair_share: list[float | None]
    allocated: list[float | None]
    usage: Annotated[
        list[float | None], Meta(description="Decayed usage, as a part of the capacity.")
    ]


class Fairness(Listed):
    """What queues held over time beside their fair shares, since the process began."""

    resource: Annotated[str, Meta(description="`gpu` where there are any, else `cpu`.")]
    times: Annotated[
        list[Time | None],
        Meta(description="Of up to 240 samples: the longer the time, the further apart."),
    ]
    queues: list[Course]


class Span(Doc):
    """What there was in some time."""

    seen_seconds: Annotated[float, Meta(description="How long cycles were seen in it.")]
    use: Annotated[
        float | None, Meta(description="What was held, as a part of the capacity, over time.")
    ]
    waiting: Annotated[
        float | None, Meta(description="GPUs asked for beyond what was held, over time.")
    ]
    oldest_wait_seconds: Annotated[float, Meta(description="The longest that a job had waited.")]
    starts: Annotated[int, Meta(description="Jobs that started.")]
    wait_p50_seconds: Annotated[float | None, Meta(description="Half of them waited no longer.")]
    wait_p95_seconds: float | None
    evictions: Annotated[int, Meta(description="Pods.")]
    lost_gpu_hours: Annotated[float, Meta(description="What these pods had worked.")]


class Hour(Span):
    """One hour."""

    start: Time | None


class Hours(Document):
    """The last day and week; after a restart as far as the usage history in a file goes back."""

    resource: Annotated[str, Meta(description="`gpu`, or `cpu` without GPUs.")]
    day: Span
    week: Span
    hours: Annotated[list[Hour], Meta(description="The earliest first.")]


class Frame(Doc):
    """A cycle whose view is kept."""

    cycle: int
    time: Time | None


class Frames(Document):
    """Earlier cycles that `at` may name, the earliest first; of a simulation only."""

    frames: list[Frame]


WHATIF_MEANING: Final = (
    "What other values would change, as `kaisched whatif set -o json`: `target` is `queue/NAME` or"
    " `shard`, `set` values such as `gpu.quota=8,gpu.weight=2` or `kValue=0.5`; or what so many"
    " `pods` with `gpus` each would in a `queue`, as `kaisched whatif submit`; or `when` a job may"
    " start, as `kaisched why --when`, for who sees the job; or, with `starts=true`, when each"
    " waiting job that the reader sees may, as `kaisched jobs --when`. Without them the values that"
    " may be tried. Where `snapshots.enabled` is set, for who sees everything."
)


WHATIF_PARAMETERS: Final = ("shard", "target", "set", "queue", "gpus", "pods", "when", "starts")


class Parameter(NamedTuple):
    """A query parameter."""

    name: str
    meaning: str
    schema: dict[str, Any]


class Endpoint(NamedTuple):
    """A path below :data:`ROOT` and its document."""

    path: str
    """With ``{name}`` where a name stands."""
    meaning: str
    document: type[msgspec.Struct]
    parameters: tuple[str, ...] = ()


_TEXT: Final = {"type": "string"}
PARAMETERS: Final = {
    it.name: it
    for it in (
        Parameter("shard", "Which shard; the first one unless given.", _TEXT),
        Parameter(
            "at",
            "As after this cycle, or the last one before it that is kept; of a simulation, see"
            " `/api/v1/frames`.",
            {"type": "integer"},
        ),
        Parameter("queue", "This queue and those below it.", _TEXT),
        Parameter("reason", "Jobs that wait for this reason, such as `NoRoom`.", _TEXT),
        Parameter(
            "state",
            "Jobs in this state; `waiting` stands for `pending` and `partly`.",
            {"enum": [*STATES, WAITING]},
        ),
        Parameter("namespace", "Jobs of this namespace.", _TEXT),
        Parameter("name", "Entries with this text in their names.", _TEXT),
        Parameter("nodeState", "Nodes in this state.", {"enum": list(NODE_STATES)}),
        Parameter("domain", "Nodes of this domain of a topology, such as `hall-1/rack-2`.", _TEXT),
        Parameter("level", "By the domains of this level; racks unless given.", _TEXT),
        Parameter("user", "Jobs that this user submitted.", _TEXT),
        Parameter(
            "sort",
            "The order: that of queues and turns, or by name, creation, time of waiting or running,"
            " priority or GPUs; `-` reverses it.",
            {"enum": [*SORTS, *(f"-{it}" for it in SORTS)], "default": "order"},
        ),
        Parameter("messages", "With the sentence of each waiting job.", {"type": "boolean"}),
        Parameter(
            "last",
            "So many hours.",
            {"type": "integer", "minimum": 1, "maximum": MOST_HOURS, "default": 24},
        ),
        Parameter("offset", "The first entry of the answer.", {"type": "integer", "default": 0}),
        Parameter(
            "limit",
            "Entries of the answer.",
            {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
        ),
    )
}
ALWAYS: Final = ("shard", "at")
"""Parameters of every document but the index."""
_PART: Final = ("offset", "limit")
_JOBS: Final = ("queue", "reason", "state", "namespace", "name", "user", "sort", "messages", *_PART)
ENDPOINTS: Final = (
    Endpoint("", "What is served here.", Index),
    Endpoint("/overview", "Totals of a shard, and its last cycle.", Overview),
    Endpoint("/queues", "All queues, parents before children.", Queues),
    Endpoint("/queues/{name}", "One queue with those above and below it.", Queues),
    Endpoint("/jobs", "Jobs that wait or run, in parts.", Jobs, _JOBS),
    Endpoint(
        "/jobs/{name}",
        "Everything about one job, by its name or a pod's: `NAMESPACE/NAME`, or `NAME` if unique.",
        Why,
    ),
    Endpoint(
        "/nodes",
        "Nodes, and who holds each.",
        Nodes,
        ("name", "queue", "nodeState", "domain", *_PART),
    ),
    Endpoint("/capacity", "GPUs of all nodes in totals.", Capacity, ("level",)),
    Endpoint(
        "/evictions",
        "Evictions of the last cycles, the latest first: who for whom, by which rule.",
        Evictions,
        ("queue", *_PART),
    ),
    Endpoint(
        "/decisions",
        "The same by decision: what one action evicts for one job, and how much work is lost.",
        EvictionDecisions,
        ("queue", *_PART),
    ),
    Endpoint(
        "/fairness",
        "What a queue and those directly below it held since the process began; without one, those"
        " at the top.",
        Fairness,
        ("queue", *_PART),
    ),
    Endpoint(
        "/hours",
        "The last day and week, hour by hour; after a restart as far as the usage history in a file"
        " goes back.",
        Hours,
        ("last",),
    ),
    Endpoint(
        "/frames", "Earlier cycles that `at` may name, in order; of a simulation only.", Frames
    ),
    Endpoint(
        "/cycles",
        "How long the last 300 cycles took, the latest first, by action and by plugin.",
        Cycles,
    ),
)


def openapi(version: str) -> dict[str, Any]:
    """Return the API as an OpenAPI 3.1 document."""
    shapes = {it.document for it in ENDPOINTS} | {Error}
    found, components = msgspec.json.schema_components(
        sorted(shapes, key=lambda it: it.__name__), ref_template="#/components/schemas/{name}"
    )
    del found
    paths = {f"{ROOT}{it.path}": {"get": _operation(it)} for it in ENDPOINTS}
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    paths[CHANGES] = {
        "get": {
            "summary": "Server-Sent Events `view`: shard, revision and cycle, at each new revision"
            " and every few seconds.",
            "responses": {"200": {"description": "The stream.", "content": stream}},
        }
    }
    paths[WHATIF] = {
        "get": {
            "summary": WHATIF_MEANING,
            "parameters": [
                {"name": it, "in": "query", "schema": _TEXT} for it in WHATIF_PARAMETERS
            ],
            "responses": {
                "200": {
                    "description": "The difference.",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                },
                "default": {"description": "What is wrong.", "content": _json(Error)},
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "kaisched live view", "version": version},
        "paths": paths,
        "components": {"schemas": dict(sorted(components.items()))},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    own = [{"name": it, "in": "path", "required": True, "schema": _TEXT} for it in names]
    asked = [PARAMETERS[it] for it in ((*ALWAYS, *endpoint.parameters) if endpoint.path else ())]
    return {
        "summary": endpoint.meaning,
        "parameters": [
            *own,
            *(
                {"name": it.name, "in": "query", "description": it.meaning, "schema": it.schema}
                for it in asked
            ),
        ],
        "responses": {
            "200": {"description": "The document.", "content": _json(endpoint.document)},
            "304": {"description": "Still the one of If-None-Match."},
            "default": {"description": "What is wrong.", "content": _json(Error)},
        },
    }


def _json(shape: type[msgspec.Struct]) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"application/json": {"schema": reference}}
