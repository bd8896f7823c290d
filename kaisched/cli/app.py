"""Command line: assembles the commands and turns every error into one line and an exit code.

Only the module of the requested command is imported. A name and a sentence are enough for the
rest, as in ``--help``, which keeps the help under 0.3 s.

``kubectl kaisched`` has all commands as a plugin of kubectl, with its flags for the cluster.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from inspect import getdoc
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import typer

from kaisched.cli import printing
from kaisched.errors import ConfigError, KaischedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping, Sequence

NAME: Final = "kaisched"
OK: Final = 0
PROBLEMS: Final = 1
USAGE: Final = 2
INTERNAL: Final = 70
INTERRUPTED: Final = 130

_SELDOM: Final = (50_000, 10, 10)
"""When garbage is searched for: a command makes many objects and hardly any rings of them. With
Python's usual numbers that was a sixth of the time of a file with 50,000 pods."""

_HELP: Final = (
    "A fair Kubernetes scheduler for shared GPU clusters.\n\n"
    "Works without any cluster: `kaisched demo` shows it at work, `kaisched plan -f FILE` tries"
    " your own manifests.\n\n"
    "Exit codes: 0 done; 1 done, but some objects had problems; 2 wrong usage, setting or file;"
    " 3 a plugin cannot be used; 4 the cluster failed; 5 the usage store failed; 70 a bug."
)


class Entry(NamedTuple):
    """A command that is not imported yet."""

    module: str
    help: str
    name: str = "command"
    """What the module calls it."""


_CLI: Final = "kaisched.cli."
COMMANDS: Final = {
    "demo": Entry(_CLI + "simulate", "Show fair share at work on a cluster in memory.", "demo"),
    "plan": Entry(_CLI + "plan", "Say what would be bound, evicted and left pending, and why."),
    "jobs": Entry(_CLI + "jobs", "List the jobs: whose, since when, and why or where."),
    "why": Entry(_CLI + "why", "Say why a job or pod waits, and what would let it start."),
    "whatif": Entry(_CLI + "whatif", "Say what a job, a quota, a weight or a node would change."),
    "queue": Entry(
        _CLI + "listings", "Show queues and their waiting jobs; hold and drain them.", "queue"
    ),
    "fairness": Entry(_CLI + "listings", "Say what queues hold of their fair shares.", "fairness"),
    "alloc": Entry(_CLI + "listings", "Say which queues, nodes and jobs hold the GPUs.", "alloc"),
    "report": Entry(_CLI + "report", "Report usage, evictions and waiting times of past weeks."),
    "top": Entry(_CLI + "top", "Watch queues, jobs and nodes of a running scheduler."),
    "lint": Entry(
        _CLI + "checks", "Check manifests and settings; report all errors at once.", "lint"
    ),
    "explain": Entry(_CLI + "explain", "Say what a setting means: fairness over time."),
    "simulate": Entry(_CLI + "simulate", "Run a trace or a workload in virtual time.", "simulate"),
    "tune": Entry(_CLI + "simulate", "Find the best settings for a scenario.", "tune"),
    "examples": Entry(
        _CLI + "examples", "List the examples that come with kaisched, or write them."
    ),
    "playground": Entry(
        _CLI + "run",
        "Serve a cluster to play with, for kubectl and the scheduler.",
        "playground",
    ),
    "snapshot": Entry(_CLI + "snapshot", "Record the inputs of a cycle; show them; run it again."),
    "doctor": Entry(
        _CLI + "checks", "Say what would keep the scheduler from its work in a cluster.", "doctor"
    ),
    "init": Entry(
        _CLI + "setup", "Make files of ours from what Run:ai or KAI-Scheduler exports.", "init"
    ),
    "run": Entry(_CLI + "run", "Run the scheduler.", "run"),
    "config": Entry(
        _CLI + "setup", "Show the settings in force and where each comes from.", "config"
    ),
    "plugins": Entry(_CLI + "run", "List the installed plugins.", "plugins"),
    "version": Entry(_CLI + "run", "Print the version.", "version"),
}


def build_app(wanted: str | None) -> typer.Typer:
    """Build the application, importing only the ``wanted`` command; None imports them all."""
    app = typer.Typer(
        name="kaisched",
        help=_HELP,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # its panels cut long options and choices
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, entry in COMMANDS.items():
        if wanted is None or wanted == name:
            _add_real(app, name, entry)
        else:
            app.command(name, help=entry.help)(_stand_in)
    return app


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from kaisched.cli.run import version  # noqa: PLC0415 - only when asked

        version("table")
        raise typer.Exit


def _root(
    debug: bool = typer.Option(
        False, "--debug", help="Show tracebacks; allowed anywhere on the line."
    ),
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
) -> None:
    pass


def _is_bare_group(line: Sequence[str]) -> bool:
    """Tell whether a line names a group of commands and nothing else."""
    if len(line) != 1 or line[0] not in COMMANDS:
        return False
    entry = COMMANDS[line[0]]
    return find_spec(entry.module) is not None and isinstance(_command(entry), typer.Typer)


def _command(entry: Entry) -> Any:
    return getattr(import_module(entry.module), entry.name)


def _stand_in() -> None:
    """Do nothing, in place of a command whose module is not imported."""


def _add_real(app: typer.Typer, name: str, entry: Entry) -> None:
    if find_spec(entry.module) is None:
        app.command(name, help=entry.help)(_missing(name))
        return
    command = _command(entry)
    if isinstance(command, typer.Typer):
        for inner in command.registered_commands:
            inner.help = _unwrapped(inner.callback)
        app.add_typer(command, name=name)
    else:
        app.command(name, help=_unwrapped(command))(command)


def _unwrapped(function: Callable[..., Any] | None) -> str:
    """Join each paragraph of a docstring into one line, so that the terminal can wrap it."""
    paragraphs = (getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def _missing(name: str) -> Callable[[], None]:
    def missing() -> None:
        raise ConfigError(f"kaisched {name} is not part of this installation")

    return missing


def _wanted(arguments: Sequence[str]) -> str | None:
    """Return the command that a line names, ``-`` for none, or None if all are needed."""
    if any(name.startswith("_KAISCHED_COMPLETE") for name in os.environ):
        return None
    return next((word for word in arguments if not word.startswith("-")), "-")


def main(arguments: Sequence[str] | None = None, name: str = NAME) -> NoReturn:
    """Run one command line and exit with its code; ``name`` is our name in messages."""
    line = list(sys.argv[1:] if arguments is None else arguments)
    stop = line.index("--") if "--" in line else len(line)
    is_debugging = "--debug" in line[:stop]
    line = [word for at, word in enumerate(line) if word != "--debug" or at > stop]
    printing.prepare()
    gc.set_threshold(*_SELDOM)
    code = run_line(line, is_debugging=is_debugging, name=name)
    printing.finish()
    sys.exit(code)


def run_line(line: Sequence[str], *, is_debugging: bool = False, name: str = NAME) -> int:
    """Run one command line and return its exit code; errors are one line unless debugging."""
    line = _as_now(line)
    if not line or _is_bare_group(line):
        line.append("--help")
    try:
        code = build_app(_wanted(line))(args=line, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as finished:
        # Commands end with typer.Exit. A plain exit with 1 comes from typer or rich when a
        # reader, such as head, closed the pipe; it says nothing about an object.
        code = OK if finished.code == 1 else finished.code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # The same closed pipe, found by our own write.
        printing.discard(sys.stdout)
        code = OK
    except Exception as error:
        if is_debugging:
            raise
        from kaisched.telemetry.logs import masked  # noqa: PLC0415 - only of errors

        text, code = _error_line(error, line, name)
        for each in (text, *map(str, getattr(error, "others", ()))):
            # A server's answer may repeat a secret that was sent to it.
            printing.print_error(f"{name}: {masked('', each)}")
    return code if isinstance(code, int) else OK


def _as_now(line: Sequence[str]) -> list[str]:
    """Return a command line with ``-o table`` for ``-o text``, its name until one release ago."""
    whole = {"--output=text": "--output=table", "-otext": "-otable"}
    is_text = [before in ("-o", "--output") and word == "text" for before, word in pairwise(line)]
    pairs = zip(line, [False, *is_text], strict=False)
    return ["table" if is_it else whole.get(word, word) for word, is_it in pairs]


def _error_line(error: Exception, line: Sequence[str], name: str) -> tuple[str, int]:
    """Return the one line of an error and its exit code."""
    if isinstance(error, KaischedError):
        return str(error), error.exit_code
    # Raised by the parser of the line; the class has another home in each version of typer.
    if hasattr(error, "format_message"):
        message = error.format_message().rstrip(".").replace("Value error, ", "")
        return f"{message}; see {name} {_topic(error, line)}--help", USAGE
    return f"this is a bug: {type(error).__name__}: {error}; --debug shows where", INTERNAL


def _topic(error: Exception, line: Sequence[str]) -> str:
    """Return the words of the command that was misused, each with a space behind it."""
    wanted, words = _wanted(line), list[str]()
    at = getattr(error, "ctx", None)
    while at is not None and at.parent is not None:
        words.insert(0, f"{at.info_name} ")
        at = at.parent
    return "".join(words) or (f"{wanted} " if wanted in COMMANDS else "")


# -- kubectl -------------------------------------------------------------------------------------

_KUBECTL: Final = "kubectl kaisched"
_VARIABLES: Final = {
    "--kubeconfig": "KAISCHED_KUBERNETES__KUBECONFIG",
    "--context": "KAISCHED_KUBERNETES__CONTEXT",
    "--namespace": "KAISCHED_KUBERNETES__NAMESPACE",
    "-n": "KAISCHED_KUBERNETES__NAMESPACE",
}
_NAMESPACE: Final = ("-n", "--namespace")
_WITH_NAMESPACE: Final = ("jobs", "why")
"""Commands with a namespace of their own: that of the job, and not of the scheduler."""
_NO_FILES: Final = ":4"
"""Directive of a completion that tells kubectl not to complete file names."""
_FILES: Final = ":0"


def kubectl_main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one ``kubectl kaisched`` line and exit with its code."""
    line = list(sys.argv[1:] if arguments is None else arguments)
    try:
        line = said_to_kubectl(line, os.environ)
    except ConfigError as error:
        printing.print_error(f"{_KUBECTL}: {error}")
        sys.exit(error.exit_code)
    main(line, _KUBECTL)


def said_to_kubectl(line: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """Move kubectl's own flags from a line into the environment; return the rest of the line.

    A call through kubectl means a real cluster unless the environment says otherwise.

    Raises:
        ConfigError: a flag has no value.

    """
    environ.setdefault("KAISCHED_CLUSTER", "kubernetes")
    rest: list[str] = []
    words = iter(line)
    for word in words:
        if word == "--":
            return [*rest, word, *words]
        flag, has_value, value = word.partition("=")
        is_own = flag in _NAMESPACE and bool(rest) and rest[0] in _WITH_NAMESPACE
        if flag not in _VARIABLES or is_own:
            rest.append(word)
            continue
        found = value if has_value else next(words, "")
        if not found:
            raise ConfigError("a value is missing", path=flag, fix=f"write {flag} NAME")
        environ[_VARIABLES[flag]] = found
    return rest


def complete_main(arguments: Sequence[str] | None = None) -> None:
    """Print the completions of the last word in kubectl's format."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    *before, last = words or [""]
    command: Any = typer.main.get_command(build_app(None))
    for word in before:
        command = getattr(command, "commands", {}).get(word, command)
    found = list(_choices(command, before, last))
    for name, text in found:
        printing.say_text(f"{name}\t{text}")
    printing.say(_NO_FILES if found else _FILES)


def _choices(command: Any, before: Sequence[str], last: str) -> Iterator[tuple[str, str]]:
    of_option = [it for it in command.params if before and before[-1] in it.opts]
    if of_option or not hasattr(command, "commands"):
        named = of_option or [it for it in command.params if it.param_type_name == "argument"]
        context = typer.Context(command)
        for param in () if last.startswith("-") else named:
            yield from ((it.value, "") for it in param.shell_complete(context, last))
    if last.startswith("-"):
        for param in command.params:
            text = (getattr(param, "help", "") or "").partition(". ")[0]
            yield from ((it, text) for it in param.opts if it.startswith(last))
        return
    for name, inner in getattr(command, "commands", {}).items():
        if name.startswith(last):
            yield name, (inner.help or "").strip().partition("\n")[0]
