"""``kubectl kaisched``: all commands, with kubectl's flags anywhere on the line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kaisched.cli.app import complete_main, kubectl_main, run_line, said_to_kubectl
from kaisched.errors import ConfigError
from kaisched_apiserver import ApiServer
from kaisched_apiserver.playground import add_kai_kinds, kubeconfig_of

KUBECTL = shutil.which("kubectl")
SCRIPTS = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("line", "rest", "said"),
    [
        (["doctor", "--context", "east"], ["doctor"], {"CONTEXT": "east"}),
        (["--context=east", "doctor"], ["doctor"], {"CONTEXT": "east"}),
        (
            ["-n", "gpu", "doctor", "--kubeconfig", "k"],
            ["doctor"],
            {"NAMESPACE": "gpu", "KUBECONFIG": "k"},
        ),
        (
            ["why", "train", "-n", "nlp", "--context", "x"],
            ["why", "train", "-n", "nlp"],
            {"CONTEXT": "x"},
        ),
        (["-n", "gpu", "why", "train"], ["why", "train"], {"NAMESPACE": "gpu"}),
        (["plan", "-f", "x", "--", "-n", "y"], ["plan", "-f", "x", "--", "-n", "y"], {}),
    ],
)
def test_flags_of_kubectl_become_settings(line, rest, said):
    environ = {}
    assert said_to_kubectl(line, environ) == rest
    assert environ.pop("KAISCHED_CLUSTER") == "kubernetes"
    assert environ == {f"KAISCHED_KUBERNETES__{key}": value for key, value in said.items()}


def test_a_cluster_that_was_chosen_before_stays():
    environ = {"KAISCHED_CLUSTER": "embedded"}
    said_to_kubectl(["run"], environ)
    assert environ == {"KAISCHED_CLUSTER": "embedded"}


@pytest.mark.parametrize("line", [["doctor", "--context"], ["doctor", "--context="]])
def test_a_flag_without_its_value_is_told(line, capsys, monkeypatch):
    with pytest.raises(ConfigError, match="a value is missing"):
        said_to_kubectl(line, {})
    monkeypatch.setenv("KAISCHED_CLUSTER", "kubernetes")
    with pytest.raises(SystemExit) as ended:
        kubectl_main(line)
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "kubectl kaisched: --context: a value is missing; write --context NAME\n"
    )


def test_messages_name_what_was_called(capsys):
    run_line(["doctor", "--nonsense"], name="kubectl kaisched")
    assert capsys.readouterr().err == (
        "kubectl kaisched: No such option: --nonsense; see kubectl kaisched doctor --help\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sn"], ["snapshot\tRecord the inputs of a cycle", ":4"]),
        (["snapshot", "re"], ["replay\tRun the cycle of a snapshot again", ":4"]),
        (["doctor", "--out"], ["--output\tHow to print", ":4"]),
        (["snapshot", "show", "x"], [":0"]),
    ],
)
def test_words_are_completed(words, said, capsys):
    complete_main(words)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(text) for line, text in zip(lines, said, strict=True))


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed; apt-get install kubectl")
def test_kubectl_itself_runs_it(tmp_path):
    with ApiServer() as server:
        add_kai_kinds(server)
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(server.url))
        environ = {"PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
        line = [
            KUBECTL,
            "kaisched",
            "doctor",
            "--kubeconfig",
            kubeconfig,
            "--context",
            "playground",
        ]
        done = subprocess.run(
            line, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 1  # there are no queues
    assert "queues" in done.stdout
    assert "ok    server" in done.stdout
