"""The law of reasons: counted in arrays they are what the records of the jobs would say."""

from collections import Counter

import pytest
from hypothesis import given

from kaisched.core.refusals import text_of
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S, clusters, policies
from tests.laws.crowded import crowded


def agrees(snapshot, policy):
    result, _ = run_cycle(snapshot, None, policy, NOW_S, Memory())
    records = result.records
    told = [records.record(row) for row in records.rows.tolist()]
    names = [text_of(code).name for code in records.codes.tolist()]
    assert names == [each.reason for each in told]
    assert records.counts() == dict(sorted(Counter(names).items()))
    assert sorted(told, key=lambda each: each.pod_group) == list(records)
    assert len(records) == len(told)


@pytest.mark.fault("I129")
@given(clusters, policies)
def test_codes_say_what_the_records_say(cluster, policy):
    agrees(cluster.store().snapshot(), policy)


@pytest.mark.fault("I129")
@given(crowded)
def test_codes_say_so_after_evictions_too(cluster):
    agrees(cluster.store().snapshot(), default_policy())
