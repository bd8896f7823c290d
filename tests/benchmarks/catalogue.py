"""Which benchmarks there are: plain data, so that listing them imports nothing heavy.

Every row runs in a process of its own, started from one that has not imported numpy: a new process
on Linux inherits the peak memory of the one it was started from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MB_600 = 600e6 / 2**20


@dataclass(frozen=True)
class Target:
    """The most a figure of the report may be, and what would be better still."""

    of: str
    most: float
    stretch: float | None = None


@dataclass(frozen=True)
class Row:
    """One line of the report: a function of a module, its size and what is hoped for."""

    benchmark: str
    title: str
    function: str
    size: Mapping[str, Any]
    targets: tuple[Target, ...]
    repeat: int = 30
    tiny: Mapping[str, Any] = field(default_factory=dict)
    """A size at which the whole of it takes a moment: for the tests."""
    where: str = ""
    """The module of the function, if not that of the benchmark."""

    @property
    def name(self) -> str:
        return f"{self.benchmark} {self.title}"

    @property
    def module(self) -> str:
        return f"tests.benchmarks.{self.where or self.benchmark.lower()}"


def _seconds(most: float, stretch: float | None = None) -> tuple[Target, ...]:
    return (Target("median_s", most, stretch),)


def _fill(queues: int) -> Row:
    tiny = {"nodes": 4, "queues": min(queues, 3)}
    what = "1 queue" if queues == 1 else f"{queues} queues"
    size = {"nodes": 500, "queues": queues}
    return Row("B1", f"fill 4,000 GPUs, {what}", "fill", size, _seconds(0.1, 0.06), tiny=tiny)


def _hopeless(kind: str) -> Row:
    tiny = {"nodes": 12, "kind": kind}
    size = {"nodes": 500, "kind": kind}
    return Row("B5", f"hopeless: {kind}", "verdict", size, _seconds(0.005), tiny=tiny)


def _division(queues: int, levels: int) -> Row:
    tiny = {"queues": 40, "levels": levels}
    size = {"queues": queues, "levels": levels}
    repeat = 9 if queues >= 100_000 else 30
    targets = (Target("ratio_to_floor", 3.0, 2.0),)
    return Row("B7", f"divide {queues:,}, {levels} levels", "divide", size, targets, repeat, tiny)


def _large(title: str, nodes: int, most: float) -> Row:
    size = {"nodes": nodes, "pods": nodes // 2}
    return Row("B4", title, "large", size, _seconds(most), 10, {"nodes": 6, "pods": 3})


def _no_claim(kind: str) -> Row:
    size = {"nodes": 100, "kind": kind}
    tiny = {"nodes": 4, "kind": kind}
    return Row("B4", f"hopeless: {kind}", "hopeless", size, _seconds(0.005), tiny=tiny)


def _moves(title: str, most: int, *targets: Target) -> Row:
    size = {"nodes": 500, "gangs": 41, "pods": 10, "most": most}
    tiny = {"nodes": 12, "gangs": 3, "pods": 2, "most": most}
    return Row("B6", title, "consolidate", size, (*_seconds(1.0, 0.5), *targets), 10, tiny)


def _turns(hand_over: str, title: str) -> Row:
    size = {"cycles": 1_024, "hand_over": hand_over}
    tiny = {"cycles": 60, "hand_over": hand_over}
    targets = (Target("cpu_s", 0.5, 0.3),)
    return Row("B8", f"1,024 cycles, {title}", "turns", size, targets, 5, tiny)


def _daemon() -> tuple[Row, ...]:
    """What a large cluster costs the daemon: its turns, claims by the hundred, and loading."""
    tiny = {"nodes": 4, "queues": 3, "jobs": 12}
    small = {"nodes": 2_000, "queues": 400, "jobs": 4_000}
    large = {"nodes": 5_000, "queues": 1_000, "jobs": 20_000}
    claims = {"nodes": 50}
    return (
        Row("B14", "turn, 4,000 jobs wait", "turn", small, _turn(0.02, 0.06), 50, tiny),
        Row("B14", "turn, 20,000 jobs wait", "turn", large, _turn(0.05, 0.15), 50, tiny),
        Row("B14", "allocate in that turn", "allocate", large, _cpu(0.02), 50, tiny),
        Row("B14", "view, 20,000 jobs wait", "view", large, _cpu(0.005), 50, tiny),
        Row("B14", "100 reclaims", "reclaim", claims, _cpu(0.008), 30, {"nodes": 3}, "kai"),
        Row("B14", "100 preemptions", "preempt", claims, _cpu(0.014), 30, {"nodes": 3}, "kai"),
        Row("B14", "40,000 reclaims", "storm", {"nodes": 5_000}, _cpu(3.0), 1, {"nodes": 3}, "b4"),
        Row(
            "B14",
            "first reclaim",
            "first_reclaim",
            claims,
            (Target("late_imports", 0),),
            1,
            {"nodes": 3},
            "loading",
        ),
        Row(
            "B14",
            "load 100,000 pods",
            "load",
            {"pods": 100_000, "queues": 100},
            (Target("pod_us", 80), Target("collection_s", 0.02)),
            3,
            {"pods": 30, "queues": 2},
            "loading",
        ),
    )


def _turn(most: float, p99: float) -> tuple[Target, ...]:
    return (Target("cpu_s", most), Target("p99_cpu_s", p99), Target("collection_s", 0.02))


def _lending() -> tuple[Row, ...]:
    """One tree in which queues lend: 1,000 of them below 100."""
    tree = {"queues": 1_000, "cohorts": 100}
    tiny = {"queues": 8, "cohorts": 2}
    claim = {**tree, "victims": 100}
    small_claim = {**tiny, "victims": 3}
    cycle = {**tree, "workloads": 10_000, "free": 0, "late": 20}
    small = {**tiny, "workloads": 80, "free": 0, "late": 2}
    large = {**cycle, "queues": 10_000, "cohorts": 1_000, "workloads": 100_000}
    tenfold = {"queues": 80, "cohorts": 20, "workloads": 800, "free": 0, "late": 2}
    return (
        Row("B11", "lending: 1,000 heads start", "starts", tree, _cpu(0.02), tiny=tiny),
        Row("B11", "lending: 100 victims", "claim", claim, _cpu(0.01), tiny=small_claim),
        Row("B11", "lending: cycle, 20 claims", "cycle", cycle, _cpu(0.5), 10, small),
        Row(
            "B11",
            "lending: cycle, 100 starts",
            "cycle",
            {**cycle, "free": 100, "late": 0},
            _cpu(0.5),
            10,
            {**small, "free": 2, "late": 0},
        ),
        Row(
            "B11",
            "lending: 100,000 workloads",
            "growth",
            large,
            (Target("growth", 1.5, 1.1),),
            2,
            tenfold,
        ),
    )


def _topology() -> tuple[Row, ...]:
    gang, tiny = {"nodes": 5_000, "pods": 512}, {"nodes": 40, "pods": 8}
    size, small = (
        {"nodes": 5_000, "gangs": 500, "shapes": 20},
        {"nodes": 40, "gangs": 4, "shapes": 2},
    )
    too_large, refused = {"nodes": 5_000, "pods": 1_300}, {"nodes": 40, "pods": 50}
    added = (Target("added_cpu_s", 0.06),)
    return (
        Row("B12", "gang: choose a domain", "choose", gang, _cpu(0.0005), 100, tiny),
        Row("B12", "gang of 512: place", "place", gang, _cpu(0.005), 50, tiny),
        Row("B12", "gang of 1,300: refuse", "refuse", too_large, _cpu(0.002), 50, refused),
        Row("B12", "500 gangs of 20 shapes", "many", size, added, 10, small),
    )


def _cpu(most: float) -> tuple[Target, ...]:
    return (Target("cpu_s", most),)


def _kai(title: str, function: str, most: float, **size: int) -> Row:
    tiny = {name: max(2, number // 10) for name, number in size.items()}
    return Row("KAI", title, function, size, _seconds(most), tiny=tiny)


def _beside(
    title: str,
    nodes: int,
    jobs: int,
    pods: int = 1,
    queues: int = 4,
    running: int = 0,
    only: str = "",
) -> Row:
    size = {"nodes": nodes, "jobs": jobs, "pods": pods, "queues": queues, "running": running}
    tiny = {**size, "nodes": 5, "jobs": 8, "only": only}
    return Row("KAI", title, "beside", {**size, "only": only}, _seconds(0.1), tiny=tiny)


def _hostile(attack: str, title: str, scale: float = 1.0) -> Row:
    size = {"nodes": 200, "attack": attack, "scale": scale}
    tiny = {"nodes": 8, "attack": attack, "scale": 0.02}
    targets = (Target("worst_over", 1.0), Target("wait_over", 1.0))
    return Row("B15", title, "hostile", size, targets, 100, tiny)


_BACKLOG = {
    "nodes": 5_000,
    "departments": 100,
    "queues": 1_000,
    "workloads": 10_000,
    "pods": 5,
    "shapes": 100,
}
_TINY_BACKLOG = {
    "nodes": 20,
    "departments": 2,
    "queues": 6,
    "workloads": 40,
    "pods": 5,
    "shapes": 8,
}


def _renewals(title: str, *, cycles: bool, pods: int = 0, page: int = 500, burners: int = 0) -> Row:
    size = {"backlog": _BACKLOG if cycles else {}, "pods": pods, "page": page, "burners": burners}
    tiny = {
        "backlog": _TINY_BACKLOG if cycles else {},
        "pods": min(pods, 20),
        "page": 10,
        "burners": 0,
    }
    return Row("B16", title, "renewals", size, (Target("p999_s", 1.0, 0.3),), tiny=tiny)


_GANG = {"nodes": 5_000, "pods": 512, "racks": 64}
_TINY_GANG = {"nodes": 12, "pods": 5, "racks": 3}

ROWS: tuple[Row, ...] = (
    _fill(1),
    _fill(20),
    _fill(100),
    Row(
        "B2",
        "backlog of 50,000 pods",
        "backlog",
        _BACKLOG,
        (Target("median_s", 2.0, 1.0), Target("peak_mib", MB_600)),
        repeat=20,
        tiny=_TINY_BACKLOG,
    ),
    Row("B3", "gang of 512: place", "place", _GANG, _seconds(0.01, 0.005), tiny=_TINY_GANG),
    Row("B3", "gang of 512: refuse", "refuse", _GANG, _seconds(0.002), tiny=_TINY_GANG),
    Row("B4", "reclaim 4,000 GPUs", "storm", {"nodes": 500}, _seconds(1.0, 0.25), 10, {"nodes": 3}),
    Row(
        "B4",
        "reclaim 40,000 GPUs",
        "growth",
        {"nodes": 5_000, "base": 500},
        (Target("growth", 1.5, 1.1),),
        repeat=2,
        tiny={"nodes": 6, "base": 3},
    ),
    _large("reclaim for 250 of 500", 500, 0.05),
    *(_large(f"reclaim for half of {nodes:,}", nodes, 0.15) for nodes in (50, 100, 200, 1_000)),
    _no_claim("share"),
    _no_claim("protected"),
    *(_hopeless(kind) for kind in ("limit", "quota", "shape", "room")),
    Row(
        "B5",
        "B1 before 400 of them",
        "loss",
        {"nodes": 500, "queues": 20, "gangs": 400},
        (Target("loss", 0.1),),
        tiny={"nodes": 12, "queues": 2, "gangs": 8},
    ),
    _moves("41 gangs, 16 jobs may move", 16),
    _moves("41 gangs, any may move", -1, Target("over_least", 1.3, 1.1)),
    *(_division(queues, levels) for queues in (1_000, 10_000, 100_000) for levels in (2, 3)),
    Row(
        "B8",
        "a week, 50 queues, 10,000 jobs",
        "week",
        {"nodes": 64, "queues": 50, "jobs": 10_000, "days": 7},
        (Target("cpu_s", 20.0),),
        repeat=1,
        tiny={"nodes": 2, "queues": 3, "jobs": 60, "days": 1},
    ),
    _turns("none", "two queues by weights"),
    _turns("timeSlices", "two queues by time slices"),
    Row(
        "B13",
        "one share, 500 nodes",
        "shares",
        {"nodes": 500, "pods": 1},
        _cpu(0.001),
        30,
        {"nodes": 2, "pods": 1},
    ),
    Row(
        "B13",
        "5,000 shares, 500 nodes",
        "shares",
        {"nodes": 500, "pods": 5_000},
        _cpu(0.15),
        9,
        {"nodes": 2, "pods": 9},
    ),
    Row(
        "B13",
        "50,000 shares, 5,000 nodes",
        "shares",
        {"nodes": 5_000, "pods": 50_000},
        _cpu(1.5),
        5,
        {"nodes": 3, "pods": 12},
    ),
    Row(
        "B13",
        "10,000 claims, 5,000 nodes",
        "claims",
        {"nodes": 5_000, "pods": 10_000, "profiles": 20},
        _cpu(2.0),
        5,
        {"nodes": 3, "pods": 9, "profiles": 4},
    ),
    Row(
        "B9",
        "pack openb-2023, 10 seeds",
        "packing",
        {"policy": "gpu-fragmentation", "seeds": 10, "pods": -1},
        (Target("free_at_100", 0.048), Target("free_at_130", 0.046)),
        repeat=1,
        tiny={"policy": "gpu-fragmentation", "seeds": 1, "pods": 8},
    ),
    Row(
        "B8",
        "Philly, two weeks, 64 nodes",
        "philly",
        {"nodes": 64, "begin": 28, "days": 14},
        (Target("cpu_s_per_day", 0.25, 0.085),),
        repeat=1,
        tiny={"nodes": 8, "begin": 28, "days": 1},
    ),
    *_lending(),
    *_topology(),
    *_daemon(),
    _renewals("renewal in B2's cycles", cycles=True),
    _renewals("renewal in lists of 100,000", cycles=False, pods=100_000, page=100_000),
    _renewals("renewal in both, 2 burners", cycles=True, pods=100_000, burners=2),
    Row(
        "HTTP",
        "1,000 drip, twice",
        "dripping",
        {"seconds": 300, "calm": 30, "connections": 1_000, "nodes": 500, "pods": 6_000},
        (Target("probe_s", 0.2, 0.05), Target("cycle_growth", 1.1, 1.03)),
        repeat=1,
        tiny={"seconds": 0.5, "calm": 0.3, "connections": 20, "nodes": 2, "pods": 20},
    ),
    _kai("reclaim on 50 nodes", "reclaim", 0.1, nodes=50),
    _kai("preempt on 50 nodes", "preempt", 0.1, nodes=50),
    _kai("consolidate on 50 nodes", "consolidation", 0.2, nodes=50, gangs=20),
    _kai("a cycle, 100 nodes, 500 jobs", "cycle", 0.06, nodes=100, jobs=500),
    _beside("allocate, 50 nodes", 50, 200, only="allocate"),
    _beside("allocate, 100 nodes", 100, 500, only="allocate"),
    _beside("allocate, 20 queues", 50, 200, queues=20, only="allocate"),
    _beside("allocate, gangs of 4", 50, 100, pods=4, only="allocate"),
    _beside("reclaim, nothing waits", 50, 200, running=1, only="reclaim"),
    _beside("preempt, there is room", 50, 200, running=2, only="preempt"),
    _beside("consolidate, there is room", 50, 200, running=2, only="consolidate"),
    _beside("cycle, 50 nodes", 50, 200, running=2),
    _beside("cycle, 100 nodes", 100, 500, running=2),
    *(
        _kai(f"storm, {nodes} nodes", "storm", 0.5, nodes=nodes)
        for nodes in (10, 50, 100, 200, 500)
    ),
    *(
        _kai(f"refused, {nodes:,} nodes", "refused", 0.05, nodes=nodes, pods=10)
        for nodes in (50, 100, 200, 500, 1_000)
    ),
    _hostile("terms", "300 pods of 500 node terms"),
    _hostile("shapes", "5,000 shapes"),
    _hostile("whole", "5,000 shapes of whole nodes"),
    _hostile("anti", "300 pods of 200 anti terms"),
    _hostile("anti_running", "300 such pods running"),
    _hostile("gang", "gang of 10,000, all different"),
    _hostile("crowd", "100,000 jobs"),
    _hostile("structures", "1,000 gangs of subgroups"),
)
