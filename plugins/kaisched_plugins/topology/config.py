"""The arguments of topology."""

from __future__ import annotations

from pydantic import Field

from kaisched import Arguments


class TopologyArguments(Arguments):
    """How pod sets with Kueue's annotations are placed where several choices are good."""

    least_free: bool = Field(
        default=True,
        description="Pods with no level in their annotations fill the fullest hosts first, as in"
        " Kueue; `false`: as few hosts as possible.",
    )
    even_shares: bool = Field(
        default=False,
        description="Pods with a preferred level are divided evenly, as with Kueue's balanced"
        " placement; `false`: one domain is filled after the other.",
    )
    pack_unconstrained: bool = Field(
        default=False,
        description="Of equally good nodes pods take those of the first domains by name, so that"
        " other domains stay whole; `false`: the first nodes by name.",
    )
