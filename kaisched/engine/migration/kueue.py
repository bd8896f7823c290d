"""Kueue's objects among manifests, replaced by queues and labels of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from kaisched.framework.plugins.loader import installed_plugins
from kaisched.objects.kueue import KINDS, ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from kaisched.objects.kueue_queues import FlavorNodes, tree_of
from kaisched.objects.kueue_work import Translator, jobs_with_uids
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue
from kaisched.objects.workloads import Job, JobTemplate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaisched.framework.policy import Policy
    from kaisched.objects.kueue_queues import Tree
    from kaisched.objects.load import Loaded
    from kaisched.objects.shard import SchedulingShard

_NO_HISTORY: Final = (
    "ClusterQueue {} serves its LocalQueues by usage, but the shard keeps no history: what they"
    " hold now counts; write a usageDBConfig, as docs/how-to/from-kueue.md says"
)


def translate(loaded: Loaded, shard: SchedulingShard, policy: Policy, scheduler: str) -> list[str]:
    """Replace Kueue's objects by what they mean here; return warnings.

    Args:
        loaded: the manifests, workloads of all kinds included.
        shard: says which resources are GPUs.
        policy: should lend as Kueue does.
        scheduler: gets the pods of LocalQueues.

    """
    warnings: list[str] = []
    if any(isinstance(obj, KINDS) for obj in loaded.objects):
        by_usage = [it.name for it in loaded.of(ClusterQueue) if it.spec.is_by_usage]
        warnings = _translate(loaded, shard, scheduler)
        if not any(setting.plugin.lends for setting in policy.plugins):
            warnings.append(_not_lent())
        usage = shard.spec.usage_db_config
        if by_usage and (usage is None or not usage.client_type):
            warnings.append(_NO_HISTORY.format(min(by_usage)))
    # What pods of a Job would look like is of no more use, and large.
    loaded.objects = [
        replace(it, spec=replace(it.spec, template=JobTemplate())) if isinstance(it, Job) else it
        for it in loaded.objects
    ]
    return warnings


def _not_lent() -> str:
    """Return the warning about a policy that does not lend, with the plugins that would."""
    installed = installed_plugins().by_name.values()
    lending = [each.name for each in installed if each.plugin is not None and each.plugin.lends]
    fix = f"enable the plugin {' or '.join(lending)}" if lending else "no installed plugin does"
    return (
        "the policy of the shard does not lend between ClusterQueues as Kueue does:"
        f" {fix}; see docs/how-to/from-kueue.md"
    )


def _translate(loaded: Loaded, shard: SchedulingShard, scheduler: str) -> list[str]:
    tree = tree_of(
        loaded.of(ClusterQueue),
        loaded.of(Cohort),
        loaded.of(LocalQueue),
        taken=[queue.name for queue in loaded.of(Queue)],
        gpu_resources=shard.spec.gpu_resources,
        sources=loaded.sources,
        flavors=loaded.of(ResourceFlavor),
    )
    names = [queue.name for queue in loaded.of(ClusterQueue)]
    objects = jobs_with_uids(loaded.objects)
    flavor_objects = loaded.of(ResourceFlavor)
    gpus = shard.spec.gpu_resources
    nodes = FlavorNodes(tree.flavor_of, flavor_objects, gpus, tree.flavors_of)
    translator = Translator(objects, names, tree.local_queues, nodes, scheduler, loaded.sources)
    work = translator.translate()
    rest = [obj for obj in objects if not isinstance(obj, (*KINDS, Pod))]
    loaded.objects = [*tree.queues, *work.queues, *work.classes, *rest, *work.pods]
    for name, identity in tree.made_of.items():
        if identity in loaded.sources:
            loaded.sources[Queue.KIND, name] = loaded.sources[identity]
    loaded.problems += [*tree.problems, *work.problems]
    known = {flavor.name for flavor in flavor_objects}
    return [
        *(str(it) for it in (*tree.warnings, *work.warnings)),
        *_unknown_flavors(tree, known),
        *_without_nodes(tree, flavor_objects, loaded.of(Node)),
    ]


def _unknown_flavors(tree: Tree, known: set[str]) -> list[str]:
    """Return a warning for each flavor without an object: which nodes its pods may be on (K4)."""
    alone = {flavor for flavors in tree.flavor_of.values() for flavor in flavors.values()}
    several = {flavor for flavors in tree.flavors_of.values() for flavor in flavors}
    nodes = (
        (alone, "any node"),
        (several, "the nodes that no other flavor of the queue has"),
    )
    return [
        f"ResourceFlavor {name} is named by quotas, but is not among the files: its pods may be"
        f" on {where}"
        for named, where in nodes
        for name in sorted(named - known)
    ]


def _without_nodes(
    tree: Tree, flavors: Iterable[ResourceFlavor], nodes: Sequence[Node]
) -> Iterator[str]:
    """Yield a warning for each flavor that quotas name and no node has the labels of."""
    named = {it for some in tree.flavor_of.values() for it in some.values()}
    named.update(it for some in tree.flavors_of.values() for it in some)
    for flavor in flavors:
        labels = flavor.spec.node_labels
        if (
            flavor.name in named
            and nodes
            and not any(labels.items() <= node.metadata.labels.items() for node in nodes)
        ):
            told = " and ".join(f"{key}={value}" for key, value in sorted(labels.items()))
            yield (
                f"ResourceFlavor {flavor.name} is named by quotas, but no node among the files has"
                f" {told}: nothing can start in it"
            )
