"""Commands that ask a running scheduler: what they print, watch and draw."""

import json

import pytest
import yaml

from kaisched.cli import live, printing, top
from kaisched.cli.live import Server
from kaisched.cli.top import PANES, Screen, frame
from kaisched.config.settings import Kubernetes
from kaisched.errors import ClusterUnavailable, ConfigError

pytestmark = pytest.mark.usefixtures("rested")


@pytest.fixture(scope="module")
def crowd(live_files):
    return live_files


LINES = [
    *(("why", name) for name in ("a-0", "a-1", "team/a-2", "b-0", "team/pg-b-0-uid-9")),
    ("queue", "ls"),
    ("queue", "show", "a"),
    ("queue", "show", "root"),
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_running_scheduler_says_what_the_files_say(run, crowd, url, line):
    code, out, err = run(*line, "--server", url)
    assert code == 0
    assert (code, out) == run(*line, "-f", crowd)[:2]
    assert err == f"kaisched: this is what the scheduler at {url} says\n"


@pytest.mark.parametrize("line", [LINES[1], LINES[5], LINES[6]], ids=" ".join)
def test_documents_of_both_have_the_same_fields(run, crowd, url, line):
    """The live ones have more: times, places, what happened before."""
    ours, theirs = (
        json.loads(run(*line, *source, "-o", "json")[1])
        for source in (("-f", crowd), ("--server", url))
    )
    assert ours.keys() <= theirs.keys()
    for name in ("queues", "jobs", "pods", "evictions"):
        for here, there in zip(ours.get(name, ()), theirs.get(name, ()), strict=True):
            assert here.keys() <= there.keys()


@pytest.mark.parametrize("line", LINES[1:6:4], ids=" ".join)
def test_yaml_is_the_json_document(run, crowd, line):
    document = json.loads(run(*line, "-f", crowd, "-o", "json")[1])
    assert yaml.safe_load(run(*line, "-f", crowd, "-o", "yaml")[1]) == document


@pytest.mark.proportion
def test_csv_has_a_row_for_each_queue_job_or_pod(run, crowd, url):
    queues = run("queue", "ls", "--server", url, "-o", "csv")[1].splitlines()
    assert queues[0].startswith("name,parent,fairShare.cpu,")
    assert [row.split(",")[0] for row in queues[1:]] == ["root", "a", "b"]
    jobs = run("queue", "show", "a", "-f", crowd, "-o", "csv")[1].splitlines()
    assert [row.split(",")[:5] for row in jobs[1:]] == [
        ["1", "team/pg-a-1-uid-7", "Pod team/a-1", "a", "OverLimit"],
        ["2", "team/pg-a-2-uid-8", "Pod team/a-2", "a", "OverLimit"],
    ]
    pods = run("why", "a-1", "-f", crowd, "-o", "csv")[1].splitlines()
    assert pods[1].startswith("team/pg-a-1-uid-7,Pod team/a-1,a,OverLimit,")
    assert pods[1].endswith(",1,team/a-1,pending,")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (("why", "a-11", "--server", "URL"), 2, "there is no job or pod a-11; did you mean"),
        (("queue", "show", "c", "--server", "URL"), 2, "there is no queue c"),
        (("queue", "ls", "--server", "localhost"), 2, "no address of a scheduler"),
        (("queue", "ls", "--server", "http://127.0.0.1:9"), 4, "no answer from"),
        (("queue", "ls", "--server", "URL", "-f", "x"), 2, "name two sources"),
        (("queue", "ls", "--server", "URL", "--shard-name", "x"), 2, "there is no shard x"),
        (("queue", "ls", "-f", "CROWD", "--watch"), 2, "only a running scheduler can be watched"),
        (("top",), 2, "no live view of a scheduler is named"),
    ],
)
def test_what_is_wrong_is_one_line(run, crowd, url, line, code, said):
    found = run(*(word.replace("URL", url).replace("CROWD", str(crowd)) for word in line))
    *which, last = found[2].splitlines()
    assert found[:2] == (code, "")
    assert all(text.startswith("kaisched: this is ") for text in which)
    assert said in last


def test_a_scheduler_of_this_machine_is_found_and_named(run, url, monkeypatch):
    monkeypatch.setattr(live, "NEAR", url)
    code, out, err = run("queue", "ls")
    assert code == 0
    assert (code, out) == run("queue", "ls", "--server", url)[:2]
    assert err == f"kaisched: this is what the scheduler at {url} says\n"
    monkeypatch.setattr(live, "NEAR", "http://127.0.0.1:9")
    monkeypatch.setenv(live.VARIABLE, url)
    assert run("queue", "ls")[:2] == (code, out)


def test_a_token_goes_only_where_the_user_has_named_a_scheduler(url, monkeypatch):
    monkeypatch.setenv(live.TOKEN, "secret")
    monkeypatch.setattr(live, "NEAR", url)
    assert live.found_server("", Kubernetes(), is_kubernetes=False)._headers == {}
    assert Server(url, is_named=True)._headers == {"Authorization": "Bearer secret"}


def test_what_is_watched_is_printed_at_every_change(capsys, monkeypatch):
    monkeypatch.setattr(printing, "_AGAIN_S", 0.0)

    class Live:
        url = "here"

        def __init__(self):
            self.left = [[1, 1, 2], [2, 3], None]

        def changes(self):
            revisions = self.left.pop(0)
            if revisions is None:
                raise ClusterUnavailable("gone")
            yield from revisions

    documents = iter([{"at": 1}, {"at": 2}, {"at": 3}])
    printer = printing.Printer(lambda it: print(it["at"]), lambda _: ())
    with pytest.raises(ClusterUnavailable):
        printing.watch(Live(), lambda: next(documents), printer, "text")
    assert capsys.readouterr().out == "1\n\n2\n\n3\n"


def test_changes_are_those_of_the_stream(url, monkeypatch):
    changes = Server(url).changes()
    assert next(changes) == 1
    changes.close()
    monkeypatch.setattr(live, "CHANGES", "/api/v1/other")
    with pytest.raises(ConfigError, match="there is no /api/v1/other"):
        next(Server(url).changes())


def test_a_document_that_has_changed_is_read_anew(url, monkeypatch):
    server, statuses = Server(url), []
    ask = server._ask

    def asked(target, headers):
        answer = ask(target, headers)
        statuses.append(answer.status)
        return answer

    monkeypatch.setattr(server, "_ask", asked)
    first = server.get("/queues")
    assert server.get("/queues") == first
    for at in range(20):
        server.get("/jobs", offset=at)
    assert (statuses[:2], len(server._tags)) == ([200, 304], 8)


@pytest.mark.proportion
def test_top_prints_one_frame_where_there_is_no_terminal(run, url):
    code, out, err = run("top", "--server", url)
    assert (code, err) == (0, "")
    assert out.splitlines()[:7] == [
        "shard default  cycle 7: 12.5 ms  GPUs 4/16  jobs 1 running, 3 waiting",
        f"{url}: 1 ExceedsAnyNode, 2 OverLimit",
        "queues: 3, by order",
        "QUEUE  FAIR SHARE  HELD  ASKED  QUOTA  RUNNING  WAITING  REASONS",
        "root           12     4     12     16        1        3  1 ExceedsAnyNode, 2",
        "                                                         OverLimit",
        "a               6     4     12      4        1        2  2 OverLimit",
    ]


@pytest.mark.parametrize(
    ("keys", "title", "first"),
    [
        ("", "queues: 3, by order", "root"),
        ("s", "queues: 3, by queue", "a"),
        ("sr", "queues: 3, by queue reversed", "root"),
        ("j", "jobs: 4, by order", "Pod team/a-1"),
        ("jsssssr", "jobs: 4, by gpus reversed", "Pod team/b-0"),
        ("jssssss", "jobs: 4, by order", "Pod team/a-1"),
        ("n", "nodes: 2, by order", "n0"),
        ("nr", "nodes: 2, by order reversed", "n1"),
        ("e", "evictions: 0, by order", "none"),
        ("j ", "jobs: 4, by order, from 21", "none"),
        ("j b", "jobs: 4, by order", "Pod team/a-1"),
    ],
)
def test_keys_choose_a_table_and_its_order(url, keys, title, first):
    screen = Screen()
    for key in keys:
        assert screen.press(key)
    lines = frame(Server(url), screen, 120, 24)
    assert lines[2] == title
    assert (lines[3] if first == "none" else lines[4]).startswith(first)


def test_top_draws_until_q_is_pressed_and_outlives_a_silent_server(url, capsys):
    keys = iter(["j", "", "q"])
    top.run(Server(url), 0.0, lambda _: next(keys))
    assert capsys.readouterr().out.count("\x1b[H") == 3
    keys = iter(["", "q"])
    top.run(Server("http://127.0.0.1:9"), 0.0, lambda _: next(keys))
    assert "no answer from http://127.0.0.1:9" in capsys.readouterr().out
    assert set(PANES) == {"u", "j", "n", "e"}


# -- two clusters: a scheduler of A serves its view here, and a kubeconfig names B ---------------

ANSWERS = (("queue", "ls"), ("why", "a-1"), ("alloc",), ("fairness",))


def kubeconfig_of_b(file):
    """Name a cluster that does not answer."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "ctx-b",
                "contexts": [{"name": "ctx-b", "context": {"cluster": "b", "user": "me"}}],
                "clusters": [{"name": "b", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "me", "user": {}}],
            }
        )
    )
    return str(file)


ABOUT_B = "this is about context ctx-b, cluster b at http://127.0.0.1:9"


@pytest.mark.parametrize("line", ANSWERS, ids=" ".join)
@pytest.mark.parametrize(
    "naming",
    ["KUBECONFIG", "KAISCHED_KUBERNETES__KUBECONFIG", "KAISCHED_KUBERNETES__CONTEXT", "HOME"],
)
def test_a_kubeconfig_goes_before_what_this_machine_serves(
    run, url, monkeypatch, tmp_path, line, naming
):
    monkeypatch.setattr(live, "NEAR", url)
    kubeconfig_of_b(tmp_path / ".kube" / "config")
    if naming == "KAISCHED_KUBERNETES__CONTEXT":
        monkeypatch.setenv(naming, "ctx-b")
    elif naming != "HOME":
        (tmp_path / ".kube" / "config").rename(tmp_path / "b")
        monkeypatch.setenv(naming, str(tmp_path / "b"))
    code, out, err = run(*line)
    assert (code, out) == (4, "")
    assert ABOUT_B in err
    # A scheduler that the user has named goes before the usual file only.
    monkeypatch.setenv(live.VARIABLE, url)
    code, _, err = run(*line)
    assert (code == 0, ABOUT_B in err) == ((True, False) if naming == "HOME" else (False, True))


def test_kubectl_never_asks_this_machine(run, url, monkeypatch):
    monkeypatch.setattr(live, "NEAR", url)
    monkeypatch.setenv("KAISCHED_CLUSTER", "kubernetes")
    for line in (*ANSWERS, ("top",)):
        code, out, err = run(*line)
        assert (code, out) == (2, "")
        assert "there is no kubeconfig" in err or "no live view of a scheduler is named" in err


def test_top_and_reports_ask_no_scheduler_of_this_machine_where_a_cluster_is_named(
    run, url, monkeypatch, tmp_path
):
    monkeypatch.setattr(live, "NEAR", url)
    for line in (("top",), ("report", "waits")):
        monkeypatch.delenv("KUBECONFIG", raising=False)
        assert url in "".join(run(*line)[1:])
        monkeypatch.setenv("KUBECONFIG", kubeconfig_of_b(tmp_path / "b"))
        assert run(*line)[0] == 2
        assert run(*line, "--server", url)[0] == 0
