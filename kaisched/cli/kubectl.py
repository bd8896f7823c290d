"""``kubectl kaisched``: all commands as a plugin of kubectl, with its flags for the cluster.

kubectl runs ``kubectl-kaisched`` from the path with the words after the plugin's name, and asks
``kubectl_complete-kaisched`` for completions. ``--kubeconfig``, ``--context`` and ``--namespace``
are accepted anywhere, as by kubectl, also where the command itself has no such option.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kaisched.cli.app import build_app, main
from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping, Sequence

NAME: Final = "kubectl kaisched"
_VARIABLES: Final = {
    "--kubeconfig": "KAISCHED_KUBERNETES__KUBECONFIG",
    "--context": "KAISCHED_KUBERNETES__CONTEXT",
    "--namespace": "KAISCHED_KUBERNETES__NAMESPACE",
    "-n": "KAISCHED_KUBERNETES__NAMESPACE",
}
_NAMESPACE: Final = ("-n", "--namespace")
_WITH_NAMESPACE: Final = ("why",)
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
        print(f"{NAME}: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    main(line, NAME)


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
    import typer  # noqa: PLC0415 - not for each line

    words = list(sys.argv[1:] if arguments is None else arguments)
    *before, last = words or [""]
    command: Any = typer.main.get_command(build_app(None))
    for word in before:
        command = getattr(command, "commands", {}).get(word, command)
    found = list(_choices(command, last))
    for name, text in found:
        print(f"{name}\t{text}")  # noqa: T201
    print(_NO_FILES if found else _FILES)  # noqa: T201


def _choices(command: Any, last: str) -> Iterator[tuple[str, str]]:
    if last.startswith("-"):
        for param in command.params:
            text = (getattr(param, "help", "") or "").partition(". ")[0]
            yield from ((it, text) for it in param.opts if it.startswith(last))
        return
    for name, inner in getattr(command, "commands", {}).items():
        if name.startswith(last):
            yield name, (inner.help or "").strip().partition("\n")[0]
