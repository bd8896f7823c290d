"""Settings of the daemon: every key, its type, its default and its purpose.

Keys are camelCase in the file; ``metrics.port`` is ``KAISCHED_METRICS__PORT`` in the environment.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kaisched.units import parse_duration

API_VERSION: Final = "kaisched.io/v1alpha1"
KIND: Final = "SchedulerConfiguration"

LONGEST_PERIOD_S: Final = 3600.0


def _seconds(value: object) -> float:
    return parse_duration(value)


def _listed(value: Any) -> Any:
    """Accept ``a,b`` where a list is asked for: the environment has no lists."""
    return (
        [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, str)
        else value
    )


Period = Annotated[float, BeforeValidator(_seconds), Field(ge=0.01, le=LONGEST_PERIOD_S)]
Port = Annotated[int, Field(ge=0, le=65535)]
Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(_listed)]

_KEYS: Final = ConfigDict(
    alias_generator=to_camel, populate_by_name=False, extra="forbid", frozen=True
)


class Listener(BaseModel):
    """Address and port of a listener."""

    model_config = _KEYS

    bind_address: str = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 for every interface."
    )
    hosts: Names = Field(
        default=(),
        description="More names by which clients reach it, as of an ingress; known are `localhost`,"
        " IP addresses, and, unless it listens on loopback, names without a dot and those that end"
        " in `.svc` or `.svc.cluster.local`.",
    )
    port: Port = Field(default=0, description="TCP port; 0 takes a free one and logs it.")


class GuardedListener(Listener):
    """Address and port of what not everybody may read, and the users who may."""

    authentication: Literal["auto", "kubernetes", "none"] = Field(
        default="auto",
        description="`kubernetes`: only to bearer tokens of users whom the API server lets `get`"
        " the page's path; `none`: to everybody; `auto`: `none` on a loopback address, else"
        " `kubernetes`.",
    )
    cert_file: str = Field(
        default="",
        description="Certificate (PEM) to serve by HTTPS; read again when it changes.",
    )
    key_file: str = Field(default="", description="The private key of the certificate (PEM).")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("certFile and keyFile go together: set both or none")
        return self

    @property
    def is_authenticated(self) -> bool:
        """Whether the API server is asked about the reader's rights."""
        if self.authentication != "auto":
            return self.authentication == "kubernetes"
        return not self.is_on_loopback

    @property
    def is_on_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        try:
            return ip_address(self.bind_address).is_loopback
        except ValueError:  # a host name
            return self.bind_address == "localhost"


class ViewListener(GuardedListener):
    """Whether and where the live view is served, and to whom."""

    enabled: bool = Field(
        default=False,
        description="Take a view of every cycle, and serve it as a page and under `/api/v1`:"
        " queues, jobs and why they wait, nodes, evictions.",
    )
    authentication: Literal["auto", "kubernetes", "none"] = Field(
        default="auto",
        description="`kubernetes`: bearer tokens that the API server knows; who may `get` a Queue"
        " sees its jobs, others see totals; `none`: everything to everybody; `auto`: `none` on a"
        " loopback address, else `kubernetes`.",
    )


class Logs(BaseModel):
    """Format of the events on standard error."""

    model_config = _KEYS

    format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="`json` lines, `text` for people, or `auto`: text on a terminal.",
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe events that are written."
    )


class Kubernetes(BaseModel):
    """Access to a real cluster, and limits on it."""

    model_config = _KEYS

    kubeconfig: str = Field(
        default="",
        description="Kubeconfig file; without it, the pod's own account, else what `KUBECONFIG`"
        " names or `~/.kube/config`.",
    )
    context: str = Field(
        default="", description="Context of the kubeconfig; without it, the current one."
    )
    namespace: str = Field(
        default="",
        description="Where the leases are; without it, our pod's namespace, else `kaisched`.",
    )
    observe: bool = Field(
        default=False,
        description="Decide and log, write nothing: to run beside another scheduler.",
    )
    kueue: bool = Field(
        default=False,
        description="Read Kueue's ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and"
        " WorkloadPriorityClasses as queues of ours; only with `observe`.",
    )
    other_pools: Names = Field(
        default=(),
        description="Node pools that other processes serve: jobs with lists are passed on to them."
        " `POOL=SHARD` where the shard has another name than the pool.",
    )
    writers: Annotated[int, Field(ge=1, le=256)] = Field(
        default=8, description="Most binds and evictions under way at a time."
    )
    writes_per_second: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=500, description="Most binds and evictions sent in a second."
    )
    reports_per_second: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100, description="Most conditions, statuses and events written in a second."
    )
    request_timeout: Period = Field(
        default=10.0, description="Longest wait for an answer of the API server."
    )
    watch_idle: Period = Field(
        default=90.0,
        description="A watch that is silent for this long counts as dead and is opened again.",
    )
    compare_period: Period = Field(
        default=600.0, description="Time after which everything is listed again and compared."
    )
    max_cache_age: Period = Field(
        default=180.0,
        description="No decisions are made if the API server last answered longer ago than this.",
    )
    eviction_mode: Literal["evict", "delete"] = Field(
        default="evict",
        description="`evict` keeps to disruption budgets; `delete` deletes victims regardless.",
    )

    @model_validator(mode="after")
    def _reads_kueue_only_to_observe(self) -> Self:
        if self.kueue and not self.observe:
            raise ValueError("kueue needs observe: Kueue itself starts and stops its jobs")
        return self


class Snapshots(BaseModel):
    """Whether the running process offers snapshots of its cycles."""

    model_config = _KEYS

    enabled: bool = Field(
        default=False,
        description="Keep every object, and serve `/snapshot` on 127.0.0.1 for `kaisched snapshot"
        " take --daemon`; it shows the names of all tenants.",
    )
    port: Port = Field(default=8082, description="TCP port; 0 takes a free one and logs it.")


class LeaderElection(BaseModel):
    """How one of several processes becomes the leader of a shard."""

    model_config = _KEYS

    enabled: bool = Field(
        default=True, description="Without it, two processes must never run for one shard."
    )
    identity: str = Field(
        default="", description="Name of this process; without it, host name and a random part."
    )
    lease_duration: Period = Field(
        default=15.0, description="How long others wait after the last renewal they have seen."
    )
    renew_deadline: Period = Field(
        default=10.0, description="The process ends after this long without a renewal."
    )
    retry_period: Period = Field(default=2.0, description="Time between renewals.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError("retryPeriod < renewDeadline < leaseDuration must hold")
        return self


class SchedulerConfiguration(BaseSettings):
    """Settings of one scheduler process."""

    model_config = SettingsConfigDict(
        alias_generator=to_camel,
        populate_by_name=False,
        extra="forbid",
        frozen=True,
        validate_default=False,  # defaults are in seconds already; texts become them
    )

    shards: Paths = Field(
        default=(),
        description="SchedulingShard files; without them, those of the cluster (in memory: one of"
        " the manifests), or the default.",
    )
    schedule_period: Period = Field(
        default=1.0, description="Longest time between two cycles, such as `1s` or `500ms`."
    )
    evictions: bool = Field(
        default=True,
        description="`false` evicts nothing, whatever the shards say; all else goes on.",
    )
    scheduler_names: Names = Field(
        default=("kaisched", "kai-scheduler"),
        min_length=1,
        description="Pods with these `spec.schedulerName`s are ours; leave out `kai-scheduler`"
        " where KAI-Scheduler itself runs in the same cluster.",
    )
    cluster: Literal["embedded", "kubernetes"] = Field(
        default="embedded",
        description="`embedded`: a cluster in memory, filled from the manifests; `kubernetes`: a"
        " real one.",
    )
    manifests: Paths = Field(
        default=(), description="Files or folders of objects the embedded cluster starts with."
    )
    kubernetes: Kubernetes = Field(
        default=Kubernetes(), description="Access to a real cluster, and limits on it."
    )
    leader_election: LeaderElection = Field(
        default=LeaderElection(), description="How one of several processes becomes the leader."
    )
    metrics: GuardedListener = Field(
        default=GuardedListener(port=8080), description="Where `/metrics` is served."
    )
    health: Listener = Field(
        default=Listener(port=8081), description="Where `/livez` and `/readyz` are served."
    )
    view: ViewListener = Field(
        default=ViewListener(port=8083), description="Where the live view is served."
    )
    snapshots: Snapshots = Field(
        default=Snapshots(), description="Recordings of a running process."
    )
    log: Logs = Field(default=Logs(), description="What is logged, and how.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return only the values from ``config.loading``, which knows the origin of each."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)
