"""The token of a kubeconfig that stands in a file of its own: whoever renews it is noticed."""

import pytest
import yaml

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.access import TOKEN_S, TokenFile, find_access
from kaisched.cluster.kubernetes.client import Answer
from kaisched.errors import ClusterUnavailable
from kaisched.telemetry.logs import masked


def kubeconfig(folder, **user):
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "one", "context": {"cluster": "c", "user": "u"}}
    other = {"name": "two", "context": {"cluster": "c", "user": "v"}}
    users = [{"name": "u", "user": user}, {"name": "v", "user": {"token": "plain-token"}}]
    config = {"clusters": [cluster], "contexts": [context, other], "users": users}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({**config, "current-context": "one"}), encoding="utf-8")
    return path


@pytest.mark.fault("I131")
def test_a_token_file_is_read_again(tmp_path):
    file, clock = tmp_path / "token", ManualClock(5.0)
    file.write_text("first-token\n", encoding="utf-8")
    token = TokenFile(file, clock.now_s)
    assert token.authorization() == "Bearer first-token"
    file.write_text("second-token\n", encoding="utf-8")
    clock.sleep(TOKEN_S - 1)
    assert token.authorization() == "Bearer first-token"
    clock.sleep(1)
    assert token.authorization() == "Bearer second-token"
    assert "second-token" not in masked("", "it was second-token")


@pytest.mark.fault("I131")
@pytest.mark.parametrize("state", ["gone", "empty"])
def test_a_token_that_is_being_replaced_stays_for_the_moment(tmp_path, state):
    file, clock = tmp_path / "token", ManualClock(5.0)
    file.write_text("first-token", encoding="utf-8")
    token = TokenFile(file, clock.now_s)
    token.authorization()
    file.unlink() if state == "gone" else file.write_text("", encoding="utf-8")
    clock.sleep(TOKEN_S)
    assert token.authorization() == "Bearer first-token"
    file.write_text("second-token", encoding="utf-8")
    assert token.authorization() == "Bearer second-token"


@pytest.mark.parametrize(("text", "problem"), [(None, "No such file"), ("\n", "it is empty")])
def test_a_token_that_was_never_there_is_told_with_its_file(tmp_path, text, problem):
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ClusterUnavailable, match=problem) as caught:
        TokenFile(file).authorization()
    assert str(file) in str(caught.value)


@pytest.mark.fault("I131")
def test_the_file_is_found_beside_the_kubeconfig_and_counts_before_a_token(tmp_path):
    (tmp_path / "token").write_text("from-the-file\n", encoding="utf-8")
    path = kubeconfig(tmp_path, tokenFile="token", token="from-the-config")
    access = find_access(path)
    assert access.authorization() == "Bearer from-the-file"
    assert find_access(path, "two").authorization() == "Bearer plain-token"


@pytest.mark.parametrize("body", [b"%s", b'{"kind": "Status", "message": "%s"}'])
def test_an_answer_that_has_the_token_in_it_is_told_without_it(tmp_path, body):
    """Also where the line would end in the middle of it."""
    (tmp_path / "token").write_text("open-sesame-0815", encoding="utf-8")
    assert TokenFile(tmp_path / "token").authorization() == "Bearer open-sesame-0815"
    for said in (b"you sent open-sesame-0815", b"x" * 290 + b"open-sesame-0815"):
        text = Answer(401, body % said).text()
        assert "***" in text
        assert "open" not in text


def test_a_user_without_a_file_is_as_ever(tmp_path):
    assert find_access(kubeconfig(tmp_path, token="of-the-user")).authorization() == (
        "Bearer of-the-user"
    )
    assert find_access(kubeconfig(tmp_path)).authorization() == ""
