"""Lists: order, pages, selectors, versions, and other forms of the same objects."""

import pytest

from tests.contract.apiserver.client import binding, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
FUTURE = "999999999999"


def names(answer):
    return [it["metadata"]["name"] for it in answer.body["items"]]


@pytest.fixture
def five(client, pods):
    """Pods a to e; a and b are of team x, c is bound to n1, d has another scheduler."""
    for name in "ecbda":
        labels = {"team": "x" if name in "ab" else "y"}
        scheduler = "other" if name == "d" else "kaisched"
        client.post(pods, pod(name, labels=labels, scheduler=scheduler))
    client.post(f"{pods}/c/binding", binding("c", "n1"))
    return pods


def test_a_list_is_in_the_order_of_names(client, five):
    answer = client.get(five)
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("PodList", "v1")
    assert names(answer) == list("abcde")


def test_a_list_over_all_namespaces_has_them_too(client, five, ns):
    answer = client.get("/api/v1/pods", fieldSelector=f"metadata.namespace={ns}")
    assert names(answer) == list("abcde")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("team=x", "ab"),
        ("team==x", "ab"),
        ("team!=x", "cde"),
        ("team in (x,z)", "ab"),
        ("team notin (x)", "cde"),
        ("team", "abcde"),
        ("!team", ""),
        ("team=y,other!=z", "cde"),
        ("other!=z", "abcde"),
    ],
)
def test_labels_select(client, five, selector, found):
    assert names(client.get(five, labelSelector=selector)) == list(found)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=n1", "c"),
        ("spec.nodeName!=", "c"),
        ("spec.nodeName=", "abde"),
        ("spec.schedulerName=kaisched", "abce"),
        ("spec.schedulerName!=kaisched", "d"),
        ("status.phase=Pending", "abcde"),
        ("status.phase!=Pending", ""),
        ("metadata.name=b", "b"),
        ("spec.schedulerName=kaisched,spec.nodeName=", "abe"),
    ],
)
def test_fields_select(client, five, selector, found):
    assert names(client.get(five, fieldSelector=selector)) == list(found)


@pytest.mark.parametrize("selector", ["a=b=c", "in (", "a in b", "=x"])
def test_label_selectors_must_be_selectors(client, pods, selector):
    assert client.get(pods, labelSelector=selector).code == 400


def test_pages_are_of_one_moment(client, five):
    first = client.get(five, limit=2)
    assert names(first) == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 3
    client.delete(f"{five}/d")
    client.post(five, pod("f"))
    token = first.body["metadata"]["continue"]
    second = client.get(five, limit=2, **{"continue": token})
    third = client.get(five, limit=2, **{"continue": second.body["metadata"]["continue"]})
    assert (names(second), names(third)) == (["c", "d"], ["e"])
    assert first.version == second.version == third.version
    assert "continue" not in third.body["metadata"]
    assert names(client.get(five)) == list("abcef")


def test_pages_of_a_selection_do_not_count_the_rest(client, five):
    first = client.get(five, limit=1, labelSelector="team=x")
    assert "remainingItemCount" not in first.body["metadata"]
    token = first.body["metadata"]["continue"]
    second = client.get(five, limit=5, labelSelector="team=x", **{"continue": token})
    assert names(second) == ["b"]


@pytest.mark.parametrize("query", [{"limit": "many"}, {"resourceVersion": "new"}])
def test_numbers_must_be_numbers(client, pods, query):
    assert client.get(pods, **query).code == 400


def test_an_exact_version_is_answered_as_it_was(client, pods):
    client.post(pods, pod("a"))
    version = client.get(pods).version
    client.post(pods, pod("b"))
    client.delete(f"{pods}/a")
    then = client.get(pods, resourceVersion=version, resourceVersionMatch="Exact")
    assert (names(then), then.version) == (["a"], version)


def test_a_list_can_be_of_metadata_only(client, five):
    answer = client.get(five, accept=METADATA)
    assert answer.body["kind"] == "PartialObjectMetadataList"
    assert names(answer) == list("abcde")
    assert all("spec" not in it for it in answer.body["items"])


def test_a_list_can_be_a_table(client, five):
    table = client.get(five, accept=TABLE).body
    titles = [it["name"] for it in table["columnDefinitions"]]
    assert titles[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert [row["cells"][0] for row in table["rows"]] == list("abcde")
    assert table["rows"][0]["cells"][1:3] == ["0/1", "Pending"]
    assert table["rows"][0]["object"]["metadata"]["name"] == "a"


def test_one_object_can_be_a_table(client, five):
    table = client.get(f"{five}/c", accept=TABLE).body
    assert (table["kind"], len(table["rows"])) == ("Table", 1)
