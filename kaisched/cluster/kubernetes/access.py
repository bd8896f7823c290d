"""Where the API server is and how to log in: from a kubeconfig, or as the pod we run in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import urllib3

from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.telemetry.masking import hide

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE: Final = "kaisched"


def _nobody() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Access:
    """What a connection needs."""

    host: str
    """Address with scheme, without a slash at the end."""
    pool: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of urllib3's pool manager: certificates and the like."""
    authorization: Callable[[], str] = _nobody
    """Return the header's value; asked for every request, since tokens are renewed.

    Raises ClusterUnavailable while the token cannot be read.
    """
    namespace: str = DEFAULT_NAMESPACE
    """The namespace of our own pod."""


def find_access(kubeconfig: Path | None = None, context: str = "") -> Access:
    """Return the access that is configured.

    Args:
        kubeconfig: the file; without one, what ``KUBECONFIG`` names or ``~/.kube/config``, unless
            we run in a pod.
        context: the context of the file; its current one unless given.

    Raises:
        ConfigError: no file, no such context, or something in it cannot be used.

    """
    # Not at import: the official client takes most of a second.
    import yaml  # noqa: PLC0415
    from kubernetes import config as official  # noqa: PLC0415
    from kubernetes.client import Configuration  # noqa: PLC0415

    config: Any = official
    found = Configuration()
    is_in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ
    try:
        if kubeconfig is None and not context and is_in_pod:
            config.load_incluster_config(client_configuration=found)
        else:
            config.load_kube_config(
                config_file=None if kubeconfig is None else str(kubeconfig),
                context=context or None,
                client_configuration=found,
            )
    except Exception as wrong:
        # The official client raises whatever a bad file leads to. What it says of its own accord is
        # fit to be shown; the words of another exception may be a part of the file.
        is_told = isinstance(wrong, config.ConfigException | OSError | yaml.YAMLError)
        raise ConfigError(
            f"no access to a cluster: {wrong if is_told else type(wrong).__name__}",
            file="" if kubeconfig is None else str(kubeconfig),
            path="kubernetes.kubeconfig",
            fix="name a kubeconfig and one of its contexts, or run in a pod",
        ) from wrong
    if not found.verify_ssl:
        # Who wrote `insecure-skip-tls-verify` knows; a warning a connection would be in the log.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return Access(found.host.rstrip("/"), _pool_of(found), _authorization(found), _namespace())


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

    def authorization() -> str:
        try:
            with lock:
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
