"""Statuses say what is: looked at together with what could run, when all has been quiet."""

from collections import defaultdict

from tests.chaos.facts import ENDED, GPU, OURS, amount, group_of, pod_of

NAME = "P6 statuses say what is"


def untrue(pods, groups, queues):
    """Return (who, why) of all statuses of ours that differ from what the API holds.

    Args:
        pods: objects as a list of the API gives them, like the other two.
        groups: pod groups.
        queues: those of which the amounts are compared; one below which a pod leaves is left out.

    """
    found, held, unsure = [], defaultdict(int), set()
    queue_of = {it.key: it.queue for it in map(group_of, groups)}
    parent = {it["metadata"]["name"]: it["spec"].get("parentQueue", "") for it in queues}
    for obj in pods:
        pod = pod_of(obj)
        if pod.scheduler != OURS or not pod.node or pod.phase in ENDED:
            continue
        if is_said_to_wait(obj):
            found.append((f"pod {pod.key}", f"is on {pod.node}, and is said to wait: {pod.why!r}"))
        name = queue_of.get(pod.group, pod.queue)
        while name in parent:
            held[name] += pod.gpus
            if pod.is_leaving:
                unsure.add(name)
            name = parent[name]
    for obj in queues:
        name = obj["metadata"]["name"]
        said = ((obj.get("status") or {}).get("allocated") or {}).get(GPU)
        if name not in unsure and (said is None or amount(said) != held[name]):
            found.append((f"queue {name}", f"its pods hold {held[name]} GPUs, its status: {said}"))
    return found


def is_said_to_wait(obj):
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(
        (it["type"], it["status"], it.get("reason")) == ("PodScheduled", "False", "Unschedulable")
        for it in conditions
    )
