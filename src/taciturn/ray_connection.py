"""A connection of this process to Ray: to an existing cluster, or to one that is started on this machine."""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from taciturn.errors import TaciturnError, how_to_install

try:
    import ray
except ImportError as error:
    raise ImportError(f"taciturn.ray_connection needs ray: {how_to_install('ray')}") from error


@contextmanager
def connected(
    address: str | None, *, cores: int, variables: Mapping[str, str] | None = None, namespace: str | None = None
) -> Iterator[None]:
    """Connect to Ray while this is entered; workers import what this process can import.

    Arguments:
        address: of a running cluster, as `ray.init` takes it; None starts a local one and stops it at the end.
        cores: of a local cluster.
        variables: of the environment of workers.
        namespace: in which actors have names; None for one of its own.
    """
    search_path = os.pathsep.join(path for path in sys.path if path)
    if address is not None:
        _check_reachable(address)
    try:
        ray.init(
            address=address or "local",
            num_cpus=None if address else cores,
            include_dashboard=None if address else False,
            runtime_env={"env_vars": {**(variables or {}), "PYTHONPATH": search_path}},
            logging_level=logging.ERROR,
            log_to_driver=False,
            namespace=namespace,
        )
    except Exception as error:  # noqa: BLE001 - Ray raises a bare one where a node is slow to start
        raise TaciturnError(
            f"cannot reach Ray at {address or 'this machine'}: {' '.join(str(error).split())[:200]}"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise unless the address accepts connections; Ray itself retries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise TaciturnError(f"cannot reach Ray at {address}: {error.strerror or error}") from None
