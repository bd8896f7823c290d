"""Address of the API server and credentials, from a kubeconfig or from the pod we run in."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import urllib3

from kaisched.clock import monotonic_s
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.telemetry.logs import hide

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE: Final = "kaisched"
TOKEN_S: Final = 60.0
"""Time after which a token is read from its file again."""
_ASK_S: Final = 1.0
"""Time after which the official client is asked for its token again, which takes 0.1 ms."""


def _anonymous() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Access:
    """Address and credentials of an API server."""

    host: str
    """Address with scheme, without a slash at the end."""
    pool: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of urllib3's pool manager: certificates and the like."""
    authorization: Callable[[], str] = _anonymous
    """Returns the header's value; called for every request, since tokens are renewed.

    Raises ClusterUnavailable while the token cannot be read.
    """
    namespace: str = DEFAULT_NAMESPACE
    """The namespace of our own pod."""
    context: str = ""
    """The context of the kubeconfig; empty in a pod."""
    cluster: str = ""
    """What the kubeconfig calls the cluster; empty in a pod."""

    def __str__(self) -> str:
        """Say which cluster this is."""
        if not self.context:
            return f"the cluster at {self.host}"
        return f"context {self.context}, cluster {self.cluster} at {self.host}"


def is_cluster_named(kubeconfig: str = "", context: str = "") -> bool:
    """Tell whether the user has named a cluster: by a kubeconfig, a context or ``KUBECONFIG``."""
    return bool(kubeconfig or context or os.environ.get("KUBECONFIG"))


def has_kubeconfig() -> bool:
    """Tell whether there is a kubeconfig where no file is named."""
    return any(it.is_file() for it in _usual_files())


def _usual_files() -> list[Path]:
    named = (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    return [Path(it).expanduser() for it in named if it]


def find_access(kubeconfig: Path | None = None, context: str = "") -> Access:
    """Return the configured access.

    Args:
        kubeconfig: the file; without one, the files in ``KUBECONFIG`` or ``~/.kube/config``, unless
            we run in a pod.
        context: the context of the file; its current one unless given.

    Raises:
        ConfigError: there is no file, no such context, or an entry cannot be used.

    """
    # Imported here, since the official client takes most of a second.
    import yaml  # noqa: PLC0415
    from kubernetes import config as official  # noqa: PLC0415
    from kubernetes.client import Configuration  # noqa: PLC0415

    _check_kubeconfig(kubeconfig)
    config: Any = official
    found = Configuration()
    token_file, name, cluster = None, "", ""
    is_in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ
    try:
        if kubeconfig is None and not context and is_in_pod:
            config.load_incluster_config(client_configuration=found)
        else:
            config.load_kube_config(
                config_file=_places(kubeconfig),
                context=context or None,
                client_configuration=found,
            )
            name, cluster, token_file = _chosen(kubeconfig, context)
    except Exception as wrong:
        # A bad file makes the official client raise any exception. Its own messages may be shown;
        # the message of another exception may contain a part of the file.
        is_no_yaml = isinstance(wrong, yaml.YAMLError | UnicodeDecodeError)
        is_safe = isinstance(wrong, config.ConfigException | OSError)
        told = "is no kubeconfig" if is_no_yaml else wrong if is_safe else type(wrong).__name__
        raise ConfigError(
            str(told) if is_no_yaml else f"no access to a cluster: {told}",
            file="" if kubeconfig is None else str(kubeconfig),
            path="kubernetes.kubeconfig",
            fix="name a kubeconfig and one of its contexts, or run in a pod",
        ) from wrong
    if not found.verify_ssl:
        # `insecure-skip-tls-verify` was set on purpose: do not warn for every connection.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    asked = _authorization(found) if token_file is None else TokenFile(token_file).authorization
    host = found.host.rstrip("/")
    return Access(host, _pool_of(found), asked, _namespace(), name, cluster)


def _places(kubeconfig: Path | None) -> str:
    """Return the files as ``KUBECONFIG`` names them."""
    return os.pathsep.join(map(str, _usual_files() if kubeconfig is None else [kubeconfig]))


def _check_kubeconfig(kubeconfig: Path | None) -> None:
    """Say what is wrong with the file that is to be read, where it is that there is none."""
    is_in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    if kubeconfig is None:
        files = _usual_files()
        if not is_in_pod and not any(it.is_file() for it in files):
            fix = "name one with --kubeconfig, or manifests with -f"
            raise ConfigError(f"there is no kubeconfig {' or '.join(map(str, files))}", fix=fix)
    elif not kubeconfig.is_file():
        why = "is a folder" if kubeconfig.is_dir() else "no such file"
        path, fix = "kubernetes.kubeconfig", "name a kubeconfig"
        raise ConfigError(why, file=str(kubeconfig), path=path, fix=fix)


class TokenFile:
    """A file with a token, which another program renews."""

    def __init__(self, path: Path, now_s: Callable[[], float] = monotonic_s) -> None:
        """Keep the path; the file is read on first use."""
        self._path = path
        self._now_s = now_s
        self._lock = threading.Lock()
        self._token = ""
        self._until_s = 0.0

    def authorization(self) -> str:
        """Return the header's value, with the token that the file had within the last minute.

        Raises:
            ClusterUnavailable: the file cannot be read or is empty, and no token was read before.

        """
        with self._lock:
            now_s = self._now_s()
            if not self._token or now_s >= self._until_s:
                self._read(now_s)
            return f"Bearer {self._token}"

    def _read(self, now_s: float) -> None:
        problem = "it is empty"
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as wrong:
            token, problem = "", getattr(wrong, "strerror", None) or type(wrong).__name__
        if token:
            self._token, self._until_s = token, now_s + TOKEN_S
            hide(token)
        elif not self._token:
            raise ClusterUnavailable(f"the token cannot be read: {self._path}: {problem}")
        # Else the file is being replaced: use the old token, and read again next time.


def _chosen(kubeconfig: Path | None, context: str) -> tuple[str, str, Path | None]:
    """Return the names of context and cluster, and the file with the token of the user.

    The official client reads the file only once, but the token in it is renewed.
    """
    from kubernetes.config import kube_config  # noqa: PLC0415

    official: Any = kube_config
    merged = official.KubeConfigMerger(_places(kubeconfig)).config
    name = str(context or merged["current-context"])
    chosen = merged["contexts"].get_with_name(name)["context"]
    cluster = str(chosen["cluster"])
    user = merged["users"].get_with_name(chosen["user"], safe=True) if "user" in chosen else None
    entry = user["user"] if user is not None and "user" in user else None
    if not entry or "tokenFile" not in entry or not entry["tokenFile"]:
        return name, cluster, None
    # A path is relative to the file that names it.
    file = Path(entry.path).expanduser().absolute().parent / str(entry["tokenFile"])
    return name, cluster, file


def _pool_of(found: Any) -> dict[str, Any]:
    wanted = {
        "cert_reqs": "CERT_REQUIRED" if found.verify_ssl else "CERT_NONE",
        "ca_certs": found.ssl_ca_cert,
        "cert_file": found.cert_file,
        "key_file": found.key_file,
        "server_hostname": found.tls_server_name,
        "assert_hostname": found.assert_hostname,
    }
    is_tls = found.host.startswith("https:")
    return {name: value for name, value in wanted.items() if is_tls and value is not None}


def _authorization(found: Any) -> Callable[[], str]:
    from kubernetes import config as official  # noqa: PLC0415

    unreadable: Any = official.ConfigException
    lock = threading.Lock()  # renewing a token writes into the configuration
    known, until_s = "", -math.inf

    def authorization() -> str:
        nonlocal known, until_s
        with lock:
            now_s = monotonic_s()
            if now_s >= until_s:
                known, until_s = ask(), now_s + _ASK_S
            return known

    def ask() -> str:
        try:
            token = found.get_api_key_with_prefix("BearerToken", alias="authorization")
        except unreadable as wrong:
            raise ClusterUnavailable(f"the token cannot be read: {wrong}") from wrong
        if not token and found.username:
            token = found.get_basic_auth_token()
            hide(str(found.password))
        header = str(token or "")
        hide(header.rpartition(" ")[2])
        return header

    return authorization


def _namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE
