"""Worked examples of where work goes, X1 to X29: which test has each of them.

X21 and X22 have a result for each value of `fairness`: `hierarchy` and `projects`.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TOPOLOGY = "plugins/kaisched_plugins/topology/tests/test_topology.py"
LAWS = "plugins/kaisched_plugins/topology/tests/test_topology_laws.py"
POD_SETS = "plugins/kaisched_plugins/topology/tests/test_pod_sets.py"
EVICTIONS = "plugins/kaisched_plugins/topology/tests/test_topology_evictions.py"
FAILURES = "plugins/kaisched_plugins/topology/tests/test_topology_failures.py"
WORKLOADS = "tests/unit/cluster/test_workload_topology.py"
GANG_API = "tests/unit/cluster/test_gang_api_topology.py"
LISTS = "tests/unit/cluster/pools/test_lists.py"
SIBLINGS = "tests/scenarios/test_projects_may_divide_without_departments.py"
DEPARTMENTS = "tests/scenarios/test_departments_share_by_their_quotas.py"

EXAMPLES = {
    1: (TOPOLOGY, "test_the_fullest_rack_that_holds_the_gang_is_taken"),
    2: (TOPOLOGY, "test_the_fullest_rack_that_holds_the_gang_is_taken"),
    3: (TOPOLOGY, "test_the_fullest_rack_that_holds_the_gang_is_taken"),
    4: (TOPOLOGY, "test_a_zone_is_filled_with_few_racks_and_the_last_by_best_fit"),
    5: (LAWS, "test_few_blocks_and_then_few_racks"),
    6: (POD_SETS, "test_hosts_by_best_fit", "test_a_free_choice_takes_the_fullest_hosts"),
    7: (POD_SETS, "test_slices_are_whole_on_each_host"),
    8: (POD_SETS, "test_even_shares"),
    9: (
        TOPOLOGY,
        "test_subgroups_that_block_each_other_are_placed_in_another_order",
        "test_subgroups_in_written_order",
    ),
    10: (
        FAILURES,
        "test_after_the_grace_a_gang_whose_node_failed_goes_whole_and_starts_elsewhere",
        "test_a_gang_that_can_do_without_the_lost_pod_goes_on_and_the_pod_waits",
    ),
    11: (
        FAILURES,
        "test_the_pod_of_a_failed_node_goes_to_free_room_of_the_rack_and_no_other_moves",
        "test_after_the_grace_a_gang_whose_node_failed_goes_whole_and_starts_elsewhere",
    ),
    12: (EVICTIONS, "test_the_rack_is_cleared_in_which_least_is_lost"),
    13: (EVICTIONS, "test_consolidate_clears_one_rack_and_moves_the_newest"),
    14: (TOPOLOGY, "test_neighbours_in_index_are_neighbours_in_the_network"),
    15: (
        GANG_API,
        "test_equal_values_in_two_zones_are_one_domain_if_no_topology_has_the_label",
        "test_racks_of_a_topology_in_two_zones_are_two",
    ),
    16: (
        "tests/unit/framework/test_reach.py",
        "test_rooms_of_racks_are_rounded_down_to_whole_gangs",
    ),
    17: (LISTS, "test_non_preemptible_work_skips_pools_without_quota_for_it"),
    18: (
        "tests/unit/cluster/pools/test_project_quotas.py",
        "test_what_a_project_holds_elsewhere_counts_in_its_sum",
        "test_a_shard_may_look_at_its_own_pool_only",
    ),
    19: (LISTS, "test_a_gang_is_in_one_pool_and_independent_pods_are_in_several"),
    20: (
        LISTS,
        "test_stays_double_in_each_pool_lap_by_lap",
        "test_times_double_with_each_lap_and_a_change_makes_a_pool_due",
        "test_no_stay_is_longer_than_five_minutes",
    ),
    21: (SIBLINGS, "test_departments_divide_first", "test_projects_divide_as_siblings"),
    22: (
        SIBLINGS,
        "test_a_project_within_its_quota_loses_where_its_department_is_over_its_own",
        "test_a_project_within_its_quota_loses_nothing_where_projects_divide",
    ),
    23: (DEPARTMENTS, "test_words_for_over_quota_priority_are_weights_of_none_to_three"),
    24: (
        "tests/unit/core/test_subscription.py",
        "test_changes_of_quotas_in_a_department_of_ten",
    ),
    25: (
        "tests/unit/objects/test_segments.py",
        "test_segments_that_the_minimum_reaches_into_are_needed_whole",
        "test_an_elastic_pytorch_job_needs_whole_segments",
    ),
    26: (WORKLOADS, "test_racks_hold_whole_segments_only"),
    27: (POD_SETS, "test_layers_of_slices"),
    28: (TOPOLOGY, "test_the_scarcest_resource_counts"),
    29: (TOPOLOGY, "test_mixed_pods_go_where_all_of_them_fit_next_to_each_other"),
}


@cache
def functions_of(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_example_has_a_test():
    assert list(EXAMPLES) == list(range(1, 30))


@pytest.mark.parametrize("number", EXAMPLES)
def test_the_test_of_an_example_exists(number):
    path, *names = EXAMPLES[number]
    assert names
    assert set(names) <= functions_of(path)
