"""Shared by the tests of the router: its files, and routers with and without a network whose clock stands still."""

import socket
import threading
from contextlib import contextmanager

import httpx
import yaml

from service_kit import MemoryJournal, Web
from taciturn.router.config import read_config
from taciturn.router.run import extension_of
from taciturn.router.setup import set_up
from taciturn.service.api.keys import Keyring
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service
from taciturn.service.server import Server
from taciturn.service.web import add_page

SHOP = {
    "refunds": ["I want my money back", "You charged me twice", "Please refund my order"],
    "delivery": ["Where is my parcel?", "My order has not arrived", "The delivery is late"],
    "account": ["I forgot my password", "I cannot log in", "Please change my email address"],
}


def shop(**keys):
    """The content of a file with three arms; `keys` are further keys, and those of arms by their names."""
    arms = {name: {"examples": examples} | keys.pop(name, {}) for name, examples in SHOP.items()}
    return {"name": "shop", "arms": arms} | keys


def config_in(folder, content):
    """The config of a file with this content, text or an object."""
    path = folder / "router.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return read_config(path)


class Clock:
    """A clock that only tests move."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


class Running:
    """A router without a network: `web` sends it requests."""

    def __init__(self, service, changes, extension, web):
        self.service, self.changes, self.extension, self.web = service, changes, extension, web

    def route(self, text, status=200, **more):
        answer = self.web("POST", "/v1/route", json={"text": text} | more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def feedback(self, status=200, **given):
        answer = self.web("POST", "/v1/feedback", json=given)
        assert answer.status_code == status, answer.text
        return answer.json()

    def why(self, id):
        return self.web("GET", f"/v1/route/{id}").json()

    def agent(self, read):
        return self.service.call("shop", read)


@contextmanager
def running(folder, content=None, journal=None, *, clock=None, snapshots=None, keyring=None, token=None):
    """A router of a file with this content, on a journal that other routers may have written."""
    config = config_in(folder, shop() if content is None else content)
    service = Service(MemoryJournal() if journal is None else journal, snapshots, clock=clock or Clock())
    keyring = keyring or Keyring()
    try:
        changes = set_up(config, service, lambda *_: None)
        extension = extension_of(config, service, keyring, folder)
        app = create_app(service, keyring, extension=extension)
        with Web(app, token) as web:
            yield Running(service, changes, extension, web)
    finally:
        service.close()


class Client:
    """Talks to a router on a port of this machine."""

    def __init__(self, url, service):
        self.url, self.service = url, service
        self.http = httpx.Client(base_url=url, trust_env=False, timeout=30)

    def chat(self, text, headers=None, **more):
        messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": text}]
        body = {"model": "auto", "messages": messages} | more
        return self.http.post("/v1/chat/completions", json=body, headers=headers)

    def decisions(self):
        """The arms of all decisions that stand."""
        return self.service.call(
            "shop", lambda session: [made.arm for made in session.agent.decisions.values() if made.state != "labelled"]
        )


@contextmanager
def serving(folder, content, keyring=None, journal=None):
    """A router on a free port, on a journal that other routers may have written."""
    config = config_in(folder, content)
    journal = MemoryJournal() if journal is None else journal
    service, keyring = Service(journal, clock=Clock()), keyring or Keyring()
    try:
        set_up(config, service, lambda *_: None)
        app = create_app(service, keyring, extension=extension_of(config, service, keyring, folder))
        add_page(app, service, keyring)
        listening = socket.create_server(("127.0.0.1", 0))
        server = Server(app, service.limits, lambda: None)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", service)
        try:
            yield client
        finally:
            client.http.close()
            server.stop()
            thread.join()
            listening.close()
    finally:
        service.close()
