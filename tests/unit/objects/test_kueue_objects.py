"""Kueue's objects are read strictly, and what has no meaning here is said."""

import pytest

from kaisched.objects.kueue import ClusterQueue, Cohort, LocalQueue, WorkloadPriorityClass
from kaisched.objects.load import load_text

NEW, OLD = "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"
GPUS = """
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: a100
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: "4", lendingLimit: 2}
"""


def written(kind, spec, version=NEW, name="a"):
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:{spec}\n"


def faults(text):
    """(path, message) of the problems and of the warnings."""
    loaded = load_text(text, "f.yaml")
    return (
        [(it.path, it.message) for it in loaded.problems],
        [(it.path, it.message) for it in loaded.warnings],
    )


@pytest.mark.parametrize(("version", "key"), [(NEW, "cohortName"), (OLD, "cohort")])
def test_both_versions_of_a_cluster_queue_are_read(version, key):
    spec = f"\n  {key}: all\n  namespaceSelector: {{}}\n  resourceGroups:{GPUS}"
    loaded = load_text(written("ClusterQueue", spec, version), "f.yaml")
    assert (loaded.problems, loaded.warnings) == ([], [])
    (queue,) = loaded.of(ClusterQueue)
    assert queue.spec.above == "all"
    (resource,) = queue.spec.resource_groups[0].flavors[0].resources
    assert (resource.nominal_quota, resource.borrowing_limit, resource.lending_limit) == (8, "4", 2)
    assert queue.spec.preemption.reclaim_within_cohort == "Never"


@pytest.mark.parametrize(
    ("version", "key"), [(NEW, "parentName"), ("kueue.x-k8s.io/v1alpha1", "parent")]
)
def test_all_versions_of_a_cohort_are_read(version, key):
    loaded = load_text(written("Cohort", f" {{{key}: top}}", version))
    assert [it.spec.above for it in loaded.of(Cohort)] == ["top"]


def test_local_queues_and_priority_classes_are_read():
    text = written("LocalQueue", " {clusterQueue: a, stopPolicy: Hold}") + "---\n"
    text += f"{{apiVersion: {NEW}, kind: WorkloadPriorityClass, metadata: {{name: p}}, value: 7}}"
    loaded = load_text(text)
    (queue,), (cls,) = loaded.of(LocalQueue), loaded.of(WorkloadPriorityClass)
    assert (queue.key, queue.spec.cluster_queue, queue.spec.stop_policy) == (
        "default/a",
        "a",
        "Hold",
    )
    assert cls.value == 7
    assert (loaded.problems, loaded.warnings) == ([], [])


WARNED = [
    ("queueingStrategy: StrictFIFO", "spec.queueingStrategy"),
    ("admissionChecks: [quota]", "spec.admissionChecks"),
    ("admissionChecksStrategy: {admissionChecks: []}", "spec.admissionChecksStrategy"),
    ("concurrentAdmissionPolicy: {mode: x}", "spec.concurrentAdmissionPolicy"),
]


@pytest.mark.parametrize(("line", "path"), WARNED)
def test_a_field_without_a_meaning_is_named(line, path):
    found = faults(written("ClusterQueue", f"\n  namespaceSelector: {{}}\n  {line}"))
    assert found == ([], [(path, "has no meaning here")])


@pytest.mark.parametrize(
    "line",
    [
        "queueingStrategy: BestEffortFIFO",
        "flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}",
        "flavorFungibility: {whenCanPreempt: MayStopSearch, preference: PreemptionOverBorrowing}",
        "preemption: {borrowWithinCohort: {policy: Never}}",
        "preemption: {borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: -5}}",
        "admissionScope: {admissionMode: NoAdmissionFairSharing}",
        "admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}",
    ],
)
def test_what_api_servers_fill_in_is_no_warning(line):
    assert faults(written("ClusterQueue", f"\n  namespaceSelector: {{}}\n  {line}")) == ([], [])


def test_a_selector_of_namespaces_is_reported_whatever_it_says():
    assert faults(written("ClusterQueue", " {}"))[1] == [("spec.namespaceSelector", "missing")]
    found = faults(written("ClusterQueue", " {namespaceSelector: {matchLabels: {a: b}}}"))
    assert found == ([], [("spec.namespaceSelector", "has no meaning here")])


def test_what_of_a_flavor_has_no_meaning_is_named():
    spec = " {nodeLabels: {gpu: a100}, nodeTaints: [{key: k}], tolerations: [], topologyName: t}"
    paths = [path for path, _ in faults(written("ResourceFlavor", spec))[1]]
    assert paths == ["spec.nodeTaints", "spec.topologyName"]
    assert faults(f"{{apiVersion: {OLD}, kind: ResourceFlavor, metadata: {{name: f}}}}") == ([], [])


QUOTA = (
    "\n  namespaceSelector: {}\n  cohortName: all\n  resourceGroups:\n"
    "  - coveredResources: [%s]\n    flavors:\n    - name: f\n      resources: [%s]"
)
WRONG = [
    (" {cohrtName: all}", "spec.cohrtName", "unknown key"),
    (" {cohort: a, cohortName: b}", "spec.cohort", "cohortName says 'b'"),
    (" {stopPolicy: Stop}", "spec.stopPolicy", "no such choice"),
    (" {fairSharing: {weight: -1}}", "spec.fairSharing.weight", "-1 is negative"),
    (
        " {admissionScope: {admissionMode: Some}}",
        "spec.admissionScope.admissionMode",
        "no such choice",
    ),
    (" {fairSharing: {weight: 1e-12}}", "spec.fairSharing.weight", "out of range"),
    (
        " {preemption: {borrowWithinCohort: {maxPriorityThreshold: 2147483648}}}",
        "spec.preemption.borrowWithinCohort.maxPriorityThreshold",
        "out of range",
    ),
    (" {preemption: {reclaimWithinCohort: Some}}", "spec.preemption.reclaimWithinCohort", None),
    (
        QUOTA % ("cpu", "{name: cpu, nominalQuota: 5x}"),
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        "'5x' is no amount",
    ),
    (
        QUOTA % ("cpu, memory", "{name: cpu, nominalQuota: 5}"),
        "spec.resourceGroups[0].flavors[0].resources",
        "not those that are covered",
    ),
    (
        QUOTA.replace("  cohortName: all\n", "")
        % ("cpu", "{name: cpu, nominalQuota: 5, borrowingLimit: 1}"),
        "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
        "needs a cohort",
    ),
    (
        "\n  resourceGroups: [{coveredResources: [cpu]}]",
        "spec.resourceGroups[0].flavors",
        "empty",
    ),
]


@pytest.mark.parametrize(("spec", "path", "message"), WRONG)
def test_a_wrong_cluster_queue_is_an_error_with_its_path(spec, path, message):
    loaded = load_text(written("ClusterQueue", spec), "f.yaml")
    assert loaded.objects == []
    (problem,) = loaded.problems
    assert (problem.file, problem.kind, problem.name, problem.path) == (
        "f.yaml",
        "ClusterQueue",
        "a",
        path,
    )
    assert message in (None, problem.message)
    assert problem.fix


def test_a_flavor_and_a_resource_are_given_once():
    twice = "resourceGroups:" + GPUS + GPUS.removeprefix("\n")
    problems = faults(written("ClusterQueue", f"\n  cohort: c\n  {twice}"))[0]
    assert {message for _, message in problems} == {
        "a resource is covered twice",
        "a flavor is given twice",
    }


def test_a_version_that_is_not_known_names_one_that_is():
    (problem,) = load_text(written("ClusterQueue", " {}", "kueue.x-k8s.io/v9")).problems
    assert problem.fix == f'write "{NEW}"'
