"""Bad command lines: one sentence that names the cause first, and the exit code of an error."""

import os
from pathlib import Path

import pytest

from tests.unit.cli.conftest import NODE, POD, QUEUE

SETTINGS = "apiVersion: kaisched.io/v1alpha1\nkind: SchedulerConfiguration\nschedulePeriod: 1s\n"
TEMPLATE = """{{- range .Values.queues }}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: {{ .name }}
{{- end }}
"""
FILES = {
    "m.yaml": NODE % "n0" + QUEUE % ("q", "", 8, -1) + POD % ("p", "q", "kaisched", 4),
    "scenario.yaml": "time: {step: 10s, end: 1h}\nnodes: [{name: n0, gpus: 8}]\nname: x\n",
    "ten.yaml": "---\n".join([SETTINGS] * 10),
    "config-map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    "volcano.yaml": "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: x}\n",
    "queue.tpl.yaml": TEMPLATE,
    "empty.yaml": "",
    "text.db": "no database\n",
    "chart/Chart.yaml": "apiVersion: v2\nname: x\nversion: 0.1.0\n",
    "chart/templates/queue.yaml": TEMPLATE,
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files that are wrong in one place or another, in the present folder."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.yaml").write_bytes(b"\x7fELF\xea\x00\xff" * 40)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KAISCHED_PROMETHEUS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


NO_KUBECONFIG = "there is no kubeconfig {}/.kube/config; name one with --kubeconfig, or manifests"
HELM = "looks like a Helm template; read what `helm template` makes of it"
MANIFESTS = "these are manifests, not a scenario; `kaisched plan -f` and `kaisched lint` read these"
NOT_READ = "holds nothing that is read; name files with"
WRONG = [
    # a stretch of a trace
    ("simulate --from 10d --until 3d", "--until 3d is not after --from 10d; end the stretch"),
    ("simulate --from 1d --until 1d", "--until 1d is not after --from 1d; end the stretch"),
    ("simulate --from 500d", "--from 500d is after the last job of the trace; begin at 108d"),
    # a file of another kind
    ("simulate m.yaml", f"m.yaml: {MANIFESTS}"),
    ("simulate config-map.yaml", f"config-map.yaml: {MANIFESTS}"),
    ("simulate ten.yaml", f"ten.yaml: {MANIFESTS}"),
    ("tune m.yaml", f"m.yaml: {MANIFESTS}"),
    ("simulate --compare m.yaml scenario.yaml", f"m.yaml: {MANIFESTS}"),
    ("simulate queue.tpl.yaml", f"queue.tpl.yaml:1: {HELM}"),
    ("simulate empty.yaml", "empty.yaml: is empty; name a scenario file"),
    ("simulate folder", "folder: cannot be read: Is a directory; name a scenario file"),
    ("simulate binary.yaml", "binary.yaml: is not UTF-8: byte 4; save it as UTF-8"),
    ("config show -c ten.yaml", "ten.yaml: holds 10 documents; write one SchedulerConfiguration"),
    ("run -c ten.yaml", "ten.yaml: holds 10 documents; write one SchedulerConfiguration"),
    ("config show -c m.yaml", "m.yaml: kind: holds no settings (value 'Node'); name a file with"),
    ("config show -c empty.yaml", "empty.yaml: is empty; start with kind: SchedulerConfiguration"),
    ("config show -c scenario.yaml", "scenario.yaml: has no apiVersion and no kind; write"),
    ("config show -c folder", "folder: cannot be read: Is a directory; name a file with kind:"),
    ("config show -c binary.yaml", "binary.yaml: is not UTF-8: byte 4; save it as UTF-8"),
    ("config show -c queue.tpl.yaml", f"queue.tpl.yaml:1: {HELM}"),
    ("init --from-kai empty.yaml", f"empty.yaml: {NOT_READ} Queues, SchedulingShards and the"),
    ("init --from-kai volcano.yaml", f"volcano.yaml: {NOT_READ} Queues, SchedulingShards and the"),
    ("init --from-kai config-map.yaml", f"config-map.yaml: {NOT_READ} Queues, Scheduling"),
    ("init --from-runai m.yaml", f"m.yaml: {NOT_READ} Projects, Departments, NodePools and"),
    ("init --from-runai empty.yaml", f"empty.yaml: {NOT_READ} Projects, Departments, NodePools"),
    # a history
    ("report usage", "no usage history is named; name a Prometheus server with --prometheus"),
    ("fairness --since 7d -f m.yaml", "no usage history is named; name a Prometheus server"),
    ("fairness --history text.db -f m.yaml", "--history is read for --since only; add --since"),
    ("report usage --history nope.db", "nope.db: no such file; name the file of the store"),
    ("report usage --history folder", "folder: is a folder; name the file of the store"),
    ("report usage --history empty.yaml", "empty.yaml: is empty; name the file of the store"),
    ("report usage --history text.db", "text.db: is a file of something else; name the file of"),
    # no cluster
    ("why p", NO_KUBECONFIG),
    ("doctor", NO_KUBECONFIG),
    ("queue hold q", NO_KUBECONFIG),
    ("snapshot take s.json", NO_KUBECONFIG),
    ("run --cluster kubernetes", NO_KUBECONFIG),
    ("why p --kubeconfig nope", "nope: kubernetes.kubeconfig: no such file; name a kubeconfig"),
    ("why p --kubeconfig folder", "folder: kubernetes.kubeconfig: is a folder; name a kubeconfig"),
    ("why p --kubeconfig m.yaml", "m.yaml: kubernetes.kubeconfig: is no kubeconfig; name a"),
    ("why p --kubeconfig binary.yaml", "binary.yaml: kubernetes.kubeconfig: is no kubeconfig;"),
    (
        "why p --server http://127.0.0.1:1",
        "no answer from http://127.0.0.1:1: Connection refused; does it run with --view",
    ),
    (
        "why p --daemon http://127.0.0.1:1",
        "no answer from 127.0.0.1:1: Connection refused; is `snapshots.enabled` set there",
    ),
    # something that does not exist, or contradicts itself
    ("whatif submit --queue nope -f m.yaml", "queue/nope: there is no Queue nope; known: q"),
    ("whatif submit --queue q -f empty.yaml", "queue/q: there is no Queue q"),
    ("whatif set node/n0 gpu=-3 -f m.yaml", "gpu=-3: no number of GPUs (value '-3'); write gpu=8"),
    ("whatif set node/nope gpu=3 -f m.yaml", "node/nope: there is no Node nope; known: n0"),
    ("queue show nope -f m.yaml", "there is no queue nope; known: q"),
    ("why nope -f m.yaml", "there is no job or pod nope; only pods of our scheduler names"),
    ("why team/p -n other -f m.yaml", "team/p and -n other name two namespaces; give one of"),
    ("fairness -f m.yaml -r disk", "Invalid value for '-r' / '--resource': 'disk' is not one of"),
    ("plan -f nope.yaml", "nope.yaml: no such file or folder"),
    ("lint nope.yaml", "nope.yaml: no such file or folder"),
    ("plan -f m.yaml --shard empty.yaml", "empty.yaml: holds no SchedulingShard"),
    ("snapshot show m.yaml", "m.yaml: no JSON: "),
    ("snapshot show folder", "folder: cannot be read: Is a directory; name a file that"),
]


@pytest.mark.parametrize(("line", "cause"), WRONG, ids=[line for line, _ in WRONG])
def test_the_last_line_names_the_cause_and_the_exit_code_is_that_of_an_error(
    run, files, line, cause
):
    code, out, err = run(*line.split())
    assert code in (2, 4)
    last = err.splitlines()[-1]
    assert last.startswith(f"kaisched: {cause.format(files)}")
    assert out == ""
    assert "Traceback" not in err
    assert not Path("kaisched-files").exists()


LINTED = [
    ("m.yaml", 0, "3 objects of 1 file checked: 0 errors, 0 warnings"),
    ("folder", 0, "warning: folder: holds no file; name a folder of .yaml and .json files"),
    ("empty.yaml", 0, "warning: empty.yaml: holds no object; check the path"),
    ("config-map.yaml", 0, "warning: objects of kinds that are not read were left out: 1 Config"),
    ("chart", 1, "error: chart: is a Helm chart; read what `helm template chart` prints"),
    ("chart/templates", 1, f"error: chart/templates/queue.yaml: document 1: line 1: {HELM}"),
    ("ten.yaml", 1, "error: ten.yaml:1: holds 10 documents; write one SchedulerConfiguration"),
]


@pytest.mark.parametrize(("name", "code", "first"), LINTED, ids=[name for name, *_ in LINTED])
def test_lint_says_what_it_has_checked(run, files, name, code, first):
    found, out, err = run("lint", name)
    assert (found, err) == (code, "")
    assert out.startswith(first)
    assert " checked: " in out.splitlines()[-1]


def test_a_scenario_given_as_manifests_is_named(run, files):
    code, _, err = run("plan", "-f", "scenario.yaml")
    assert code == 1
    assert (
        "scenario.yaml: document 1: apiVersion: this is a scenario, and no manifest; `kais" in err
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize(
    "line",
    [
        "plan -f m.yaml",
        "lint m.yaml",
        "simulate m.yaml",
        "config show -c m.yaml",
        "init --from-kai m.yaml",
        "why p --snapshot m.yaml",
        "report usage --history m.yaml",
        "why p --kubeconfig m.yaml",
    ],
)
def test_a_file_without_permission_is_said_to_be_one(run, files, line):
    (files / "m.yaml").chmod(0)
    code, out, err = run(*line.split())
    assert code in (1, 2, 5)
    assert "Permission denied" in out + err
