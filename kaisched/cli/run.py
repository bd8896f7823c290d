"""``kaisched run``: the scheduler, until it is told to stop."""

from __future__ import annotations

import os

from kaisched.cli import flags


def command(
    *,
    config: flags.ConfigFile = None,
    files: flags.Manifests = None,
    shard: flags.Shard = None,
    schedule_period: flags.SchedulePeriod = None,
    cluster: flags.Cluster = None,
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    observe: flags.Observe = None,
    evictions: flags.Evictions = None,
    metrics_bind_address: flags.MetricsAddress = None,
    metrics_port: flags.MetricsPort = None,
    health_bind_address: flags.HealthAddress = None,
    health_port: flags.HealthPort = None,
    view: flags.View = None,
    view_bind_address: flags.ViewAddress = None,
    view_port: flags.ViewPort = None,
    log_format: flags.LogFormat = None,
    log_level: flags.LogLevel = None,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C; the cycle under way is finished first.

    Flags override the environment, which overrides the file; settings that none of them names
    have defaults. Unless a setting says --cluster kubernetes, the cluster is one in memory, filled
    from the manifests.
    """
    given = locals()  # the parameters: nothing else is defined yet
    from kaisched.config.loading import load_settings  # noqa: PLC0415 - not for the help
    from kaisched.daemon.process import run_process  # noqa: PLC0415 - not for the help

    run_process(load_settings(config, os.environ, flags.flags_of(given)))
