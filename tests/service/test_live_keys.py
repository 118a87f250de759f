"""Keys change while the service runs, from another process, and are noticed at once."""

import json
import urllib.error
from contextlib import closing
from queue import SimpleQueue

import pytest

from cli_kit import taciturn
from service.test_commands import ask, serving
from service_kit import Web, until
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key
from taciturn.service.web import add_page

SHOP = Key("shop", digest("taciturn_shop"), "write")
DESK = Key("desk", digest("taciturn_desk"), "read")


def status(address, token=None, host="localhost", web=None):
    if web is not None:
        headers = {"host": host} | ({"authorization": f"Bearer {token}"} if token else {})
        return web("GET", address, headers=headers).status_code
    try:
        ask(address, token=token)
    except urllib.error.HTTPError as error:
        with closing(error):
            return error.code
    return 200


def test_changed_keys_reach_whoever_watches_the_journal(store):
    seen = SimpleQueue()
    with closing(store.open()) as journal, closing(journal.beside()) as other:
        journal.watch(seen.put)
        assert seen.get(timeout=60) == []
        other.put_key(SHOP)
        assert seen.get(timeout=60) == [SHOP]
        other.put_key(DESK)
        assert seen.get(timeout=60) == [DESK, SHOP]
        journal.drop_key("shop")
        assert seen.get(timeout=60) == [DESK]
        assert other.drop_key("shop") is False


def test_keyring_needs_a_key_from_the_first_one_on_and_for_good():
    ring = Keyring()
    assert not ring.required
    ring.replace([SHOP, DESK])
    assert (ring.required, ring.find("taciturn_desk").scope) == (True, "read")
    ring.replace([])
    assert (ring.required, ring.find("taciturn_shop")) == (True, None)


def test_first_key_closes_an_open_service_with_its_page_and_opens_it_to_other_names(store):
    ring = Keyring()
    with closing(store.open()) as journal, closing(Service(journal)) as service:
        app = create_app(service, ring)
        add_page(app, service, ring)
        with Web(app) as web:
            paths = ("/v1/agents", "/web/agents.json")
            assert [status(path, web=web) for path in paths] == [200, 200]
            assert status("/v1/agents", host="taciturn.example", web=web) == 421
            assert "no agent" in web("GET", "/").text.lower()
            ring.replace([SHOP])
            assert [status(path, web=web) for path in paths] == [401, 401]
            assert [status(path, "taciturn_shop", "taciturn.example", web) for path in paths] == [200, 200]
            assert "no agent" not in web("GET", "/").text.lower()
            ring.replace([DESK])
            assert [status(path, "taciturn_shop", web=web) for path in paths] == [401, 401]


def test_keys_are_added_listed_and_dropped_while_the_service_runs(tmp_path):
    with serving(tmp_path) as (process, address):
        agents = f"{address}/v1/agents"
        assert status(agents) == 200
        made = taciturn(tmp_path, "keys", "add", "shop", "--json")
        token = json.loads(made.stdout)["token"]
        until(lambda: status(agents) == 401)
        assert status(agents, token) == 200
        second = json.loads(taciturn(tmp_path, "keys", "add", "desk", "--scope", "read", "--json").stdout)["token"]
        until(lambda: status(agents, second) == 200)
        assert taciturn(tmp_path, "keys", "list").stdout.split() == ["desk", "read", "shop", "write"]
        assert taciturn(tmp_path, "keys", "drop", "shop").stdout == "shop is removed\n"
        until(lambda: status(agents, token) == 401)
        assert (status(agents, second), process.poll()) == (200, None)


def test_listing_or_dropping_keys_of_nothing_creates_nothing(tmp_path):
    assert taciturn(tmp_path, "keys", "list").stdout == "there is no key\n"
    dropped = taciturn(tmp_path, "keys", "drop", "shop")
    message = "taciturn: there is no key 'shop'; taciturn keys list shows them\n"
    assert (dropped.returncode, dropped.stderr) == (2, message)
    assert list(tmp_path.iterdir()) == []


def test_listing_keys_leaves_the_folder_as_it_is(tmp_path):
    assert taciturn(tmp_path, "keys", "add", "shop").returncode == 0
    before = sorted(path.name for path in (tmp_path / "taciturn-data").iterdir())
    assert taciturn(tmp_path, "keys", "list").stdout.split() == ["shop", "write"]
    assert sorted(path.name for path in (tmp_path / "taciturn-data").iterdir()) == before


def test_keys_in_postgres_while_a_journal_is_open_there(server, tmp_path):
    where = ("--postgres", server.address)
    assert taciturn(tmp_path, "keys", "list", *where).stdout == "there is no key\n"
    assert server.tamper("SELECT to_regclass('taciturn_meta')::text") == [(None,)]
    assert taciturn(tmp_path, "keys", "add", "first", *where).returncode == 0  # creates the tables
    seen = SimpleQueue()
    with closing(server.open()) as journal:
        journal.watch(lambda keys: seen.put([key.name for key in keys]))
        assert seen.get(timeout=60) == ["first"]
        assert taciturn(tmp_path, "keys", "add", "shop", *where).returncode == 0
        assert seen.get(timeout=60) == ["first", "shop"]
        assert taciturn(tmp_path, "keys", "drop", "first", *where).stdout == "first is removed\n"
        assert seen.get(timeout=60) == ["shop"]
    assert list(tmp_path.iterdir()) == []


def test_compact_and_backup_commands(tmp_path):
    nothing = taciturn(tmp_path, "compact")
    assert (nothing.returncode, nothing.stderr) == (2, "taciturn: taciturn-data: there is no journal\n")
    with serving(tmp_path) as (process, address):
        for name in ("kept", "also", "gone"):
            ask(f"{address}/v1/agents", "POST", {"name": name, "kind": "linucb", "arms": 2})
            ask(f"{address}/v1/agents/{name}/decisions", "POST", {"context": {f"secret of {name}": 1}})
        ask(f"{address}/v1/agents/gone", "DELETE")
        assert taciturn(tmp_path, "compact").stdout.startswith("the service is running and compacts the journal now")
        until(lambda: b"secret of gone" not in everything(tmp_path))
        process.terminate()
        process.wait(timeout=60)
    assert b"secret of kept" in everything(tmp_path)
    assert taciturn(tmp_path, "compact").stdout == "removed 0 entries of deleted agents\n"
    assert taciturn(tmp_path, "backup", "copy").returncode == 0
    first = (tmp_path / "copy").read_bytes()
    (tmp_path / "copy").write_bytes(b"something else")
    refused = taciturn(tmp_path, "backup", "copy")
    message = "taciturn: copy: there is a file already, which is not overwritten; --force replaces it\n"
    assert (refused.returncode, refused.stderr) == (2, message)
    assert (tmp_path / "copy").read_bytes() == b"something else"
    assert taciturn(tmp_path, "backup", "copy", "--force").stdout == "copy holds the journal up to entry 7\n"
    assert (tmp_path / "copy").read_bytes() == first


def everything(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("words", [("list",), ("add", "shop"), ("drop", "shop")])
def test_keys_of_a_newer_journal_are_left_alone(store, tmp_path, words):
    with closing(store.open()):
        pass
    store.tamper("UPDATE taciturn_meta SET value = 99 WHERE name = 'schema_version'")
    folder = store.address.removesuffix("/journal.db")
    where = ("--data-dir", folder) if store.kind == "sqlite" else ("--postgres", store.address)
    done = taciturn(tmp_path, "keys", *words, *where)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "written by a newer taciturn (schema 99" in done.stderr
