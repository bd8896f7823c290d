"""What is printed at the end of a run."""

import time

from tests.chaos.soak import lines_of


def told(run):
    """Return the summary as lines."""
    checker, replicas = run.checker, run.replicas
    counts = checker.counts
    promises = {type(it).__name__: it for it in checker.promises}
    leaders, take_overs = promises["BoundOnce"].leaders, promises["BoundOnce"].take_overs
    lines = [
        (
            f"seed {run.seed}, {run.size.nodes} nodes, {time.monotonic() - run.begun_s:.0f} s,"
            f" {counts['revisions']} changes seen, {sum(it.gaps for it in run.streams)} gaps,"
            f" {run.sorter.late} out of order"
        ),
        "jobs: " + ", ".join(f"{much} {name}" for name, much in run.churn.made.items()),
        *(
            ["hostile: " + ", ".join(f"{much} {name}" for name, much in run.tenant.made.items())]
            if run.tenant is not None
            else []
        ),
        (
            f"binds {counts['binds']}, evictions {counts['evictions']},"
            f" binds of an earlier epoch {counts['binds of an earlier epoch']}"
        ),
        *(
            f"{name} {much}"
            for name, much in sorted(counts.items())
            if name.startswith(("evictions ", "binds not judged"))
        ),
        (
            f"longest time of a gang below its minimum past its grace:"
            f" {promises['WholeGangs'].longest_s:.0f} s"
        ),
        "faults: " + ", ".join(f"{kind} {much}" for kind, much in run.faults_by_kind().items()),
        (
            f"leaders {len(leaders)}, processes {len(replicas.lives)},"
            f" quiet moments {run.quiet_moments}"
        ),
    ]
    if take_overs:
        at_s, longest_s = max(take_overs, key=lambda it: it[1])
        lines.append(
            f"take-overs {len(take_overs)}, the longest {longest_s:.1f} s after the last renewal,"
            f" at {run.at(at_s)}"
        )
    if run.faults.left_out:
        lines.append("left out, this server cannot play them: " + ", ".join(run.faults.left_out))
    for at_s, life, words in replicas.ends:
        lines.append(f"{life.name} ended by itself at {run.at(at_s)}: {words}; {_cause(run, at_s)}")
    for (name, sort), (much, first, last) in replicas.bad.items():
        lines.append(f"log of {name}: {much} {sort}: {first!r} ... {last!r}")
    lines += [f"soak of {line}" for line in lines_of(replicas.lives)]
    bad = sum(much for much, _, _ in replicas.bad.values())
    lines.append(f"breaches: {len(checker.breaches)}, lines of the logs that are wrong: {bad}")
    return lines


def _cause(run, at_s):
    near = [
        it
        for it in run.faults.before(at_s, 8)
        if it.lane == "server" and at_s - (it.ended_s or at_s) < 15.0
    ]
    return f"after {near[0].kind}" if near else "no fault behind it"
