"""ResourceClaims of pods: writes their devices before a bind, and gives them back after."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from kaisched.clock import monotonic_s
from kaisched.cluster.claims.generated import NOTE, made_claim, owner_of, shown
from kaisched.cluster.claims.sent import GeneratedClaim, Leftover, PodId, Wanted
from kaisched.cluster.kubernetes.binder import BindStep, PassingError, StepFailedError
from kaisched.cluster.kubernetes.client import JSON, STRATEGIC, Answer, Client, Pauses
from kaisched.cluster.kubernetes.pods import (
    CONFLICT,
    GONE,
    Writers,
    is_passing,
    lacks_right,
    may_pass,
    passing,
)
from kaisched.cluster.kubernetes.write_queue import Work
from kaisched.cluster.pods import PodRow
from kaisched.cluster.store import StateStore
from kaisched.core.axis import TaskState
from kaisched.errors import ClusterUnavailable
from kaisched.framework.intents import Bind, Nominate
from kaisched.objects.devices import (
    RESOURCE_API,
    RESOURCE_API_BEFORE,
    ClaimAllocation,
    ResourceClaimTemplate,
)
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

# -- requests about a claim ------------------------------------------------------------------------
# A claim is handled as the JSON that the server sent. Settings of drivers and what drivers report
# about devices are in its status, and must not change when we write it.

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps a claim as long as it has devices; the claim controller takes it off with them."""
_NO_PATH: Final = "resourceclaims"
"""What the message about a claim that does not exist begins with."""
Raw = dict[str, Any]


class _ConflictError(PassingError):
    """There is a claim by that name."""


class ClaimGoneError(Exception):
    """The claim does not exist, or is another one by that name."""


@dataclass(frozen=True, slots=True)
class ClaimApi:
    """Sends the requests about one claim."""

    writers: Writers
    key: str
    uid: str
    """Empty for any claim by that name; only to read and to create."""

    def read(self) -> Raw:
        """Return the claim as it is.

        Raises:
            ClaimGoneError: it is gone.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        raw = self._checked("GET", "get", "", None)
        if self.uid and raw["metadata"].get("uid") != self.uid:
            raise ClaimGoneError
        return raw

    def create(self, body: Raw) -> Raw | None:
        """Make the claim; return it, None if there is one by its name.

        Raises:
            StepFailedError: the server does not accept it.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been made.

        """
        try:
            return self._checked("POST", "create", "", body)
        except _ConflictError:
            return None

    def delete(self) -> None:
        """Delete the claim; nothing happens if it is gone.

        Raises:
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        try:
            self._checked("DELETE", "delete", "", {"preconditions": {"uid": self.uid}})
        except ClaimGoneError:
            return

    def mark(self, *, is_protected: bool) -> Raw:
        """Put on the annotations of the leader, and the finalizer; return the claim as it is then.

        By the annotations the server refuses the write of the status that follows if another leads
        by then. A claim without the finalizer could be deleted while pods use its devices.

        Raises:
            StepFailedError: it cannot be changed.
            ClaimGoneError: it is gone.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        meta: Raw = {"uid": self.uid}
        if is_protected:
            meta["finalizers"] = [FINALIZER]
        if notes := self.writers.annotations():
            meta["annotations"] = notes
        return self._checked("PATCH", "patch", "", {"metadata": meta})

    def unprotect(self, raw: Raw) -> None:
        """Take off the finalizer, unless the claim has changed.

        Raises:
            ClaimGoneError: it is gone.
            PassingError: it has changed, or the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        meta = {
            "uid": self.uid,
            "resourceVersion": raw["metadata"].get("resourceVersion", ""),
            "$deleteFromPrimitiveList/finalizers": [FINALIZER],
        }
        self._checked("PATCH", "patch", "", {"metadata": meta})

    def put_status(self, raw: Raw, status: Raw) -> Raw:
        """Write the status, if the claim is still as it was read; return the claim.

        Raises:
            StepFailedError: the server does not accept it.
            ClaimGoneError: it is gone.
            PassingError: it has changed, or the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        return self._checked("PUT", "update", "/status", {**raw, "status": status})

    def _checked(self, method: str, verb: str, part: str, body: Raw | None) -> Raw:
        answer = self._call(method, part, body)
        if answer.code == GONE:
            raise ClaimGoneError
        if lacks_right(answer):
            needs = f"{verb} on resourceclaims{part} of resource.k8s.io"
            if part:
                needs += f", and {verb} on resourceclaims/binding from Kubernetes 1.36"
            self.writers.log.error("claim_forbidden", answer=answer.text(), needs=needs)
        if may_pass(answer) or answer.code == CONFLICT:
            if answer.code == CONFLICT and "UID" in answer.status().message:
                raise ClaimGoneError
            if method == "POST" and answer.code == CONFLICT:
                raise _ConflictError(answer, f"claim {self.key}")
            raise PassingError(answer, f"claim {self.key}")
        if not answer.is_done:
            raise StepFailedError(f"claim {self.key}: {answer.text()}")
        found: Raw = msgspec.json.decode(answer.data)
        return found

    def _call(self, method: str, part: str, body: Raw | None) -> Answer:
        namespace, _, name = self.key.partition("/")
        path = f"namespaces/{namespace}/resourceclaims"
        if method != "POST":
            path += f"/{name}{part}"
        return _send(self.writers.client, method, path, body)


def _send(client: Client, method: str, path: str, body: Raw | None) -> Answer:
    """Send a request in the version that is served, the newest first."""
    answer = Answer(GONE, b"")
    for version in (RESOURCE_API, RESOURCE_API_BEFORE):
        is_whole = body is not None and method in {"POST", "PUT"}
        said = {**(body or {}), "apiVersion": version} if is_whole else body
        form = STRATEGIC if method == "PATCH" else JSON
        answer = client.call(method, f"/apis/{version}/{path}", body=said, content_type=form)
        if answer.code != GONE or answer.status().message.startswith(_NO_PATH):
            break
    return answer


def has_user(raw: Raw, uids: frozenset[str]) -> bool:
    """Tell whether one of some pods may use a claim."""
    return any(it.get("uid") in uids for it in users_of(raw))


def users_of(raw: Raw) -> list[Raw]:
    """Return who may use a claim."""
    found: list[Raw] = (raw.get("status") or {}).get("reservedFor") or []
    return found


def allocation_in(raw: Raw) -> Raw | None:
    """Return what a claim has."""
    found: Raw | None = (raw.get("status") or {}).get("allocation")
    return found


def devices_in(allocation: Raw | None) -> list[tuple[str, ...]]:
    """Return what tells one allocation from another: its devices, and the parts of shared ones."""
    results = ((allocation or {}).get("devices") or {}).get("results") or []
    parts = ("request", "driver", "pool", "device", "shareID")
    return [tuple(str(it.get(part) or "") for part in parts) for it in results]


def can_be_used_on(node: str, allocation: Raw) -> bool:
    """Tell whether an allocation names no other node; labels of nodes were judged before."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    named = [
        field.get("values") or ()
        for term in terms
        for field in term.get("matchFields") or ()
        if field.get("key") == "metadata.name" and field.get("operator") == "In"
    ]
    return all(node in names for names in named)


def give_back(
    api: ClaimApi, pods: frozenset[str], ours: Raw | None = None, *, is_unused: bool = False
) -> None:
    """Remove pods from a claim, and its devices after the last; no effect if it is gone.

    Args:
        api: of the claim.
        pods: UIDs of the pods.
        ours: an allocation that goes even if none of them may use the claim yet.
        is_unused: any allocation goes that nobody may use yet.

    Raises:
        PassingError: the claim has changed meanwhile, or the server asks for another try.
        ClusterUnavailable: no answer; it may have been done.

    """
    try:
        raw = api.mark(is_protected=False)
        allocation = allocation_in(raw)
        is_ours = ours is not None and devices_in(ours) == devices_in(allocation)
        is_due = is_ours or has_user(raw, pods) or (is_unused and not users_of(raw))
        if allocation is not None and is_due:
            left = [it for it in users_of(raw) if it.get("uid") not in pods]
            status = {key: it for key, it in raw["status"].items() if key != "reservedFor"}
            if left:
                status["reservedFor"] = left
            else:
                status = {}
            if status != raw["status"]:
                raw = api.put_status(raw, status)
        is_free = allocation_in(raw) is None
        # This also makes a request fail that is still on its way from an earlier try.
        if is_free and FINALIZER in (raw["metadata"].get("finalizers") or ()):
            api.unprotect(raw)
    except ClaimGoneError:
        return


# -- generated claims ------------------------------------------------------------------------------
# A pod has one such claim, whose name follows from its UID: making it again finds it.

_AS_MADE: Final = ""
"""In place of a UID: the claim may have any."""


def make_claim(writers: Writers, pod: str, uid: str, generated: GeneratedClaim) -> ClaimApi:
    """Make the claim of a pod, or find it.

    Raises:
        StepFailedError: it cannot be made.
        PassingError: the server asks for another try.
        ClusterUnavailable: no answer; it may have been made.

    """
    claim = made_claim(generated.claim)
    api = ClaimApi(writers, claim.key, _AS_MADE)
    owner = {**_raw(owner_of(pod, uid)), "controller": True}
    meta: Raw = {
        "name": claim.name,
        "namespace": claim.metadata.namespace,
        "annotations": {NOTE: "true", **writers.annotations()},
        "ownerReferences": [owner],
        "finalizers": [FINALIZER],
    }
    body = {"kind": "ResourceClaim", "metadata": meta, "spec": _spec(generated)}
    raw = api.create(body)
    if raw is None:
        raw = _found(api, uid)
        if raw is None:
            raise StepFailedError(f"claim {claim.key} is gone")
        if raw["metadata"].get("deletionTimestamp"):
            raise StepFailedError(f"claim {claim.key} is being deleted")
    return ClaimApi(writers, claim.key, raw["metadata"]["uid"])


def record_claim(writers: Writers, pod: str, uid: str, generated: GeneratedClaim) -> None:
    """Write into the status of a pod which claim it has, and what each container has of it.

    Raises:
        StepFailedError: the server does not accept it.
        PassingError: the server asks for another try.
        ClusterUnavailable: no answer; it may have been done.

    """
    mappings = [
        {"containerName": it.container, "resourceName": it.resource, "requestName": it.request}
        for it in generated.content.mappings
    ]
    status = {
        "resourceClaimName": made_claim(generated.claim).name,
        "requestMappings": mappings,
    }
    answer = writers.patch_status(pod, uid, {"extendedResourceClaimStatus": status})
    if is_passing(answer):
        raise PassingError(answer, f"pod {pod}")
    if not answer.is_done:
        raise StepFailedError(f"status of pod {pod}: {answer.text()}")


def remove_claim(writers: Writers, key: str, uid: str) -> None:
    """Give the devices of a pod's claim back and delete it; nothing happens without one.

    Args:
        writers: send the requests.
        key: of the claim.
        uid: of the pod.

    Raises:
        PassingError: it has changed meanwhile, or the server asks for another try.
        ClusterUnavailable: no answer; it may have been done.

    """
    raw = _found(ClaimApi(writers, key, _AS_MADE), uid)
    if raw is None:
        return
    api = ClaimApi(writers, key, raw["metadata"]["uid"])
    give_back(api, frozenset({uid}), is_unused=True)
    api.delete()


def _found(api: ClaimApi, pod_uid: str) -> Raw | None:
    """Return the claim of a pod; None if there is none, or it is another's."""
    try:
        raw = api.read()
    except ClaimGoneError:
        return None
    owners = raw["metadata"].get("ownerReferences") or ()
    is_ours = any(it.get("uid") == pod_uid for it in owners)
    return raw if is_ours else None


def _raw(struct: msgspec.Struct | None) -> Raw:
    found: Raw = msgspec.json.decode(msgspec.json.encode(struct))
    return found


def _spec(generated: GeneratedClaim) -> Raw:
    requests = [
        {
            "name": it.name,
            "exactly": {
                "deviceClassName": it.exactly.device_class_name,
                "allocationMode": it.exactly.allocation_mode,
                "count": it.exactly.count,
            },
        }
        for it in generated.content.spec.devices.requests
        if it.exactly is not None
    ]
    return {"devices": {"requests": requests}}


# -- the backend -----------------------------------------------------------------------------------
# The order is the one that kubelets and controllers rely on: the finalizer, then allocation and
# reservation in one write of the status, then the bind.

DEADLINE_S: Final = 60.0
"""How long a claim is tried; then its pod is decided again."""
READY_S: Final = 600.0
"""How long devices may take to get ready, as with Kubernetes' own scheduler."""
POLL_S: Final = 5.0


class ClaimBackend:
    """Makes the steps for pods with claims, and gives back what is of no use."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> ClaimStep | None:
        """Return the claims of a pod, which the store counts as allocated from now on."""
        pod = store.pods.pod(bind.pod)
        if pod is None or not pod.device_claims:
            return None
        wanted = store.device_claims.assume(pod, dict(bind.claims), lambda: str(uuid.uuid4()))
        return ClaimStep(writers, bind, wanted) if wanted else None

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> Iterable[Work]:
        """Read claims of which nothing is known; give back devices that only waiting pods have."""
        del nominations
        claims = store.device_claims

        def is_open(pod: PodId) -> bool:
            return pod in writers.under_way or pod[0] in store.facts.sent.binds

        def is_waiting(pod: PodRow) -> bool:
            # The cycle did not try a pod that is held back or gated, so nothing says that it cannot
            # go where its devices are.
            is_tried = store.rows.state_of(pod.key) == TaskState.PENDING
            return pod.is_ours and is_tried and not is_open((pod.key, pod.uid))

        doubtful = claims.settle_sent(is_open, monotonic_s())
        left = claims.left_over(is_waiting)
        claims.leftovers.clearing |= {it.key for it in left}
        for it in left:
            store.rows.touch()
            store.look_again(claims.users_of(it.key))
        changed, claims.generated.changed = claims.generated.changed, set()
        store.look_again(sorted(changed))
        unused = claims.generated.left_over(is_waiting)
        claims.generated.clearing |= {pod.key for _, pod in unused}
        store.look_again([pod.key for _, pod in unused])
        return [
            *(_RemoveGenerated(writers, key, pod.key, pod.uid) for key, pod in unused),
            *(_ReadClaim(writers, it) for it in doubtful),
            *(_GiveBack(writers, it) for it in left),
        ]


@dataclass(slots=True)
class ClaimStep(BindStep):
    """The claims of one pod, and the requests about them."""

    writers: Writers
    bind: Bind
    wanted: list[Wanted]
    settled: int = 0
    """How many of them have their devices, and have the pod among their users."""
    begun_s: float = -1.0
    ready_by_s: float = -1.0
    """Until when devices may get ready."""

    def settle(self) -> float | None:
        """Write claim after claim, then wait for devices that are to get ready first.

        Raises:
            StepFailedError: a claim cannot be had.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        if self.begun_s < 0:
            self.begun_s = monotonic_s()
        while self.settled < len(self.wanted):
            wanted = self.wanted[self.settled]
            try:
                self._have(wanted, self._made(wanted))
            except ClaimGoneError:
                raise StepFailedError(f"{shown(wanted.key)} is gone") from None
            if wanted.generated is not None:
                record_claim(self.writers, self.bind.pod, self.bind.uid, wanted.generated)
            self.settled += 1
        return self._until_ready()

    @property
    def is_overdue(self) -> bool:
        """Whether the time for the claims is over."""
        is_waiting = self.settled == len(self.wanted)
        return not is_waiting and monotonic_s() - self.begun_s > DEADLINE_S

    def undo(self) -> float | None:
        """Remove the pod from all claims that it reserved, and devices that are then unused."""
        while self.settled >= 0:
            if self.settled < len(self.wanted):
                self._give_back(self.wanted[self.settled])
            self.settled -= 1
        return None

    def _give_back(self, wanted: Wanted) -> None:
        if wanted.generated is not None:
            key = made_claim(wanted.generated.claim).key
            remove_claim(self.writers, key, self.bind.uid)
            return
        ours = _raw(wanted.allocation) if wanted.is_new else None
        give_back(self._api(wanted), frozenset({self.bind.uid}), ours)

    def _made(self, wanted: Wanted) -> ClaimApi:
        """Return the claim, made if it is to be made."""
        if wanted.generated is None:
            return self._api(wanted)
        if wanted.allocation is None:
            raise StepFailedError("the claim for extended resources has no devices")
        return make_claim(self.writers, self.bind.pod, self.bind.uid, wanted.generated)

    def _api(self, wanted: Wanted) -> ClaimApi:
        if wanted.generated is not None:
            return ClaimApi(self.writers, made_claim(wanted.generated.claim).key, "")
        return ClaimApi(self.writers, wanted.key, wanted.uid)

    def _have(self, wanted: Wanted, api: ClaimApi) -> None:
        """See to it that a claim has the devices that were chosen, and the pod as a user."""
        if wanted.allocation is None:
            raise StepFailedError(f"{shown(wanted.key)} has no devices for this bind")
        passing("claim.before_patch")
        raw = api.mark(is_protected=True)
        has, wish = allocation_in(raw), _raw(wanted.allocation)
        if has is None and not wanted.is_new:
            raise StepFailedError(f"{shown(wanted.key)} has lost its devices")
        if has is not None and devices_in(has) != devices_in(wish):
            raise StepFailedError(f"{shown(wanted.key)} has got other devices meanwhile")
        if not can_be_used_on(self.bind.node, wish if has is None else has):
            raise StepFailedError(f"{shown(wanted.key)} has devices that are not on this node")
        if has is not None and has_user(raw, frozenset({self.bind.uid})):
            return
        if raw["metadata"].get("deletionTimestamp"):
            raise StepFailedError(f"{shown(wanted.key)} is being deleted")
        name = self.bind.pod.partition("/")[2]
        user = {"resource": "pods", "name": name, "uid": self.bind.uid}
        status: Raw = {**(raw.get("status") or {}), "allocation": wish if has is None else has}
        status["reservedFor"] = [*users_of(raw), user]
        passing("claim.before_put")
        api.put_status(raw, status)
        passing("claim.after_put")

    def _until_ready(self) -> float | None:
        """Return None once all devices are ready; devices without conditions always are."""
        late = [it for it in self.wanted if it.allocation is not None and _conditions(it)]
        if not late:
            return None
        if self.ready_by_s < 0:
            self.ready_by_s = monotonic_s() + READY_S
        for wanted in late:
            try:
                raw = self._api(wanted).read()
            except ClaimGoneError:
                raise StepFailedError(f"{shown(wanted.key)} is gone") from None
            why = _why_not_ready(raw)
            if why is None:
                continue
            if why or monotonic_s() > self.ready_by_s:
                why = why or f"its devices are not ready after {READY_S:.0f} s"
                raise StepFailedError(f"{shown(wanted.key)}: {why}")
            return POLL_S
        return None


def _conditions(wanted: Wanted) -> bool:
    allocation = wanted.allocation
    return allocation is not None and any(
        it.binding_conditions for it in allocation.devices.results
    )


def _why_not_ready(raw: Raw) -> str | None:
    """Return why devices of a claim will not get ready, "" if they may yet, None if they are."""
    reported = {
        (it.get("driver"), it.get("pool"), it.get("device"), it.get("shareID") or ""): {
            one.get("type"): one.get("status") for one in it.get("conditions") or ()
        }
        for it in (raw.get("status") or {}).get("devices") or ()
    }
    is_ready = True
    for result in ((allocation_in(raw) or {}).get("devices") or {}).get("results") or ():
        of_device = (result.get("driver"), result.get("pool"), result.get("device"))
        has = reported.get((*of_device, result.get("shareID") or ""), {})
        for name in result.get("bindingFailureConditions") or ():
            if has.get(name) == "True":
                return f"device {result.get('device')} has failed: {name}"
        is_ready &= all(has.get(it) == "True" for it in result.get("bindingConditions") or ())
    return None if is_ready else ""


@dataclass(slots=True)
class _ReadClaim:
    """The read of a claim whose sent allocation no event has confirmed."""

    writers: Writers
    wanted: Wanted

    def send(self) -> float | None:
        """Read the claim, and record in the store what it has."""
        key, uid = self.wanted.key, self.wanted.uid
        allocation = None
        try:
            raw = ClaimApi(self.writers, key, uid).read()
            allocation = msgspec.convert(allocation_in(raw), ClaimAllocation | None)
        except ClaimGoneError:
            pass
        except (PassingError, StepFailedError, ClusterUnavailable):
            return None  # it is read again after the next cycle
        record = partial(_record_read, key=key, uid=uid, allocation=allocation)
        self.writers.post(record)
        return None

    def drop(self, why: str) -> None:
        """Give the read up: the claim is read again later."""


def _record_read(
    store: StateStore, *, key: str, uid: str, allocation: ClaimAllocation | None
) -> None:
    store.device_claims.was_read(key, uid, allocation, monotonic_s())
    store.rows.touch()
    store.look_again(store.device_claims.users_of(key))


@dataclass(slots=True)
class _RemoveGenerated:
    """The deletion of a claim for extended resources that only a waiting pod has."""

    writers: Writers
    key: str
    pod: str
    uid: str
    """Of the pod."""

    def send(self) -> float | None:
        """Give the devices back and delete the claim; one that fails is tried after a cycle."""
        try:
            remove_claim(self.writers, self.key, self.uid)
        except (PassingError, StepFailedError, ClusterUnavailable) as error:
            self.drop(str(error))
            return None
        self.writers.counts.add("claim", DONE)
        self.writers.log.info("claim_given_back", claim=self.key)
        self._end()
        return None

    def drop(self, why: str) -> None:
        """Leave it: it is found again after a cycle."""
        self.writers.log.info("claim_not_given_back", claim=self.key, why=why)
        self._end()

    def _end(self) -> None:
        pod = self.pod

        def end(store: StateStore) -> None:
            store.device_claims.generated.clearing.discard(pod)
            store.rows.touch()
            store.look_again([pod])

        self.writers.post(end)


@dataclass(slots=True)
class _GiveBack:
    """The return of devices that only pods have which wait."""

    writers: Writers
    left: Leftover
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Give the devices back; return when to try again, None when done."""
        api = ClaimApi(self.writers, self.left.key, self.left.uid)
        try:
            give_back(api, self.left.pods, is_unused=True)
        except (PassingError, ClusterUnavailable) as error:
            self.writers.counts.add("claim", RETRIED)
            return self.pauses.next_s(getattr(error, "retry_after_s", 0.0))
        except StepFailedError as error:
            self.writers.log.warning("claim_not_given_back", claim=self.left.key, why=str(error))
        else:
            self.writers.counts.add("claim", DONE)
            self.writers.log.info("claim_given_back", claim=self.left.key)
        self._end()
        return None

    def drop(self, why: str) -> None:
        """Leave the devices where they are."""
        self.writers.log.info("claim_not_given_back", claim=self.left.key, why=why)
        self.writers.counts.add("claim", DROPPED)
        self._end()

    def _end(self) -> None:
        key = self.left.key

        def end(store: StateStore) -> None:
            store.device_claims.leftovers.clearing.discard(key)
            store.rows.touch()
            store.look_again(store.device_claims.users_of(key))

        self.writers.post(end)


# -- templates of shares ---------------------------------------------------------------------------
# A template is named by what it asks for, so to find one there already is as good as to make it.

AGAIN_S: Final = 30.0
"""A template that is still missing after so long is made again."""
_NEEDS: Final = "create on resourceclaimtemplates of resource.k8s.io"


class ShareTemplates:
    """Makes missing templates after cycles; no bind needs a step for them."""

    def __init__(self) -> None:
        """Nothing was made yet."""
        self._tried_s: dict[str, float] = {}
        """By template that is missing, when it was made last."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> None:
        """Return None: a bound pod has its claim."""
        del bind, writers, store

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> Iterable[Work]:
        """Make the templates that pods wait for."""
        del nominations
        now_s = monotonic_s()
        wanted = {it.key: it for it in store.device_claims.shares.wanted(store.pods.is_ours)}
        self._tried_s = {key: s for key, s in self._tried_s.items() if key in wanted}
        due = [key for key in wanted if self._tried_s.get(key, -AGAIN_S) + AGAIN_S <= now_s]
        self._tried_s.update(dict.fromkeys(due, now_s))
        return [_MakeTemplate(writers, wanted[key]) for key in due]


@dataclass(slots=True)
class _MakeTemplate:
    """The making of one template."""

    writers: Writers
    template: ResourceClaimTemplate
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Make the template; return when to try again, None when done."""
        writers, key = self.writers, self.template.key
        try:
            space = self.template.metadata.namespace
            path = f"namespaces/{space}/resourceclaimtemplates"
            body: Raw = {"kind": self.template.KIND, **msgspec.to_builtins(self.template)}
            answer = _send(writers.client, "POST", path, body)
        except ClusterUnavailable:
            writers.counts.add("claim", RETRIED)
            return self.pauses.next_s()
        if answer.is_done or answer.code == CONFLICT:
            writers.counts.add("claim", DONE)
            if answer.is_done:
                writers.log.info("template_made", template=key)
            return None
        if is_passing(answer):
            writers.counts.add("claim", RETRIED)
            return self.pauses.next_s(answer.retry_after_s)
        more = {"needs": _NEEDS} if lacks_right(answer) else {}
        writers.log.error("template_not_made", template=key, answer=answer.text(), **more)
        writers.counts.add("claim", FAILED)
        return None

    def drop(self, why: str) -> None:
        """Leave it: the next leader, or a later cycle, finds it missing."""
        del why
        self.writers.counts.add("claim", DROPPED)
