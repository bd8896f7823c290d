"""Objects of a tenant who may create pods and pod groups and means no good, attack by attack.

Each is an iterator of (path, object); the queue of all of them deserves nothing.
"""

from tests import objects

QUEUE = "hostile"
_HOST = "kubernetes.io/hostname"
_NOWHERE = {"rack": "nowhere"}
NAMESPACE = "hostile"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_GROUPS = objects.groups_path(NAMESPACE)


def _pod(name, limits, group="", **spec):
    return _PODS, objects.pod(name, QUEUE, group=group, limits=limits, **spec)


def _group(name, minimum, **spec):
    return _GROUPS, objects.group(name, QUEUE, minimum, **spec)


def terms():
    """300 pods with 500 terms of node affinity each, none of them like another."""
    for pod in range(300):
        wanted = [
            {"matchExpressions": [{"key": _HOST, "operator": "In", "values": [f"n-{pod}-{term}"]}]}
            for term in range(500)
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}
        yield _pod(f"terms-{pod}", {"cpu": "100m"}, affinity={"nodeAffinity": required})


def shapes():
    """5,000 pods that match no node, of as many different amounts."""
    for pod in range(5000):
        yield _pod(f"shape-{pod}", {"cpu": f"{100 + pod}m"}, nodeSelector=_NOWHERE)


def anti():
    """300 pods that keep away from 200 kinds of pods each, and wait."""
    for pod in range(300):
        kinds = [
            {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": f"x-{pod}-{kind}"}}}
            for kind in range(200)
        ]
        away = {"requiredDuringSchedulingIgnoredDuringExecution": kinds}
        yield _pod(f"anti-{pod}", {"nvidia.com/gpu": "9"}, affinity={"podAntiAffinity": away})


def spread():
    """300 pods with 200 spread constraints each, over keys that no node has."""
    for pod in range(300):
        constraints = [
            {
                "maxSkew": 1,
                "topologyKey": f"key-{pod}-{at}",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"x-{pod}-{at}"}},
            }
            for at in range(200)
        ]
        yield _pod(f"spread-{pod}", {"cpu": "100m"}, topologySpreadConstraints=constraints)


def gang():
    """A gang of 10,000 pods, no two the same."""
    yield _group("gang", 10_000)
    for pod in range(10_000):
        yield _pod(f"gang-{pod}", {"nvidia.com/gpu": "1", "cpu": f"{100 + pod}m"}, "gang")


def structures():
    """1,000 gangs of five subgroups in trees of different widths, pods of a whole node."""
    for number in range(1_000):
        width = 1 + number % 4
        inner = [{"name": f"g{at}"} for at in range(0, 5, width)]
        leaves = [
            {"name": f"s{at}", "minMember": 1, "parent": f"g{at - at % width}"} for at in range(5)
        ]
        yield _group(f"tree-{number}", None, subGroups=[*inner, *leaves])
        for at in range(5):
            labels = {"kai.scheduler/subgroup-name": f"s{at}"}
            limits = {"nvidia.com/gpu": "9", "cpu": f"{100 + number + at}m"}
            yield _pod(f"tree-{number}-{at}", limits, f"tree-{number}", labels=labels)


def bombs():
    """200 pods of 1 MB, in labels and annotations, each with names and values of its own."""
    for pod in range(200):
        labels = {f"l{pod}-{at}": f"{pod}-{at}".ljust(63, "x") for at in range(9_000)}
        notes = {f"a{pod}": "x" * 250_000}
        more = {"labels": labels, "annotations": notes, "nodeSelector": _NOWHERE}
        yield _pod(f"bomb-{pod}", {"cpu": "100m"}, **more)


def odd_job():
    """20,000 jobs of a pod of 9 GPUs, and one job of two kinds of pods."""
    yield from (_pod(f"odd-{pod}", {"nvidia.com/gpu": "9"}) for pod in range(20_000))
    yield _group("two-kinds", 2)
    yield _pod("two-0", {"nvidia.com/gpu": "9"}, "two-kinds")
    yield _pod("two-1", {"nvidia.com/gpu": "9", "cpu": "1"}, "two-kinds")


def crowd():
    """20,000 jobs of one GPU; they take what is free, and give it back to who deserves it."""
    yield from (_pod(f"crowd-{pod}", {"nvidia.com/gpu": "1"}) for pod in range(20_000))


def crowd_100k():
    """100,000 jobs of one GPU."""
    yield from (_pod(f"crowd-{pod}", {"nvidia.com/gpu": "1"}) for pod in range(100_000))


ATTACKS = {
    attack.__name__: attack
    for attack in (
        terms,
        shapes,
        anti,
        spread,
        gang,
        structures,
        bombs,
        odd_job,
        crowd,
        crowd_100k,
    )
}
