"""Runs a router: the service with the router's agent and routes, in one process and one folder."""

from collections.abc import Callable
from pathlib import Path

from taciturn.errors import TaciturnError
from taciturn.features.embed_wordllama import check_installed, loaded_model
from taciturn.router.api import route_endpoints, route_schemas
from taciturn.router.chats import chat_operation, chat_schemas
from taciturn.router.config import RouterConfig
from taciturn.router.desk import Desk
from taciturn.router.page import RouterPage
from taciturn.router.proxy import Proxy
from taciturn.router.setup import Changes, begin_budget, begin_mode, set_up
from taciturn.router.upstreams import Upstreams
from taciturn.service.api.keys import Keyring
from taciturn.service.api.routes import Extension
from taciturn.service.config import Settings
from taciturn.service.core.service import Service
from taciturn.service.prepare import prepare
from taciturn.service.run import run_here

Say = Callable[[str], object]


def extension_of(config: RouterConfig, service: Service, keyring: Keyring, folder: Path) -> Extension:
    """The routes of a router whose agent is set up."""
    begun = begin_budget(config, service, folder) if config.budget is not None else {}
    desk = Desk(config, service, begun, begin_mode(config, service, folder))
    upstreams = Upstreams(config.timeout)
    proxy, page = Proxy(desk, upstreams, keyring, service.limits), RouterPage(desk, keyring, service.limits)
    return Extension(
        endpoints=route_endpoints(desk),
        schemas=route_schemas() | chat_schemas(),
        pages=(proxy.route(), *page.routes()),
        described=(chat_operation(),),
        close=upstreams.close,
    )


def run_router(
    config: RouterConfig,
    settings: Settings,
    announce: Callable[[int, Changes], object],
    say: Say,
) -> None:
    """Run a router until a signal stops it; `announce` gets the port and what was changed, `say` what is being done."""
    if settings.is_cluster or settings.shards:
        raise TaciturnError("a router runs in one process; leave out engine and shards")
    check_installed()
    changes: list[Changes] = []

    def before() -> None:
        say("compiling what decisions need, which takes up to a minute the first time")
        prepare()
        say("loading the embeddings")
        loaded_model()
        say("reading the journal")

    def extend(service: Service, keyring: Keyring) -> Extension:
        say("learning the examples of the file")
        changes.append(set_up(config, service, lambda done, total: say(f"learning {total} examples: {done} are done")))
        return extension_of(config, service, keyring, Path(settings.data_dir))

    run_here(settings, lambda port: announce(port, changes[0]), before=before, extend=extend)
