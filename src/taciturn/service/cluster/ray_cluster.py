"""The cluster on Ray: an actor for each shard, one for the supervisor, and a deployment of Ray Serve for the fronts."""

import logging
import os
import secrets
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from taciturn.errors import TaciturnError, how_to_install
from taciturn.service.cluster.batches import Batches, Call, Tickets
from taciturn.service.cluster.front import Front, FrontSettings
from taciturn.service.cluster.messages import Answer
from taciturn.service.cluster.shard import Shard, ShardSettings
from taciturn.service.cluster.supervisor import State, Supervisor
from taciturn.service.journal.directory import Directory
from taciturn.service.logs import log_to_stderr
from taciturn.service.prepare import prepare

try:
    import ray
    from ray import serve
    from ray.exceptions import GetTimeoutError, RayError
except ImportError as error:
    raise ImportError(f"taciturn.service.cluster.ray_cluster needs ray[serve]: {how_to_install('ray')}") from error

log = logging.getLogger("taciturn.service")
NAMESPACE, SUPERVISOR, APPLICATION = "taciturn", "supervisor", "taciturn"
TICK_SECONDS = 0.5
ANSWER_SECONDS = 2.0
"""How long a shard may take to say that it is there."""

STOP_SECONDS = 30.0
"""How long a shard may take to write its snapshots."""

MAX_CALLS = 10_000
"""Calls that a shard may work on at a time; agents' own limits on waiting requests are reached before."""


class ShardActor:
    """The process of a shard."""

    def __init__(self, number: int, place: str, settings: ShardSettings, log_level: str) -> None:
        log_to_stderr(log_level)
        prepare()
        self._shard = Shard(number, place, settings, on_fenced=lambda _: os._exit(1))
        self._tickets = Tickets(self._shard.call)
        self._running = False

    async def status(self) -> str:
        """See `Shard.status`; the first call has it restore its agents."""
        if not self._running:
            self._running = True
            self._shard.start()
        return await self._shard.status()

    async def call(self, name: str, path: dict[str, str], body: bytes) -> Answer:
        """See `Shard.call`."""
        return await self._shard.call(name, path, body)

    async def calls(self, batch: list[Call]) -> list[Answer]:
        """See `Tickets.calls`."""
        return await self._tickets.calls(batch)

    async def redeem(self, ticket: int) -> Answer:
        """See `Tickets.redeem`."""
        return await self._tickets.redeem(ticket)

    async def view(self, name: str, id: int | None = None) -> Answer:
        """See `Shard.view`."""
        return await self._shard.view(name, id)

    async def cards(self) -> Answer:
        """See `Shard.cards`."""
        return await self._shard.cards()

    async def metrics(self) -> bytes:
        """See `Shard.metrics`."""
        return await self._shard.metrics()

    async def close(self) -> None:
        """See `Shard.close`."""
        await self._shard.close()


class RayProcess:
    """The process of a shard, for a front."""

    def __init__(self, place: str) -> None:
        self._actor = ray.get_actor(place, namespace=NAMESPACE)
        self._batches = Batches(self._actor.calls.remote, self._actor.redeem.remote, self._actor.call.remote)

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the shard; calls of the API go together."""
        if method == "call":
            return await self._batches.call(*arguments)
        return await getattr(self._actor, method).remote(*arguments)


class RayLauncher:
    """Starts shards as actors that outlive the supervisor."""

    def __init__(self, settings: ShardSettings, log_level: str) -> None:
        self._settings, self._log_level = settings, log_level
        self._actors: dict[str, Any] = {}

    def launch(self, shard: int) -> str:
        """Start an actor, on the node that has the fewest."""
        place = f"shard-{shard}-{secrets.token_hex(4)}"
        remote = ray.remote(ShardActor).options(
            name=place,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            max_concurrency=MAX_CALLS,
            scheduling_strategy="SPREAD",
        )
        self._actors[place] = remote.remote(shard, place, self._settings, self._log_level)
        return place

    def states(self, places: Collection[str]) -> dict[str, State]:
        """Ask all for their status at the same time."""
        asked, states = {}, dict.fromkeys(places, "dead")
        for place in places:
            with suppress(ValueError, RayError):
                asked[self._actor(place).status.remote()] = place
        done, late = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_SECONDS) if asked else ([], [])
        states |= {asked[one]: "silent" for one in late}
        for one in done:
            with suppress(RayError):
                ray.get(one)
                states[asked[one]] = "answers"
        return states  # type: ignore[return-value]

    def stop(self, place: str) -> None:
        """Close a shard, and end its process."""
        with suppress(ValueError, RayError, GetTimeoutError):
            ray.get(self._actor(place).close.remote(), timeout=STOP_SECONDS)
        self.kill(place)

    def kill(self, place: str) -> None:
        """End the process."""
        with suppress(ValueError, RayError):
            ray.kill(self._actor(place))
        self._actors.pop(place, None)

    def _actor(self, place: str) -> Any:
        if place not in self._actors:
            self._actors[place] = ray.get_actor(place, namespace=NAMESPACE)
        return self._actors[place]


class SupervisorActor:
    """The process of the supervisor, which looks after the shards twice a second."""

    def __init__(self, settings: ShardSettings, log_level: str) -> None:
        log_to_stderr(log_level)
        self._directory = Directory(settings.postgres)
        self._supervisor = Supervisor(self._directory, RayLauncher(settings, log_level))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="taciturn-supervisor", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                self._supervisor.tick()
            except Exception as error:  # whatever it is, it is tried again
                log.warning("the shards cannot be looked after now: %s", error, exc_info=_unforeseen(error))

    def stop(self) -> None:
        """Stop looking after the shards, and stop them."""
        self._stop.set()
        self._thread.join()
        self._supervisor.stop()
        self._directory.close()


def _unforeseen(error: Exception) -> bool:
    return not isinstance(error, TaciturnError | RayError)


class FrontReplica:
    """The process of a front; Ray Serve starts it, asks it for its health, and replaces it."""

    def __init__(self, settings: FrontSettings) -> None:
        self._front = Front(settings, RayProcess)

    def check_health(self) -> None:
        """Raise if it does not serve."""
        if not self._front.alive:
            raise TaciturnError("the front has stopped")

    def __del__(self) -> None:
        """Finish the requests in progress; Ray Serve calls it."""
        if hasattr(self, "_front"):  # it could be started
            self._front.close()


class Cluster:
    """The cluster of a driver that is connected to Ray.

    Arguments:
        shard, front: how they serve.
        fronts: how many.
        log_level: of shards and the supervisor.
    """

    def __init__(self, shard: ShardSettings, front: FrontSettings, *, fronts: int, log_level: str) -> None:
        self._supervisor: Any = (
            ray.remote(SupervisorActor)
            .options(
                name=SUPERVISOR,
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=-1,
                max_concurrency=2,
            )
            .remote(shard, log_level)
        )
        serve.start(proxy_location="Disabled", logging_config={"log_level": "WARNING", "enable_access_log": False})
        deployment = serve.deployment(
            name="Front",
            num_replicas=fronts,
            ray_actor_options={"num_cpus": 0},
            health_check_period_s=1,
            health_check_timeout_s=5,
            graceful_shutdown_timeout_s=10,
        )(FrontReplica)
        serve.run(deployment.bind(front), name=APPLICATION, route_prefix=None)

    def ready(self, places: Iterable[str]) -> bool:
        """Whether the shards at these places serve all their agents."""
        try:
            actors = [ray.get_actor(place, namespace=NAMESPACE) for place in places]
            said: list[str] = ray.get([actor.status.remote() for actor in actors], timeout=ANSWER_SECONDS)
        except (RayError, ValueError, GetTimeoutError):
            return False
        return set(said) == {"ready"}

    def stop(self) -> None:
        """Stop the fronts, then the shards."""
        with suppress(RayError, RuntimeError):
            serve.shutdown()  # type: ignore[no-untyped-call]
        with suppress(RayError):
            ray.get(self._supervisor.stop.remote())
            ray.kill(self._supervisor)
