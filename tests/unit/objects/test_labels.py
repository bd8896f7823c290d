"""Labels and annotations, and their values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.wire import ObjectMeta, TopologyConstraint
from kaisched.units import UnitError

GETTERS = [
    labels.queue_of,
    labels.node_pool_of,
    labels.preemptibility_of,
    labels.subgroup_of,
    labels.task_priority_of,
    labels.pod_group_of,
    labels.topology_constraint_of,
    labels.batch_min_member_of,
    labels.preemption_delay_of,
    labels.staleness_grace_of,
    labels.topology_patience_of,
    labels.last_start_of,
    labels.last_eviction_of,
    labels.stale_since_of,
    labels.is_grouping_skipped,
]
KEYS = [value for name, value in vars(labels).items() if name.isupper() and name[0] != "_"]


def labelled(**pairs):
    return ObjectMeta(name="x", labels={getattr(labels, key): text for key, text in pairs.items()})


def noted(**pairs):
    notes = {getattr(labels, key): text for key, text in pairs.items()}
    return ObjectMeta(name="x", annotations=notes)


def test_the_queue_label_comes_before_the_project_label():
    assert labels.queue_of(labelled(QUEUE="a", PROJECT="b")) == "a"
    assert labels.queue_of(labelled(PROJECT="b")) == "b"
    assert labels.queue_of(labelled(PROJECT="b", NODE_POOL="h100")) == "b-h100"
    assert labels.queue_of(labelled(NODE_POOL="h100")) is None


def test_values_are_read_as_what_they_are():
    assert labels.task_priority_of(labelled(TASK_PRIORITY="-3")) == -3
    assert labels.preemptibility_of(labelled(PREEMPTIBILITY="preemptible")) == "preemptible"
    assert labels.batch_min_member_of(noted(BATCH_MIN_MEMBER="4")) == 4
    assert labels.preemption_delay_of(noted(PREEMPTION_DELAY="90s")) == 90.0
    assert labels.topology_patience_of(noted(TOPOLOGY_PATIENCE="5m")) == 300.0
    assert labels.staleness_grace_of(noted(STALENESS_GRACE_PERIOD="-1s")) == -1.0
    assert labels.last_start_of(noted(LAST_START="1970-01-01T00:01:00Z")) == 60.0
    assert labels.is_grouping_skipped(noted(SKIP_GROUPING=""))
    constraint = labels.topology_constraint_of(noted(TOPOLOGY="t", TOPOLOGY_REQUIRED="rack"))
    assert constraint == TopologyConstraint(topology="t", required_topology_level="rack")


@pytest.mark.parametrize(
    ("getter", "meta", "path"),
    [
        (
            labels.task_priority_of,
            labelled(TASK_PRIORITY="high"),
            "metadata.labels['kai.scheduler/task-priority']",
        ),
        (
            labels.batch_min_member_of,
            noted(BATCH_MIN_MEMBER="0"),
            "metadata.annotations['kai.scheduler/batch-min-member']",
        ),
        (
            labels.preemption_delay_of,
            noted(PREEMPTION_DELAY="-1s"),
            "metadata.annotations['kai.scheduler/preemption-delay']",
        ),
        (
            labels.topology_patience_of,
            noted(TOPOLOGY_PATIENCE="soon"),
            "metadata.annotations['kaisched.io/topology-patience']",
        ),
        (
            labels.last_start_of,
            noted(LAST_START="yesterday"),
            "metadata.annotations['kai.scheduler/last-start-timestamp']",
        ),
        (
            labels.preemptibility_of,
            labelled(PREEMPTIBILITY="maybe"),
            "metadata.labels['kai.scheduler/preemptibility']",
        ),
    ],
)
def test_a_value_that_makes_no_sense_is_an_error_with_its_path(getter, meta, path):
    with pytest.raises(ObjectError) as caught:
        getter(meta)
    assert caught.value.path == path
    assert caught.value.fix


@pytest.mark.parametrize("getter", GETTERS)
@given(text=st.text())
def test_no_text_can_surprise_a_getter(getter, text):
    meta = ObjectMeta(
        name="x", labels=dict.fromkeys(KEYS, text), annotations=dict.fromkeys(KEYS, text)
    )
    try:
        getter(meta)
    except ObjectError as error:
        assert error.path  # noqa: PT017 - most texts are no error


@pytest.mark.parametrize("getter", GETTERS)
def test_an_object_without_labels_says_nothing(getter):
    assert not getter(ObjectMeta(name="x"))


@given(st.integers(0, 4_000_000_000_000_000))
def test_a_shown_time_reads_back(micros):
    seconds = micros / 10**6
    assert labels.time_of(labels.format_time(seconds)) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("text", ["", "now", "2026-13-01T00:00:00Z", "9" * 100])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UnitError):
        labels.time_of(text)
