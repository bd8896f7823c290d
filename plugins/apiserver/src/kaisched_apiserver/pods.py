"""What the server makes of a pod: defaults, amounts, checks, and what an update may change."""

from __future__ import annotations

import copy
import re
from typing import Any, Final

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import (
    FieldFault,
    bad_request,
    forbidden,
    invalid,
    not_allowed,
    required,
    wrong,
)
from kaisched_apiserver.storage import Record

# Amounts of resources in pods and nodes: how they may be written, and what follows from them.


_AMOUNT: Final = re.compile(
    r"([+-]?)((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?)"
)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+(?:\.0*)?(?:[kMGTPE]|[KMGTPE]i)?")
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_BAD: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def complete_resources(resources: dict[str, Any], path: str) -> list[FieldFault]:
    """Write the amounts of a container as texts, and let requests follow from limits.

    Returns what is wrong with them.

    Raises:
        ApiError: 400, an amount cannot be read.

    """
    for kind in ("limits", "requests"):
        amounts = resources.get(kind)
        if amounts:
            resources[kind] = {name: amount_text(value) for name, value in amounts.items()}
    limits = resources.get("limits") or {}
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
        # The order of the real server: what was asked for first is not known any more.
        resources["requests"] = dict(sorted(resources["requests"].items()))
    requests = resources.get("requests") or {}
    faults = [
        fault
        for kind, amounts in (("limits", limits), ("requests", requests))
        for name, value in amounts.items()
        if (fault := _fault(f"{path}.{kind}[{name}]", name, value)) is not None
    ]
    for name, value in requests.items():
        if not _is_extended(name):
            continue
        if name not in limits:
            faults.append(
                FieldFault(
                    f"{path}.limits",
                    "FieldValueRequired",
                    "Required value: Limit must be set for non overcommitable resources",
                )
            )
        elif value != limits[name]:
            why = f"must be equal to {name} limit of {limits[name]}"
            faults.append(wrong(f"{path}.requests", value, why))
    return faults


def amount_text(value: object) -> str:
    """Return an amount as a text.

    Raises:
        ApiError: 400, it is no amount.

    """
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    if isinstance(value, bool) or not _AMOUNT.fullmatch(text):
        raise bad_request(f"unable to parse quantity {value!r}: {_BAD}")
    return text


def _fault(path: str, name: str, value: str) -> FieldFault | None:
    if value.startswith("-"):
        return wrong(path, value, "must be greater than or equal to 0")
    if _is_extended(name) and not _WHOLE.fullmatch(value):
        return wrong(path, value, "must be an integer")
    return None


def _is_extended(name: str) -> bool:
    return name not in _PLAIN and not name.startswith("hugepages-")


# What the server makes of a pod: defaults, checks, and what an update may change.


_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_PATIENCE_S: Final = 300
_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)
_ADMITTED: Final = ("priority", "priorityClassName", "preemptionPolicy")
_FREE: Final = ("activeDeadlineSeconds", "terminationGracePeriodSeconds")
_FREE_WHILE_GATED: Final = ("nodeSelector", "affinity")


def complete_pod(
    resource: Resource, pod: dict[str, Any], classes: dict[str, Record], now: str
) -> None:
    """Give a new pod its defaults, priority and first status.

    Args:
        resource: pods.
        pod: changed in place.
        classes: the priority classes by name.
        now: the present as a text.

    Raises:
        ApiError: 400 or 422, the pod is wrong; 403, there is no such priority class.

    """
    name = pod["metadata"]["name"]
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        spec = pod["spec"] = {}
    faults = _complete_containers(spec)
    if faults:
        raise invalid(resource, name, faults)
    _complete_spec(spec)
    _take_priority(resource, name, spec, classes)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    pod["status"] = {"phase": "Pending", "qosClass": _service_class(spec)}
    if spec.get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [gated]


def _complete_spec(spec: dict[str, Any]) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    spec.setdefault("enableServiceLinks", True)


def _complete_containers(spec: dict[str, Any]) -> list[FieldFault]:
    if not spec.get("containers"):
        return [required("spec.containers")]
    faults: list[FieldFault] = []
    for place in ("initContainers", "containers"):
        containers = spec.get(place) or []
        if not isinstance(containers, list) or not all(isinstance(it, dict) for it in containers):
            raise bad_request(f"spec.{place} must be a list of containers")
        for at, container in enumerate(containers):
            path = f"spec.{place}[{at}]"
            if not container.get("name"):
                faults.append(required(f"{path}.name"))
            if not container.get("image"):
                faults.append(required(f"{path}.image"))
            container.setdefault("resources", {})
            faults += complete_resources(container["resources"], f"{path}.resources")
            container.setdefault("terminationMessagePath", "/dev/termination-log")
            container.setdefault("terminationMessagePolicy", "File")
            container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    return faults


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in {"", "latest"} and "@" not in image else "IfNotPresent"


def _tolerations(given: list[Any]) -> list[Any]:
    """Add how long a pod stays on a node in trouble, where the pod does not say."""
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE_S}
        for key in (_NOT_READY, _UNREACHABLE)
        if not any(
            it.get("key") in {None, "", key} and it.get("effect") in {None, "", "NoExecute"}
            for it in given
        )
    ]
    return [*given, *added]


def _take_priority(
    resource: Resource, name: str, spec: dict[str, Any], classes: dict[str, Record]
) -> None:
    wanted = spec.get("priorityClassName")
    if wanted:
        found = classes.get(wanted)
        if found is None:
            raise forbidden(resource, name, f"no PriorityClass with name {wanted} was found")
        chosen: dict[str, Any] | None = found.object()
    else:
        chosen = next(
            (it for record in classes.values() if (it := record.object()).get("globalDefault")),
            None,
        )
    value = chosen.get("value", 0) if chosen else 0
    if spec.get("priority") not in {None, value}:
        raise forbidden(
            resource,
            name,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec;"
            f" priority admission controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    if chosen:
        spec["priorityClassName"] = chosen["metadata"]["name"]
        spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")


def _service_class(spec: dict[str, Any]) -> str:
    requests, limits = [], []
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        amounts = container["resources"]
        requests.append(_of_cpu_and_memory(amounts.get("requests")))
        limits.append(_of_cpu_and_memory(amounts.get("limits")))
    if not any(requests) and not any(limits):
        return "BestEffort"
    is_whole = all(len(it) == len(("cpu", "memory")) for it in limits)
    return "Guaranteed" if is_whole and requests == limits else "Burstable"


def _of_cpu_and_memory(amounts: dict[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (amounts or {}).items() if key in {"cpu", "memory"}}


def complete_pod_update(resource: Resource, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse what an update may not change; what it leaves out has the defaults of a new pod.

    Raises:
        ApiError: 400 or 422, the update is wrong or changes such a field.

    """
    name = old["metadata"]["name"]
    if new.get("spec") == old["spec"]:
        return
    whole = new["spec"] = copy.deepcopy(new.get("spec") or {})
    faults = _complete_containers(whole)
    if faults:
        raise invalid(resource, name, faults)
    _complete_spec(whole)
    for part in _ADMITTED:
        if part in old["spec"]:
            whole.setdefault(part, old["spec"][part])
    was, spec = dict(old["spec"]), dict(whole)
    is_gated = bool(was.get("schedulingGates"))
    for part in (*_FREE, *(_FREE_WHILE_GATED if is_gated else ())):
        was.pop(part, None)
        spec.pop(part, None)
    gates = spec.pop("schedulingGates", None) or []
    if any(gate not in (was.pop("schedulingGates", None) or []) for gate in gates):
        raise invalid(
            resource, name, [not_allowed("spec.schedulingGates", "only deletion is allowed")]
        )
    was.pop("schedulingGates", None)
    more = spec.pop("tolerations", None) or []
    is_kept = all(it in more for it in was.pop("tolerations", None) or [])
    if not is_kept or _without_images(was) != _without_images(spec):
        raise invalid(resource, name, [not_allowed("spec", _MAY_CHANGE)])


def _without_images(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        key: [{**it, "image": ""} for it in value]
        if key in {"containers", "initContainers"} and isinstance(value, list)
        else value
        for key, value in spec.items()
    }


def settle_gates(pod: dict[str, Any]) -> None:
    """Take the condition of gated pods away with the last gate."""
    if (pod.get("spec") or {}).get("schedulingGates"):
        return
    conditions = pod.get("status", {}).get("conditions")
    if conditions:
        left = [it for it in conditions if it.get("reason") != "SchedulingGated"]
        if len(left) != len(conditions):
            pod["status"]["conditions"] = left


def set_condition(pod: dict[str, Any], condition: dict[str, Any], now: str) -> None:
    """Set a condition of a pod; its time is that of the last change of its status."""
    conditions = pod["status"].setdefault("conditions", [])
    old = next((it for it in conditions if it.get("type") == condition["type"]), None)
    is_same = old is not None and old.get("status") == condition["status"]
    since = old.get("lastTransitionTime") if old is not None and is_same else now
    whole = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": since,
        **condition,
    }
    if old is None:
        conditions.append(whole)
    else:
        conditions[conditions.index(old)] = whole
