"""Text of others steers no terminal: control characters go through every command."""

import ast
import json
import re
from pathlib import Path

import pytest
import structlog
import typer
import yaml

from kaisched.cli import live
from kaisched.cli.app import build_app, run_line
from kaisched.config.settings import ViewListener
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from kaisched.engine.planning import plan, read_plan_input
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.telemetry.logs import configure_logs
from kaisched.text import visible, visible_text
from kaisched.view.publisher import Publisher

ROOT = Path(__file__).resolve().parents[3]
EVIL = "\x1b]0;t\x07\x1b[2J\x9b31m\x7f\r\u202e\u2028x"
FORGED = f"{EVIL}\nforged line"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")
RESOURCES = {"limits": {"nvidia.com/gpu": "8"}}


def pod(name, queue, **notes):
    spec = {"schedulerName": "kaisched", "containers": [{"name": "m", "resources": RESOURCES}]}
    meta = {"name": name, "namespace": "t", "labels": {"kai.scheduler/queue": queue}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | {"annotations": notes},
        "spec": spec,
    }


def queue(name):
    kinds = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    return {**kinds, "metadata": {"name": name}, "spec": {"resources": {"gpu": {"quota": 8}}}}


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n0"},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "8", "pods": "9"}},
}
GATED = pod("gated", "q") | {
    "spec": {
        **pod("", "")["spec"],
        "schedulingGates": [{"name": FORGED}],
        "nodeSelector": {"a": FORGED},
    }
}
CLUSTER = [
    NODE,
    queue("q"),
    pod("a", "q", **{"pod-group-name": FORGED}),
    pod("b", FORGED),
    pod("c", "q", **{"kaisched.io/node-pools": FORGED, "gpu-fraction": FORGED}),
    pod("d", "q") | {"spec": {**pod("", "")["spec"], "nodeSelector": {FORGED: FORGED}}},
    pod(FORGED, "q"),
    GATED,
]
ODD = [
    *CLUSTER,
    queue(FORGED),
    {**NODE, "metadata": {"name": FORGED}},
    {"kind": FORGED},
    {FORGED: 1},
]
SCENARIO = {
    "name": FORGED,
    "time": {"step": "10s", "end": "1m"},
    "nodes": [{"name": "n0", "gpus": 8}],
    "queues": [{"name": "q"}, {"name": "w"}],
    "jobs": [{"name": FORGED, "queue": "q", "gpus": 1, "at": "0s", "duration": "20s"}],
}
SETTINGS = {"apiVersion": "kaisched.io/v1alpha1", "kind": "SchedulerConfiguration", FORGED: FORGED}
SHARD = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "SchedulingShard",
    "metadata": {"name": FORGED},
    "spec": {"plugins": {FORGED: {}}, FORGED: 1},
}
KUBECONFIG = {
    "current-context": FORGED,
    "contexts": [{"name": FORGED, "context": {"cluster": FORGED, "user": FORGED}}],
    "clusters": [{"name": FORGED, "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": FORGED, "user": {}}],
}
LINES = {
    "demo": [["--jobs", EVIL], ["--seed", EVIL]],
    "plan": [
        ["-f", "cluster"],
        ["-f", "odd"],
        ["-f", "odd", "--order", "--rounds", "2"],
        ["-f", EVIL],
    ],
    "why": [
        *([f"t/{name}", "-f", "cluster"] for name in "abcd"),
        ["t/gated", "-f", "cluster"],
        *(["t/a", "-f", "cluster", "-o", form] for form in ("json", "yaml", "csv", "name")),
        *(["t/a", "--server", "URL", "-o", form] for form in ("text", "yaml", "csv", "name")),
        [FORGED, "-f", "cluster"],
        ["a", "-n", EVIL, "-f", "cluster"],
        ["t/a", "--context", EVIL, "--kubeconfig", "kubeconfig"],
    ],
    "jobs": [
        ["-f", "odd"],
        *(["-f", "cluster", "-o", it] for it in ("json", "yaml", "csv", "name")),
        ["--queue", EVIL, "-f", "cluster"],
        ["--name", EVIL, "--user", EVIL, "-f", "cluster"],
        ["--server", "URL"],
    ],
    "fairness": [["-f", "odd"], [EVIL, "-f", "cluster"], ["--server", "URL"]],
    "alloc": [
        ["-f", "odd"],
        ["--daemon", f"http://{EVIL}"],
        ["-f", "cluster", "-o", "csv"],
        ["--server", "URL"],
    ],
    "top": [["--once", "--server", "URL"], ["--once", "--server", f"http://{EVIL}"]],
    "lint": [
        ["odd"],
        ["cluster"],
        [EVIL],
        ["odd", "-o", "json"],
        ["odd", "-o", "sarif"],
        ["scenario"],
    ],
    "simulate": [["scenario"], ["bad-scenario"], [EVIL], ["scenario", "--out", "out"]],
    "tune": [["scenario", "--vary", f"{EVIL}=1,2"], [EVIL]],
    "playground": [["--nodes", EVIL], ["--name", EVIL, "--nodes", "x"]],
    "doctor": [
        ["--kubeconfig", "kubeconfig"],
        ["--context", EVIL],
        ["-n", EVIL, "--kubeconfig", EVIL],
    ],
    "init": [
        ["--from-kai", "odd", "--into", "made"],
        ["--from-runai", "odd"],
        ["--from-kai", EVIL],
    ],
    "run": [["-c", "settings"], ["-c", EVIL], ["--shard", "shard"]],
    "version": [[], [EVIL]],
    "examples": [[], ["--into", f"below/{EVIL}"], [EVIL]],
    "whatif submit": [
        ["-f", "cluster", "--queue", EVIL],
        ["-f", "odd", "job.yaml"],
        ["-f", "cluster", "--queue", "q", "--gpus", "4"],
    ],
    "whatif set": [
        ["queue/q", f"quota.gpu={EVIL}", "-f", "cluster"],
        [EVIL, "a=1", "-f", "cluster"],
    ],
    "whatif remove": [
        [f"queue/{EVIL}", "-f", "cluster"],
        ["node/n0", "-f", "odd"],
        [f"job/{EVIL}", "-f", "odd"],
    ],
    "queue ls": [
        ["-f", "odd"],
        *(["-f", "cluster", "-o", it] for it in ("json", "yaml", "csv", "name")),
    ],
    "queue tree": [["-f", "odd"]],
    "queue show": [
        ["q", "-f", "odd"],
        [EVIL, "-f", "odd"],
        *(["q", "-f", "cluster", "-o", it] for it in ("json", "yaml", "csv", "name")),
        ["q", "--server", "URL"],
    ],
    "queue hold": [[EVIL, "--kubeconfig", "kubeconfig"]],
    "queue drain": [[EVIL, "--kubeconfig", "kubeconfig"]],
    "queue resume": [[EVIL, "--kubeconfig", "kubeconfig"]],
    "report usage": [["--history", EVIL], ["--prometheus", f"http://{EVIL}"]],
    "report evictions": [["--prometheus", EVIL]],
    "report waits": [["--server", "URL"], ["-f", "odd"]],
    "explain fairness": [["--weights", f"{EVIL}=1", "--usage", f"{EVIL}=1"]],
    "snapshot take": [["taken", "-f", "odd"], [f"{EVIL}/x", "-f", "cluster"]],
    "snapshot show": [["snapshot"], [EVIL], ["odd"], ["snapshot", "-o", "json"]],
    "snapshot replay": [["snapshot"], ["snapshot", "--shard", "shard"]],
    "config show": [["-c", "settings"], ["-c", EVIL]],
    "config crds": [[], ["--into", EVIL]],
    "plugins list": [[]],
}


def commands(command, words=()):
    inner = getattr(command, "commands", {})
    for name, below in inner.items():
        yield from commands(below, (*words, name))
    if not inner:
        yield " ".join(words)


def test_the_law_feeds_every_command():
    assert set(commands(typer.main.get_command(build_app(None)))) == LINES.keys()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    files = {
        "cluster": CLUSTER,
        "odd": ODD,
        "scenario": [SCENARIO],
        "bad-scenario": [{**SCENARIO, FORGED: FORGED}],
        "settings": [SETTINGS],
        "shard": [SHARD],
        "kubeconfig": [KUBECONFIG],
        "job.yaml": [pod("new", "q", **{"pod-group-name": FORGED})],
    }
    for name, documents in files.items():
        (folder / name).write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def evil_url(folder):
    result = plan(read_plan_input([str(folder / "cluster")], None)).cycles[0]
    advice = StandingAdvice()
    advice.find(result)
    publisher = Publisher("default", advice)
    publisher.inquiries.ring = lambda: publisher.inquiries.answer(result)
    publisher.take(result, cycle=7, time_s=1.7e9, duration_s=0.0125)
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    server = Server([view_listener(ViewListener(port=0), lambda: [publisher], None)])
    yield f"http://127.0.0.1:{server.port}"
    server.close()
    structlog.configure(**before)


CASES = [(name, line) for name, lines in LINES.items() for line in lines]


@pytest.mark.fault("I134")
@pytest.mark.parametrize(("name", "line"), CASES, ids=[ascii(it) for it in CASES])
def test_no_command_prints_what_steers_a_terminal(
    name, line, folder, evil_url, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(live, "NEAR", "http://127.0.0.1:9")
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    monkeypatch.delenv(live.VARIABLE, raising=False)
    if "snapshot" in line:
        run_line(["snapshot", "take", "snapshot", "-f", "cluster"])
        capsys.readouterr()
    code = run_line([*name.split(), *(evil_url if it == "URL" else it for it in line)])
    shown = capsys.readouterr()
    assert code in (0, 1, 2, 3, 4, 5)
    assert shown.out or shown.err
    found = STEERS.findall(shown.out + shown.err)
    assert found == [], (shown.out, shown.err)
    is_yaml = "yaml" in line
    assert is_yaml or not re.search("(?m)^forged", shown.out + shown.err)
    if "json" in line:
        json.loads(shown.out)


def test_documents_keep_what_people_do_not_see(folder, capsys):
    """JSON and YAML have escapes of their own: programs read what was written."""
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert run_line(["why", "t/a", "-f", str(folder / "cluster"), "-o", form]) in (0, 1)
        assert read(capsys.readouterr().out)["podGroup"] == f"t/{FORGED}"


def test_what_is_written_out_and_what_is_not():
    assert visible("a\x1b[31m\tb\nc\r") == r"a\x1b[31m\tb\nc\r"
    assert visible_text("a\x1b\tb\nc\r") == "a\\x1b\tb\nc\\r"
    assert visible("\x7f\x9b\u2028\u202e\u2066") == r"\u007f\u009b\u2028\u202e\u2066"
    assert visible('é ü 漢 \\x1b "') == 'é ü 漢 \\x1b "'
    assert json.loads(visible(json.dumps("\x7f\x80\u202e", ensure_ascii=False))) == "\x7f\x80\u202e"


@pytest.mark.parametrize("form", ["text", "json"])
def test_logs_are_written_out_too(form, capsys):
    import io

    before = structlog.get_config()
    stream = io.StringIO()
    configure_logs(log_format=form, now_s=lambda: 0.0, stream=stream)
    structlog.get_logger().warning("refused", text=FORGED, names=[FORGED])
    structlog.configure(**before)
    assert not STEERS.findall(stream.getvalue())
    assert len(stream.getvalue().splitlines()) == 1


def test_one_place_prints():
    """What commands say goes through printing.py; top draws by it."""
    for path in sorted((ROOT / "kaisched" / "cli").glob("*.py")):
        if path.name == "printing.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.Call) else ""
            assert not text.startswith(
                ("print(", "sys.stdout.write(", "sys.stderr.write(", "typer.echo(")
            )
