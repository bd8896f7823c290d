"""Command line as a whole: lazy imports, errors of one line, documented."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.main import get_command

from kaisched.cli import app
from kaisched.cli.printing import Column, table_lines
from kaisched.cli.reference import PAGES
from kaisched.errors import KaischedError
from kaisched.telemetry.logs import hide

ROOT = Path(__file__).resolve().parents[3]
HEAVY = {"numpy", "pydantic", "kubernetes", "msgspec", "prometheus_client", "yaml"}


def test_help_imports_nothing_heavy():
    """Modules whose import would make a cold ``kaisched --help`` take longer than 0.3 s."""
    code = (
        "import sys; from kaisched.cli.app import run_line; run_line(['--help']);"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "plan" in ran.stdout
    assert HEAVY & set(json.loads(ran.stderr.replace("'", '"'))) == set()


def test_every_command_has_help(run):
    for name in app.COMMANDS:
        code, out, err = run(name, "--help")
        assert (code, err) == (0, "")
        assert f"kaisched {name}" in out


def test_without_a_command_the_help_is_shown(run):
    code, out, _ = run("--help")
    assert code == 0
    assert run()[1] == out


@pytest.mark.parametrize("name", ["explain", "config", "plugins", "snapshot"])
def test_a_group_of_commands_alone_shows_its_help(run, name):
    code, out, err = run(name)
    assert (code, err) == (0, "")
    assert f"kaisched {name}" in out
    assert (code, out, err) == run(name, "--help")


def test_the_version_is_an_option_too(run):
    told = run("--version")
    assert told[0] == 0
    assert told == run("version")


@pytest.mark.parametrize(
    ("stdout", "reason"), [("/dev/full", "cannot be written: No space left"), (None, "is closed")]
)
@pytest.mark.parametrize("line", [("version",), ("--help",), ("plugins", "list")])
def test_output_that_cannot_be_written_is_no_bug(line, stdout, reason, monkeypatch, capsys):
    with ExitStack() as closing:
        stream = stdout and closing.enter_context(Path(stdout).open("wb", 0))
        text = stream and io.TextIOWrapper(stream, write_through=True)
        monkeypatch.setattr(sys, "stdout", text)
        with pytest.raises(SystemExit) as ended:
            app.main(line)
    assert ended.value.code == app.USAGE
    err = capsys.readouterr().err
    assert err.startswith(f"kaisched: standard output {reason}")
    assert len(err.splitlines()) == 1


def test_errors_that_cannot_be_written_are_lost_and_change_no_code(monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert app.run_line(["plan", "-f", "no-such-file"]) == app.USAGE
        full.flush()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("plna",), "No such command 'plna'. Did you mean 'plan'?; see kaisched --help"),
        (("version", "--vesion"), "No such option: --vesion"),
        (("config", "show", "-o", "xml"), "Invalid value for '-o' / '--output'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(run, line, message):
    code, out, err = run(*line)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_a_missing_command_is_said_to_be_missing(run, monkeypatch):
    monkeypatch.setitem(app.COMMANDS, "extra", app.Entry("kaisched.cli.no_such_module", "More."))
    assert run("extra")[0] == 2
    assert "More." in run("--help")[1]


def failing(monkeypatch, error):
    def command():
        raise error

    monkeypatch.setattr("kaisched.cli.run.version", command)


def test_an_error_has_its_exit_code(run, monkeypatch):
    failing(monkeypatch, KaischedError("no luck", fix="try again"))
    assert run("version") == (1, "", "kaisched: no luck; try again\n")


def test_a_bug_is_one_line_and_a_traceback_with_debug(run, monkeypatch):
    failing(monkeypatch, ValueError("oops"))
    code, _, err = run("version")
    assert (code, err) == (
        70,
        "kaisched: this is a bug: ValueError: oops; --debug shows where\n",
    )
    with pytest.raises(ValueError, match="oops"):
        app.run_line(["version"], is_debugging=True)
    with pytest.raises(ValueError, match="oops"):
        app.main(["version", "--debug"])


def test_version(run):
    assert run("version")[1].startswith("kaisched ")
    assert json.loads(run("version", "-o", "json")[1])["schemaVersion"] == "kaisched.io/version/v1"


def test_config_show_names_the_origin(run, monkeypatch):
    monkeypatch.setenv("KAISCHED_METRICS__PORT", "9")
    code, out, _ = run("config", "show", "-o", "json")
    rows = {row["key"]: row for row in json.loads(out)["settings"]}
    assert code == 0
    assert rows["metrics.port"] == {
        "key": "metrics.port",
        "value": 9,
        "origin": "KAISCHED_METRICS__PORT",
    }
    assert rows["health.port"]["origin"] == "default"
    assert "KAISCHED_METRICS__PORT" in run("config", "show")[1]
    out = run("config", "show", "--metrics-port", 7, "-f", "a", "-f", "b", "-o", "json")[1]
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(out)["settings"]}
    assert rows["metrics.port"] == (7, "--metrics-port")
    assert rows["manifests"] == (["a", "b"], "--filename")


def test_plugins_list(run):
    code, out, _ = run("plugins", "list", "-o", "json")
    plugins = {plugin["name"]: plugin for plugin in json.loads(out)["plugins"]}
    assert code == 0
    assert "batch_size" in plugins["gang"]["questions"]
    assert plugins["binpack"]["arguments"][0]["default"] == "binpack"
    table = run("plugins", "list")[1]
    assert max(map(len, table.splitlines())) <= 80


def test_a_table_drops_columns_and_never_cuts_names():
    columns = (Column("POD"), Column("NODE", may_go=True), Column("BECAUSE"))
    rows = [("namespace/" + "x" * 30, "n" * 20, "it would take the queue over its limit")]
    assert list(table_lines(columns, rows, 70)) == [
        f"POD{' ' * 37}  BECAUSE",
        f"{rows[0][0]}  it would take the queue over",
        f"{' ' * 40}  its limit",
    ]
    assert list(table_lines(columns, [], 70)) == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_generated_pages_are_current(name):
    """Regenerate with: python -m kaisched.cli.reference docs/reference."""
    assert (ROOT / "docs" / "reference" / name).read_text("utf-8") == PAGES[name]()


def test_the_plan_page_names_every_field_of_the_document(run, manifests):
    page = (ROOT / "docs" / "reference" / "plan-json.md").read_text("utf-8")
    document = json.loads(run("plan", "-f", manifests, "-o", "json")[1])
    (cycle,) = document["cycles"]
    turns = [pending["turn"] for pending in cycle["pending"]]
    (ahead,) = [turn["ahead"] for turn in turns if turn["ahead"]]
    names = [*document, *cycle, *cycle["pending"][0], *cycle["queues"][0]]
    names += [*turns[0], *turns[0]["levels"][0], *ahead]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_an_error_does_not_tell_what_lets_us_in(monkeypatch, capsys):
    """A server's answer may repeat the token that it was sent."""
    hide("sesame-open-0815")

    def refused(_):
        raise KaischedError("refused: Bearer sesame-open-0815 at http://me:swordfish@here/")

    monkeypatch.setattr(app, "build_app", refused)
    app.run_line(["run"])
    assert capsys.readouterr().err == "kaisched: refused: Bearer *** at http://***@here/\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_daemon_runs_and_ends_on_a_signal(manifests, number):
    """Run the whole command line in a process of its own."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kaisched",
            "run",
            "-f",
            str(manifests),
            "--metrics-port",
            "0",
            "--health-port",
            "0",
            "--schedule-period",
            "100ms",
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    events = []
    for line in process.stderr:
        events.append(json.loads(line))
        if events[-1]["event"] == "job_started":
            break
    process.send_signal(number)
    if number == signal.SIGHUP:  # a shell and the system may both send it
        process.send_signal(number)
    rest = [json.loads(line) for line in process.stderr]
    process.stderr.close()
    assert process.wait(60) == 0
    told = [event["event"] for event in events]
    assert told == ["cluster_in_memory_filled", "listening", "listening", "job_started"]
    assert events[-1]["pods"] == 1
    assert [event["event"] for event in rest] == ["loop_stopped"], "what is idle says nothing"


def commands_of(command, words=()):
    """Yield each command with its words, without the groups."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    for name, it in inner.items():
        yield from commands_of(it, (*words, name))


EVERY = dict(commands_of(get_command(app.build_app(None))))


def choices_of(command, param):
    """Return the words that an option may have; none where it takes others."""
    with command.make_context("kaisched", [], resilient_parsing=True) as context:
        told = param.display_type_rich(ctx=context) or ""
    return tuple(told.strip("<>").split("|")) if "|" in told else ()


def test_output_takes_the_same_kinds_everywhere():
    kinds = {
        words: choices_of(command, param)
        for words, command in EVERY.items()
        for param in command.params
        if "--output" in param.opts
    }
    usual = ("table", "json", "yaml", "csv", "name")
    assert kinds.pop(("lint",)) == (*usual, "sarif"), "what code hosts read, beside the usual"
    assert len(kinds) >= 20
    assert set(kinds.values()) == {usual}


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_at_80_columns_never_cuts_an_option_or_its_choices(words):
    command = EVERY[words]
    with command.make_context("kaisched", [], resilient_parsing=True, terminal_width=80) as context:
        told = command.get_help(context)
    assert max(map(len, told.splitlines())) <= 80
    for param in command.params:
        assert [it for it in param.opts if it.startswith("-") and it not in told] == []
        choices = choices_of(command, param)
        assert not choices or f"<{'|'.join(choices)}>" in told


@pytest.mark.parametrize(
    ("output", "first"),
    [
        ("json", "{"),
        ("yaml", "schemaVersion: kaisched.io/settings/v1"),
        ("csv", "key,value,origin"),
        ("name", "actions"),
    ],
)
def test_what_is_no_list_of_its_own_is_printed_in_every_kind(run, output, first):
    code, out, _ = run("config", "show", "-o", output)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == first or (output == "name" and "metrics.port" in lines)
    code, out, _ = run("version", "-o", output)
    assert code == 0
    assert out.splitlines()[:1] == {
        "json": ["{"],
        "yaml": ["schemaVersion: kaisched.io/version/v1"],
        "csv": ["path,value"],
    }.get(output, [])


@pytest.mark.parametrize("words", [["-o", "text"], ["--output", "text"], ["--output=text"]])
def test_the_name_that_a_table_had_is_taken_for_one_release(run, words):
    """A value that is called so is left alone."""
    assert run("version", *words) == run("version", "-o", "table")
    code, _, error = run("version", "-o", "csv", "text")
    assert (code, "text" in error) == (2, True)
