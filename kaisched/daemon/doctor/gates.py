"""Checks whether a policy of the API server limits who may put work into a queue."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from kaisched.daemon.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.daemon.doctor.finding import Visit

_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_NAME: Final = "kaisched-queue-use-pods"
_CHECK: Final = "queue use"
_FIX: Final = (
    "helm upgrade --reuse-values --set queueUsePolicy.create=true, or with kustomize add"
    " components/queue-use; then grant users the verb use on the queue"
)


def queue_use(visit: Visit) -> Iterator[Finding]:
    """Look for the policy that lets only authorized users put work into a queue."""
    answer = visit.client.call("GET", f"{_BINDINGS}/{_NAME}")
    if answer.is_done:
        yield Finding(_CHECK, "ok", "only users with the verb use may put work into a queue")
    elif answer.code == HTTPStatus.NOT_FOUND:
        text = "any user who may create pods may put them into any queue"
        yield Finding(_CHECK, "warn", text, _FIX)
    else:
        text = f"whether any user may use any queue is not known: {answer.text()}"
        fix = "run the doctor as a user who may get validatingadmissionpolicybindings"
        yield Finding(_CHECK, "warn", text, fix)
