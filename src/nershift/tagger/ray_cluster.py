"""Connect to a Ray cluster, where Ray is installed."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from nershift.errors import MissingExtraError, SetupError

LOCAL = "local"


def connect(
    address: str, count: int | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Any, Callable[[], None]]:
    """The ``ray`` module, connected to a cluster, and a function that ends the connection.

    A process that is connected already stays so. A cluster that is started here ends with the connection.

    Args:
        address: of a cluster, ``auto`` for the one of this machine, ``local`` for one that is started here.
        count: CPUs of a local cluster.
        environment: variables of its workers.
    """
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingExtraError("ray", "ray", "running on a Ray cluster") from None
    if ray.is_initialized():
        return ray, lambda: None
    if address == LOCAL:  # its workers inherit the environment of this process
        settings: dict[str, Any] = {"address": LOCAL, "num_cpus": count, "include_dashboard": False}
    else:
        settings = {"address": address, "runtime_env": {"env_vars": dict(environment or {})}}
    try:
        _answers(address)
        ray.init(**settings, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise SetupError(
            f"cannot reach a Ray cluster: {str(error).splitlines()[0]}",
            place=f"--ray {address}",
            expected="the address of a running cluster, auto, or local",
            fix="start one with `ray start --head`, or use --ray local",
        ) from None
    return ray, ray.shutdown


def _answers(address: str, seconds: float = 5.0) -> None:
    """Try the address first: Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), seconds).close()
