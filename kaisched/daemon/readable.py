"""Kinds that pods wait for only while they can be read: storage, and claims on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.cluster.claims.device_claims import ON
from kaisched.cluster.kubernetes.reflector import Phase
from kaisched.cluster.kubernetes.resources import CLAIMS, DEVICES, STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.cluster.kubernetes.reflector import Reflector
    from kaisched.cluster.store import StateStore
    from kaisched.daemon.tenure import Tenure


class Readable:
    """What can be read of such kinds, as the shards were last told."""

    def __init__(self) -> None:
        """Begin as the stores do: without storage, and with claims where a shard allocates them."""
        self._has_volumes, self._claims = False, ON

    def note(self, reflectors: Iterable[Reflector], tenures: Iterable[Tenure]) -> None:
        """Tell the shards what has changed."""
        listed, told = list(reflectors), list(tenures)
        has_volumes = all(it.phase is Phase.SYNCED for it in listed if it.watched in STORAGE)
        if has_volumes != self._has_volumes:
            self._has_volumes = has_volumes
            for tenure in told:
                tenure.cluster.post(lambda store: store.heed_volumes(is_read=has_volumes))
        claims = _why_no_claims(listed) or ON
        if claims != self._claims:
            self._claims = claims
            for tenure in told:
                if tenure.has_claims:
                    tenure.cluster.post(lambda store: _heed_claims(store, claims))


def _why_no_claims(reflectors: Iterable[Reflector]) -> str:
    """Return why claims cannot be allocated; empty if they can, or if none are."""
    kinds = {it.group_kind for it in DEVICES}
    for it in reflectors:
        if it.watched.group_kind in kinds and it.phase in {Phase.ABSENT, Phase.FORBIDDEN}:
            return f"{it.watched.qualified} of the API server: {it.phase.value}"
    return ""


def _heed_claims(store: StateStore, reading: str) -> None:
    store.rows.touch()
    store.look_again(store.device_claims.heed(reading))


def are_claims(reflector: Reflector) -> bool:
    """Tell whether a reflector follows claims on devices, and can read them."""
    is_of_claims = reflector.watched.group_kind == CLAIMS.group_kind
    return is_of_claims and reflector.phase is Phase.SYNCED
