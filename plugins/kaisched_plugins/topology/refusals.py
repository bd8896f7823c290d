"""What topology refuses for: names that do not exist, and domains without room."""

from __future__ import annotations

from typing import Final

from kaisched import PluginRefusal

NO_TOPOLOGY: Final = PluginRefusal(
    "NoSuchTopology",
    "the topology that it requires a level of does not exist",
    cure="Create the `Topology`, or name one that exists.",
    is_lasting=True,
)
NO_LEVEL: Final = PluginRefusal(
    "NoSuchTopologyLevel",
    "the topology has no level of the name that it requires",
    cure="Name a node label or an alias of one of the topology's levels.",
    is_lasting=True,
)
WRONG_SLICES: Final = PluginRefusal(
    "UnusableSlices",
    "slices of its pods cannot be placed as its annotations say",
    cure="Name levels of slices from the outermost in, none outside of the level of the pods, and"
    " give pods of one pod set equal requests.",
    is_lasting=True,
)
NO_DOMAIN: Final = PluginRefusal(
    "NoDomainHasRoom",
    "no domain of the level that it requires has room for its pods together",
    cure="Wait, ask for fewer pods, or require a wider level.",
    tried=("nodes",),
    is_freeable=True,
)
OUT_OF_REACH: Final = PluginRefusal(
    "NoDomainCanBeFreed",
    "in no domain of the level that it requires could enough preemptible work give way",
    cure="Wait, ask for fewer pods, or require a wider level.",
    tried=("nodes",),
    is_freeable=True,
)
TOO_LARGE: Final = PluginRefusal(
    "NoDomainIsLargeEnough",
    "no domain of the level that it requires could hold its pods together, even if nothing ran",
    cure="Ask for fewer pods, require a wider level, or add nodes to a domain.",
    tried=("nodes",),
    is_lasting=True,
)
PATIENT: Final = PluginRefusal(
    "WaitsForDomain",
    "as long as its patience lasts it waits for one domain of the level that it prefers",
    cure="Nothing: when its patience ends other nodes will do. Or lower"
    " `kaisched.io/topology-patience`.",
    tried=("time",),
)
ALL: Final = (NO_TOPOLOGY, NO_LEVEL, WRONG_SLICES, NO_DOMAIN, OUT_OF_REACH, TOO_LARGE, PATIENT)
