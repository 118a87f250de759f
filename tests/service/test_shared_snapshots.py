"""Snapshots that several processes share, and storage that cannot be reached."""

import socket
import sys

import pytest

from process_kit import answering
from service_kit import MemoryJournal
from snapshot_kit import found
from taciturn.errors import TaciturnError
from taciturn.service.core.operations import Create
from taciturn.service.core.service import Service
from taciturn.service.journal.remote_files import PAUSE_SECONDS, RemoteFiles
from taciturn.service.journal.snapshots import Snapshots, open_snapshots

WRITER = """
import json, sys
from taciturn.service.journal.snapshots import Snapshots, open_snapshots

class Waiting:
    def __init__(self, files):
        self._files = files

    def write(self, name, content):
        if name.endswith(".json"):
            answer("the state is written")
            sys.stdin.readline()
        return self._files.write(name, content)

    def __getattr__(self, name):
        return getattr(self._files, name)

def answer(words):
    print(json.dumps(words), flush=True)

snapshots = open_snapshots(sys.argv[1], history=lambda _: b"")
snapshots._files = Waiting(snapshots._files)
agent, position = json.loads(sys.stdin.readline())
snapshots.put(agent, position, b"by the other process")
answer("done")
"""
shared = pytest.mark.parametrize("place", ["folder", "s3"], indirect=True)


@pytest.fixture
def writer(place):
    """A process that writes a state, waits, and writes its header."""
    with answering(sys.executable, "-c", WRITER, place.url) as ask:
        yield ask


@shared
def test_what_another_process_is_writing_stays(place, writer):
    place.snapshots().put("theirs", 1, b"old")
    assert writer('["theirs", 2]') == "the state is written"
    ours = place.snapshots()
    for position in (5, 6, 7):
        ours.put("ours", position, b"state")
    ours.remove("ours", 6)
    assert found(ours, "theirs") == [(1, b"old")]
    assert writer("go on") == "done"
    assert found(ours, "theirs") == [(2, b"by the other process"), (1, b"old")]
    assert found(ours, "ours") == [(7, b"state")]
    assert len(place.names()) == 6


@shared
def test_a_late_state_of_the_former_owner_replaces_no_newer_one(place, writer):
    assert writer('["agent", 10]') == "the state is written"
    owner = place.snapshots(keep=1)
    owner.put("agent", 20, b"newer")
    assert writer("go on") == "done"
    assert found(owner, "agent") == [(20, b"newer")]
    owner.put("agent", 30, b"newest")
    assert found(owner, "agent") == [(30, b"newest")]
    assert len(place.names()) == 2


@shared
def test_a_state_that_the_new_owner_is_writing_survives_a_late_one_of_the_former(place, writer):
    assert writer('["agent", 20]') == "the state is written"
    former = place.snapshots()
    former.put("agent", 10, b"late")
    assert writer("go on") == "done"
    assert found(former, "agent") == [(20, b"by the other process"), (10, b"late")]


@pytest.fixture
def unreachable(s3, monkeypatch):
    """The URL of a bucket on a port where nobody listens any more."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
    return f"{s3}/unreachable"


def test_service_starts_and_serves_without_its_storage(unreachable, caplog):
    journal = MemoryJournal()
    for agents in (1, 2):
        service = Service(journal, open_snapshots(unreachable, history=lambda _: b""))
        service.call(f"agent-{agents}", Create(name=f"agent-{agents}", kind="linucb", arms=2))
        names = service.names()
        service.close()
        assert len(names) == agents
    assert "there are no snapshots of /agents: s3://" in caplog.text
    assert "cannot be used: Could not connect to the endpoint" in caplog.text
    assert "has failed just now" in caplog.text


def test_storage_that_failed_is_not_asked_for_a_while(unreachable, monkeypatch):
    now = [0.0]
    files = RemoteFiles(unreachable, clock=lambda: now[0])
    with pytest.raises(OSError, match="cannot be used"):
        files.write("state", b"state")
    asked = []
    monkeypatch.setattr(files, "_call", lambda *words, **_: asked.append(words) or [])
    now[0] = PAUSE_SECONDS - 1
    for call in (lambda: files.names("a"), lambda: files.write("state", b"state"), lambda: files.remove("state")):
        with pytest.raises(OSError, match="has failed just now, and is asked again after 30 s"):
            call()
    assert not asked
    now[0] = PAUSE_SECONDS
    assert files.names("a") == []
    assert len(asked) == 1


@pytest.mark.parametrize("call", [lambda files: files.names("a"), lambda files: files.write("state", b"state")])
def test_storage_that_never_answers_is_given_up(s3, monkeypatch, call):
    """A server that does not even allow to send was waited for without end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(OSError, match="cannot be used: no answer for 0.5 s"):
            call(RemoteFiles(f"{s3}/silent", seconds=0.5))


@pytest.mark.usefixtures("s3")
def test_bucket_that_there_is_not():
    snapshots = open_snapshots("s3://no-such-bucket/prefix", history=lambda _: b"")
    assert found(snapshots, "agent") == []
    with pytest.raises(OSError, match="bucket does not exist"):
        snapshots.put("agent", 1, b"state")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "--snapshots names no place; a folder or s3://bucket/prefix is right"),
        ("file://", "--snapshots names no place; a folder or s3://bucket/prefix is right"),
        ("s4://bucket", "--snapshots: Protocol not known: s4; a folder or s3://bucket/prefix is right"),
    ],
)
def test_a_place_that_cannot_be(url, problem):
    with pytest.raises(TaciturnError) as raised:
        open_snapshots(url, history=lambda _: b"")
    assert str(raised.value) == problem


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_folder_by_its_url(tmp_path, prefix):
    open_snapshots(f"{prefix}{tmp_path}/new", history=lambda _: b"").put("agent", 1, b"state")
    assert found(Snapshots(tmp_path / "new"), "agent") == [(1, b"state")]
