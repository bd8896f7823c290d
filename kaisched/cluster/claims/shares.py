"""Shares of GPUs that are claims: whose templates are missing, and why a claim is not made yet.

A template is made once for all pods of a namespace that ask for the same. Its content follows from
its name and from the devices of the class; one with other content is somebody else's, and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.cluster.claims.checks import Waiting
from kaisched.cluster.claims.reading import claim_of
from kaisched.core.claims.model import ClaimError
from kaisched.objects.gpus import CLAIM, MEMORY, PREFIX, claim_spec, template_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaisched.cluster.claims.shared_devices import SharedDevices
    from kaisched.cluster.pods import PodRow
    from kaisched.objects.devices import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
    from kaisched.objects.gpus import ShareClaim

_MIB: Final = 1 << 20


class ShareClaims:
    """Pods whose shares are claims, and the templates of these."""

    def __init__(self, device_class: str, devices: SharedDevices) -> None:
        """Know no pod; an empty class means that shares are no claims here."""
        self.device_class = device_class
        self._devices = devices
        self._templates: dict[str, ResourceClaimTemplate] = {}
        self._users: dict[str, dict[str, PodRow]] = {}
        """By template, there or not, the pods."""
        self._template_of: dict[str, str] = {}

    # -- objects and pods ------------------------------------------------------------------------

    def put(self, template: ResourceClaimTemplate) -> list[str]:
        """Take in a template that came or changed; return the pods that it may matter to."""
        if not template.name.startswith(PREFIX):
            return []
        self._templates[template.key] = template
        return sorted(self._users.get(template.key, ()))

    def remove(self, template: ResourceClaimTemplate) -> list[str]:
        """Drop a template; return the pods that it may matter to."""
        self._templates.pop(template.key, None)
        return sorted(self._users.get(template.key, ()))

    def note(self, pod: PodRow) -> None:
        """Take in a pod that has not ended."""
        if pod.share is None:
            self.forget(pod.key)
            return
        key = f"{pod.namespace}/{pod.share.template}"
        if self._template_of.get(pod.key, key) != key:
            self.forget(pod.key)
        self._template_of[pod.key] = key
        self._users.setdefault(key, {})[pod.key] = pod

    def forget(self, pod: str) -> None:
        """Drop a pod."""
        key = self._template_of.pop(pod, None)
        if key is not None:
            users = self._users[key]
            del users[pod]
            if not users:
                del self._users[key]

    # -- what is told ----------------------------------------------------------------------------

    def why_unmade(self, pod: PodRow, label: str) -> str:
        """Return why a claim of a pod is not made from its template yet."""
        share = pod.share
        if share is None or label != CLAIM:
            return f"claim {label} is not made from its template yet"
        if why := self._why_unknown(share):
            return why
        template = self._templates.get(f"{pod.namespace}/{share.template}")
        if template is None:
            return f"template {share.template} of its claim {CLAIM} does not exist yet"
        if self._is_foreign(share, template):
            return f"{_foreign(share)}: delete it, and it is made anew"
        return f"claim {CLAIM} is not made from its template yet"

    def check(self, pod: PodRow, label: str, claim: ResourceClaim) -> None:
        """Refuse a claim that asks for something else than the share of its pod.

        It was made from somebody else's template, which may be gone since.

        Raises:
            Waiting: it says why.

        """
        share = pod.share
        if share is None or label != CLAIM or pod.node or claim.status.allocation is not None:
            return
        sizes = self._devices.sizes(self.device_class, MEMORY)
        if not sizes:
            raise Waiting(self._why_unknown(share))
        # Where sizes differ, it may have been made while all devices had any one of them.
        specs = (claim_spec(share.share, self.device_class, it) for it in sizes)
        if not all(_is_other(claim.spec, it) for it in specs):
            return
        template = self._templates.get(f"{pod.namespace}/{share.template}")
        if template is None or _is_other(claim.spec, template.spec.spec):
            wrong = f"claim {claim.name} does not ask for what {share.asked} says"
            raise Waiting(f"{wrong}: make the pod anew")
        raise Waiting(f"{_foreign(share)}: delete it, and make the pod anew")

    def wanted(self, is_ours: Callable[[str], bool]) -> Iterable[ResourceClaimTemplate]:
        """Yield the templates that pods wait for and nobody has made, by name.

        Args:
            is_ours: tells whether a pod is one that is placed here.

        """
        for key in sorted(self._users.keys() - self._templates.keys()):
            for pod in self._users[key].values():
                if pod.share is None or pod.node or pod.fault or not is_ours(pod.key):
                    continue
                if any(it.label == CLAIM and not it.name for it in pod.device_claims):
                    if not self._why_unknown(pod.share):
                        spec = self._spec(pod.share)
                        yield template_for(pod.namespace, pod.share.template, spec)
                    break

    # -- what a share asks for -------------------------------------------------------------------

    def _why_unknown(self, share: ShareClaim) -> str:
        """Return why nobody can say what a share asks for, or an empty text."""
        sizes = sorted({it // _MIB for it in self._devices.sizes(self.device_class, MEMORY)})
        if not sizes:
            return (
                f"no device of class {self.device_class} can be shared by its {MEMORY}: no node has"
                f" one with allowMultipleAllocations and a capacity {MEMORY}"
            )
        if share.share.fraction and len(sizes) > 1:
            return (
                f"{share.asked}: devices of class {self.device_class} have from"
                f" {sizes[0]} to {sizes[-1]} MiB, so a fraction is no one amount;"
                " ask for gpu-memory"
            )
        return ""

    def _spec(self, share: ShareClaim) -> ResourceClaimSpec:
        least = min(self._devices.sizes(self.device_class, MEMORY))
        return claim_spec(share.share, self.device_class, least)

    def _is_foreign(self, share: ShareClaim, template: ResourceClaimTemplate) -> bool:
        return _is_other(template.spec.spec, self._spec(share))


def _is_other(has: ResourceClaimSpec, wanted: ResourceClaimSpec) -> bool:
    """Tell whether a claim asks for something else: amounts may be written in other units."""
    try:
        return claim_of(has) != claim_of(wanted)
    except ClaimError:
        return True


def _foreign(share: ShareClaim) -> str:
    template = f"template {share.template} of its claim {CLAIM}"
    return f"{template} does not ask for what {share.asked} says"
