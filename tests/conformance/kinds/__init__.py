"""Unit cases: one function or rule on its own, asked through the project's public names."""

from collections.abc import Callable
from typing import Any

from tests.conformance.kinds import gates, orders, reclaims, runtimes, sessions, sharing
from tests.conformance.kueue import (
    classical,
    cycles,
    entries,
    flavors,
    past_usage,
    podset_topology,
    preemptions,
    topology_cycles,
)
from tests.conformance.kueue import judges as kueue

Judge = Callable[[dict[str, Any]], str]
"""Takes an entry with ``input`` and ``expected``; returns "" or what differs."""

JUDGES: dict[str, Judge] = {
    "fair_share": sharing.fair_share,
    "hierarchy_fair_share": sharing.hierarchy_fair_share,
    "queues_by_priority": sharing.queues_by_priority,
    "requestable_share": sharing.requestable_share,
    "dominant_share": sharing.dominant_share,
    "over_limit": gates.over_limit,
    "non_preemptible_over_quota": gates.non_preemptible_over_quota,
    "results_over_limit": gates.results_over_limit,
    "results_non_preemptible_over_quota": gates.results_non_preemptible_over_quota,
    "job_over_capacity": gates.job_over_capacity,
    "non_preemptible_job_over_quota": gates.non_preemptible_job_over_quota,
    "task_on_node_over_capacity": gates.task_on_node_over_capacity,
    "can_reclaim": reclaims.can_reclaim,
    "reclaimable": reclaims.reclaimable,
    "reclaim_strategy": reclaims.reclaim_strategy,
    "victim_resources": reclaims.victim_resources,
    "queue_order": orders.queue_order,
    "job_order": orders.job_order,
    "node_resources_for_division": sessions.node_resources_for_division,
    "pre_predicate": sessions.pre_predicate,
    "min_runtime": runtimes.min_runtime,
    "plugin_arguments": sessions.plugin_arguments,
    "share_value": kueue.share_value,
    "quota_available": kueue.quota_available,
    "borrowing_on": kueue.borrowing_on,
    "candidate_order": past_usage.candidate_order,
    "preemption_policy": kueue.preemption_policy,
    "target_queue_order": kueue.target_queue_order,
    "entry_less": kueue.entry_less,
    "fair_preemption": preemptions.fair_preemption,
    "counterexamples": preemptions.counterexamples,
    "flavor_preference": flavors.flavor_preference,
    "flavor_assignment": flavors.flavor_assignment,
    "flavor_reclaim_first": flavors.flavor_reclaim_first,
    "classical_preemption": classical.classical_preemption,
    "schedule_cycle_classical": cycles.cycle,
    "entry_order": entries.entry_order,
    "schedule_cycle_fair": cycles.cycle,
    "schedule_cycle_recompute": cycles.cycle,
    "afs_usage": past_usage.afs_usage,
    "afs_penalty": past_usage.afs_penalty,
    "afs_queue_head": past_usage.afs_queue_head,
    "placement": podset_topology.placement,
    "own_placement": podset_topology.placement,
    "replacement_layers": podset_topology.placement,
    "topology_cycle": topology_cycles.cycle,
    "topology_preemption": topology_cycles.cycle,
    "topology_cohorts": topology_cycles.cycle,
    "schedule_cycle_afs": past_usage.afs_cycle,
}
