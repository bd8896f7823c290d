"""Stop policies of queues in a cluster: hold, drain and resume."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from kaisched.errors import ClusterError, ConfigError

if TYPE_CHECKING:
    from kaisched.cluster.kubernetes.client import Answer, Client

PATH: Final = "/apis/scheduling.run.ai/v2/queues"
HOLD: Final = "Hold"
DRAIN: Final = "HoldAndDrain"
RESUME: Final = "None"
_SAID: Final = {
    HOLD: "is on hold: nothing new starts in it, what runs goes on",
    DRAIN: "is drained: nothing new starts in it, and what runs is evicted",
    RESUME: "goes on: waiting jobs may start again",
}
_NOT_FOUND: Final = 404


class _Spec(msgspec.Struct, rename="camel"):
    stop_policy: str = ""


class _Queue(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def client_of(kubeconfig: str | None, context: str | None) -> Client:
    """Return a client of the cluster that the flags or the settings name.

    Raises:
        KaischedError: there is none.

    """
    from kaisched.cluster.kubernetes.access import find_access  # noqa: PLC0415 - not for the help
    from kaisched.cluster.kubernetes.client import Client  # noqa: PLC0415 - not for the help
    from kaisched.config.loading import load_settings  # noqa: PLC0415 - not for the help

    how = load_settings(None, os.environ, {}).settings.kubernetes
    where = kubeconfig or how.kubeconfig
    access = find_access(Path(where) if where else None, context or how.context)
    return Client(access, timeout_s=how.request_timeout)


def stop(client: Client, name: str, policy: str, *, is_dry: bool) -> str:
    """Set the stop policy of a queue, and return what is so now.

    Raises:
        ConfigError: there is no such queue.
        ClusterError: the server refuses, or drops the field.
        ClusterUnavailable: it does not answer.

    """
    from urllib.parse import quote  # noqa: PLC0415 - not for the help

    from kaisched.cluster.kubernetes.client import MERGE  # noqa: PLC0415 - not for the help

    answer = client.call(
        "PATCH",
        f"{PATH}/{quote(name, safe='')}",
        query={"dryRun": "All"} if is_dry else {},
        body={"spec": {"stopPolicy": policy}},
        content_type=MERGE,
    )
    _check(answer, name)
    kept = msgspec.json.decode(answer.data, type=_Queue).spec.stop_policy
    if kept != policy and not (policy == RESUME and not kept):
        raise ClusterError(
            f"the cluster's definition of queues drops stopPolicy, and queue {name} goes on",
            fix="apply ours: kaisched config crds | kubectl apply -f -",
        )
    return f"queue {name} {_SAID[policy]}{' (dry run)' if is_dry else ''}"


def _check(answer: Answer, name: str) -> None:
    if answer.is_done:
        return
    if answer.code == _NOT_FOUND:
        fix = "kaisched queue ls names them; kaisched config crds defines them"
        raise ConfigError(f"there is no queue {name}", fix=fix)
    raise ClusterError(f"queue {name}: {answer.text()}")
