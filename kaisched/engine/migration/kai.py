"""Queues, SchedulingShards and the Config of KAI-Scheduler as files of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kaisched.engine.migration.export import (
    OUR_NAME,
    Item,
    Migration,
    Note,
    Part,
    Reasons,
    items,
    nothing_in,
)
from kaisched.errors import join_path
from kaisched.objects.decode import BadObject, decode_object, without_nulls
from kaisched.objects.load import within
from kaisched.objects.queue import Queue
from kaisched.objects.shard import ARGS, SchedulingShard
from kaisched.objects.usage import check_url
from kaisched.units import UnitError, parse_duration
from kaisched.usage.history import HOLD_S

KAI_NAME: Final = "kai-scheduler"
_QUEUE_LABEL: Final = "kai.scheduler/queue"
_POOL_LABEL: Final = "kai.scheduler/node-pool"
_KUBECTL: Final = "kubectl.kubernetes.io/last-applied-configuration"

_SERVICE: Final = "kaisched is one Deployment: set its resources, replicas and image in the chart"
_METADATA: Final[Reasons] = {"*": "the API server sets it anew"}
_TOP: Final[Reasons] = {"status": "it is written anew from what is the case"}
_NO_EFFECT: Final[dict[str, str]] = {
    "goMemLimitRatio": "it is an option of Go programs",
    "scenarioSearchBudgets": "searches are bounded in steps, not in time",
}
_GLOBAL: Final[Reasons] = {
    "vpa": _SERVICE,
    "openshift": "the manifests run under OpenShift's default constraints as they are",
    "affinity": "set affinity in the chart's values",
    "requireDefaultPodAntiAffinityTerm": "set affinity in the chart's values",
    "securityContext": "the manifests have one: no root, no capabilities, nothing to write to",
    "imagesPullSecret": "set imagePullSecrets in the chart's values",
    "additionalImagePullSecrets": "set imagePullSecrets in the chart's values",
    "nodeSelector": "set nodeSelector in the chart's values",
    "tolerations": "set tolerations in the chart's values",
    "daemonsetsTolerations": "there is no DaemonSet here",
    "priorityClassName": "set priorityClassName in the chart's values",
    "replicaCount": "set replicas in the chart's values",
    "namespaceLabelSelector": "there is no webhook and no pod grouper: all pods with our"
    " schedulerName are ours",
    "podLabelSelector": "there is no webhook and no pod grouper: all pods with our schedulerName"
    " are ours",
    "jsonLog": "set log.format in the settings",
    "fipsOnly": "it is an option of Go programs",
    "gpuSharingMode": "pods share GPUs by reservation pods; see docs/how-to/take-over-from-kai.md",
}
_CONFIG: Final[Reasons] = {
    "namespace": "the chart is installed in a namespace of its own",
    "podGrouper": "kaisched groups pods itself; plugins.workloads of the shard takes more kinds",
    "podGroupController": "kaisched writes the status of pod groups itself",
    "queueController": "kaisched writes the status of queues and their metrics itself",
    "binder": "kaisched binds itself; what shares of GPUs need is gpuSharing of the shard: cdiNames"
    " for cdiEnabled",
    "admission": "there is no webhook: schemas and policies of the API server check objects",
    "scheduler": _SERVICE,
    "nodeScaleAdjuster": "nodes are not added for waiting shares of GPUs",
}


def from_kai(files: list[Path]) -> Migration:
    """Read what KAI-Scheduler's objects say.

    Raises:
        ObjectError: a file cannot be read; it holds all further such errors.

    """
    made = Migration()
    configs: list[Item] = []
    found = items(files, {}, made.told)
    is_read = False
    for item in found:
        kind = item.kind if _is_of_kai(item) else ""
        is_read = is_read or kind in (Queue.KIND, SchedulingShard.KIND, "Config")
        if kind == "Config":
            configs.append(item)
        elif kind == Queue.KIND:
            _take_queue(item, made)
        elif kind == SchedulingShard.KIND:
            _take_shard(item, made)
        else:
            reason = "only Queues, SchedulingShards and the Config of KAI-Scheduler are read"
            at = join_path(*item.at, "kind")
            made.told.left.append(Note(item.source, at, reason, item.kind))
    if not is_read:
        raise nothing_in(files, "Queues, SchedulingShards and the Config of KAI-Scheduler")
    made.scheduler_names = [OUR_NAME, KAI_NAME]
    for item in configs:
        _take_config(item, made)
    return made


def _is_of_kai(item: Item) -> bool:
    """Tell whether an object is of a group of KAI-Scheduler, or says none."""
    group = str(item.raw.get("apiVersion", "")).rpartition("/")[0]
    return group in {"", *(it.API_VERSION.rpartition("/")[0] for it in (Queue, SchedulingShard))}


def _take_queue(item: Item, made: Migration) -> None:
    queue = _decoded(item, Queue, made)
    if queue is None:
        return
    if queue.name in made.queues:
        item.part(made.told).wrong("metadata", "a queue given twice", queue.name, "drop one")
        return
    spec = item.raw.get("spec") or {}
    for name, share in (spec.get("resources") or {}).items():
        for key, meaning in (("limit", "no limit"), ("overQuotaWeight", "a weight of 1")):
            if isinstance(share, dict) and share.get(key) is None:
                item.part(made.told).to_do(
                    f"{key} is not given: {meaning} here, 0 in KAI-Scheduler; write what you mean",
                    "spec",
                    "resources",
                    str(name),
                )
    made.queues[queue.name] = {"metadata": _labels(item, made), "spec": without_nulls(spec)}


def _take_shard(item: Item, made: Migration) -> None:
    shard = _decoded(item, SchedulingShard, made)
    if shard is None:
        return
    if shard.name in made.shards:
        item.part(made.told).wrong("metadata", "a shard given twice", shard.name, "drop one")
        return
    _labels(item, made)
    spec = item.part(made.told, inside="spec")
    for key in _NO_EFFECT:
        spec.leave(key, _NO_EFFECT[key])
    args = spec.part("args")
    taken = {flag: args.raw(flag) for flag in ARGS if args.has(flag)}
    args.rest({"*": "it is no part of a policy: see the settings"})
    rest = {key: spec.raw(key) for key in item.raw["spec"] if spec.has(key)}
    made.shards[shard.name] = without_nulls({**rest, **({"args": taken} if taken else {})})
    made.shares_gpus |= shard.spec.gpu_sharing is not None


def _decoded(item: Item, type_: Any, made: Migration) -> Any:
    part = item.part(made.told)
    for key in ("apiVersion", "kind", "metadata", "spec"):
        part.raw(key)
    part.rest(_TOP)
    try:
        obj, _ = decode_object(item.raw, type_, item.source)
    except BadObject as bad:
        made.told.errors += within(bad.errors, item.at)
        return None
    return obj


def _labels(item: Item, made: Migration) -> dict[str, Any]:
    """Return labels and annotations, without what kubectl keeps there."""
    part = item.part(made.told, inside="metadata")
    part.name("name")
    kept = {
        key: {name: text for name, text in part.raw(key).items() if name != _KUBECTL}
        for key in ("labels", "annotations")
        if part.has(key)
    }
    part.rest(_METADATA)
    return {key: value for key, value in kept.items() if value}


def _take_config(item: Item, made: Migration) -> None:
    whole = item.part(made.told)
    for key in ("apiVersion", "kind", "metadata", "spec"):
        whole.raw(key)
    whole.rest(_TOP)
    config = item.part(made.told, inside="spec")
    common = config.part("global")
    name = common.text("schedulerName")
    if name:
        made.scheduler_names.append(name)
    for key, ours in (("queueLabelKey", _QUEUE_LABEL), ("nodePoolLabelKey", _POOL_LABEL)):
        _other_label(common, key, ours)
    common.rest(_GLOBAL)
    take_prometheus(config.part("prometheus"), made)
    config.rest(_CONFIG)


def _other_label(common: Part, key: str, ours: str) -> None:
    label = common.text(key)
    if label and label != ours:
        common.to_do(f"kaisched reads the label {ours}: give it the values of {label}", key)


_SERVER: Final = "kaisched deploys no Prometheus: set it at your own server"
_REASONS: Final[Reasons] = {
    "instanceName": _SERVER,
    "storageClassName": f"{_SERVER}; a history of the kind sqlite has usageVolume in the chart",
    "storageSize": f"{_SERVER}; a history of the kind sqlite has usageVolume in the chart",
    "enablePersistentStorage": f"{_SERVER}; a history of the kind sqlite has usageVolume in the"
    " chart",
    "accountingLabelKey": "the ServiceMonitor of the chart has its own labels",
    "accountingLabelValue": "the ServiceMonitor of the chart has its own labels",
}
_MONITOR: Final[Reasons] = dict.fromkeys(
    ("interval", "scrapeTimeout", "bearerTokenFile"),
    "the chart's ServiceMonitor scrapes every 30 s, within 10 s, with the token of Prometheus",
)
_NOBODY_ASKS: Final = "no shard has a usageDBConfig with clientType: prometheus, so nobody asks it"


def take_prometheus(part: Part, made: Migration) -> None:
    """Take the keys that shards and chart have too, and tell of the rest."""
    asking = [
        config
        for spec in made.shards.values()
        if (config := spec.get("usageDBConfig", {})).get("clientType") == "prometheus"
    ]
    _take_address(part, asking)
    probe = part.part("externalPrometheusHealthProbe")
    if asking:
        _take_probe(probe, asking)
        probe.rest({})
    else:
        probe.rest({"*": _NOBODY_ASKS})
    _take_interval(part, asking)
    _take_retention(part, asking)
    monitor = part.part("serviceMonitor")
    made.service_monitor = monitor.switch("enabled")
    monitor.rest(_MONITOR)
    part.rest(_REASONS)


def _take_address(part: Part, asking: list[dict[str, object]]) -> None:
    is_deployed = part.switch("enabled")
    url = part.text("externalPrometheusUrl")
    if url:
        try:
            check_url(url)
        except UnitError as error:
            part.wrong("externalPrometheusUrl", str(error), url, error.fix)
        if not asking:
            part.to_do(_NOBODY_ASKS, "externalPrometheusUrl")
        for config in asking:
            if not config.get("connectionStringEnvVar"):
                config.setdefault("connectionString", url)
    elif is_deployed:
        part.to_do(
            "the server of KAI-Scheduler's operator goes with the operator: keep it, or bring your"
            " own, as docs/how-to/bring-your-prometheus.md says",
            "enabled",
        )


def _take_probe(probe: Part, asking: list[dict[str, object]]) -> None:
    """Take how often the server is asked whether it answers; the Config has seconds."""
    taken: dict[str, object] = {
        key: seconds for key in ("interval", "timeout") if (seconds := probe.seconds(key))
    }
    retries = probe.number("maxRetries")
    if retries is not None:
        taken["maxRetries"] = retries
    for config in asking if taken else ():
        config.setdefault("healthProbe", taken)


def _take_interval(part: Part, asking: list[dict[str, object]]) -> None:
    """Ask in steps of the interval at which the server has samples: there is nothing between."""
    interval = part.duration("sampleInterval")
    if not interval:
        return
    if not asking:
        part.to_do(_NOBODY_ASKS, "sampleInterval")
    for config in asking:
        params = config.get("usageParams")
        inner = params.get("extraParams") if isinstance(params, dict) else None
        extra = inner if isinstance(inner, dict) else config.setdefault("extraParams", {})
        if isinstance(extra, dict):
            extra.setdefault("queryResolution", interval)
    part.to_do(f"let your server scrape kaisched every {interval}", "sampleInterval")
    if parse_duration(interval) > HOLD_S:
        part.to_do("a sample counts for five minutes at most: scrape more often", "sampleInterval")


def _take_retention(part: Part, asking: list[dict[str, object]]) -> None:
    period = part.duration("retentionPeriod")
    if not period:
        return
    part.to_do(f"let your server keep what it scrapes for {period}", "retentionPeriod")
    for config in asking:
        params = config.get("usageParams")
        window = params.get("windowSize", "1w") if isinstance(params, dict) else "1w"
        if parse_duration(window) > parse_duration(period):
            text = f"a shard's window of {window} is longer: what is older than {period} is lost"
            part.to_do(text, "retentionPeriod")
