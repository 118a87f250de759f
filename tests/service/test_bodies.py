"""Bodies of requests: their time and memory are bounded, and the event loop goes on while they are decoded."""

import asyncio
import gc
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_kit import MemoryJournal, Web
from taciturn.service.api import bodies, local
from taciturn.service.api.bodies import DECODED_BESIDE, SMALL, Budget, Share, read_body
from taciturn.service.api.local import create_app
from taciturn.service.api.problems import Problem
from taciturn.service.api.readiness import Readiness
from taciturn.service.core.errors import LimitExceeded, Unavailable
from taciturn.service.core.limits import Limits
from taciturn.service.core.service import Service

JSON = {"content-type": "application/json"}
CREATE = {"name": "x", "kind": "linucb", "arms": ["a", "b"]}


@pytest.fixture
def service():
    with_journal = Service(MemoryJournal(), limits=Limits(in_flight=40 * SMALL * bodies.JSON_WEIGHT, file=20_000))
    yield with_journal
    with_journal.close()


@pytest.fixture
def ask(service):
    with Web(create_app(service)) as web:
        yield web


def read(chunks, max_bytes=10**9, share=None, headers=None):
    """The body that arrives in these chunks."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages[-1]["more_body"] = False
    left = iter(messages)

    async def receive():
        return next(left)

    given = {b"content-type": b"application/json"} | (headers or {})
    share = share or Share(Budget(10**12))
    options = {"content_type": "application/json", "max_bytes": max_bytes, "share": share, "weight": 1}
    return asyncio.run(read_body(given, receive, **options))


@given(chunks=st.lists(st.binary(max_size=5), min_size=1), limit=st.integers(0, 60))
def test_body_is_read_whole_or_refused_whatever_its_chunks(chunks, limit):
    """Also a last chunk that exceeds the limit is refused."""
    whole = b"".join(chunks)
    if len(whole) <= limit:
        assert read(chunks, limit) == whole
    else:
        with pytest.raises(Problem) as refused:
            read(chunks, limit)
        assert refused.value.status == 413


def test_each_chunk_is_looked_at_once():
    """The sizes of all chunks used to be added up again for each: 9 seconds for 37 509 bytes."""
    looked_at = 0

    class Chunk(bytes):
        def __len__(self):
            nonlocal looked_at
            looked_at += 1
            return super().__len__()

    assert read([Chunk(b"1")] * 1000) == b"1" * 1000
    assert looked_at <= 2000


def test_announced_length_is_refused_before_anything_is_read():
    with pytest.raises(Problem, match="may have 10 bytes"):
        read([b"1"], 10, headers={b"content-length": b"11"})
    full = Budget(2 * SMALL)
    Share(full).grow(2 * SMALL, 1)
    with pytest.raises(LimitExceeded, match="limit in_flight"):
        read([b"1"], share=Share(full), headers={b"content-length": b"%d" % (2 * SMALL)})


sizes = st.integers(0, 20 * SMALL)


@given(steps=st.lists(st.tuples(st.integers(0, 4), st.none() | sizes), max_size=40), limit=sizes)
def test_shares_of_a_budget_add_up_and_stay_within_its_limit(steps, limit):
    """None gives a share back. One request alone is always let in, and so is every small one."""
    budget = Budget(limit)
    shares = [Share(budget) for _ in range(5)]
    for index, size in steps:
        share = shares[index]
        if size is None:
            share.release()
        else:
            others = budget.taken - share.taken
            fits = size <= max(SMALL, share.taken) or not others or others + size <= limit
            try:
                share.grow(size, 1)
            except LimitExceeded:
                assert not fits
            else:
                assert fits
        assert budget.taken == sum(each.taken for each in shares)
        assert budget.taken <= max(limit, *(each.taken for each in shares))


def test_large_requests_at_once_are_refused_beyond_the_budget_and_small_ones_never(ask):
    """Each large one takes more than a third of the budget while it is processed."""
    assert ask("POST", "/v1/agents", json=CREATE).status_code == 201
    large = ("POST", "/v1/agents/x/decisions", {"content": b'{"context":[1]}' + b" " * (15 * SMALL), "headers": JSON})
    small = ("POST", "/v1/agents/x/decisions", {"json": {"context": [1]}})
    answers = ask.together([large] * 8 + [small] * 8)
    statuses = [answer.status_code for answer in answers]
    assert statuses[8:] == [200] * 8
    assert sorted(statuses[:8]) == [200] * 2 + [429] * 6
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert "in_flight" in refused.json()["detail"]
    assert ask(*large[:2], **large[2]).status_code == 200  # all was given back
    assert "taciturn_in_flight_bytes 0.0" in ask("GET", "/metrics").text


def test_large_bodies_are_decoded_on_another_thread_without_garbage_collection(ask, monkeypatch):
    """Collecting while millions of lists are made holds up every thread for seconds."""
    threads, collecting = [], []

    def decode(body):
        threads.append(threading.current_thread())
        collecting.append(gc.isenabled())
        return local.decode_add_arm(body)

    monkeypatch.setattr(local, "decode_create", decode)
    for size in (0, DECODED_BESIDE):
        ask("POST", "/v1/agents", content=b" " * size + b"{}", headers=JSON)
    small, large = threads
    assert small is threading.main_thread()
    assert large is not threading.main_thread()
    assert (collecting, gc.isenabled()) == ([True, False], True)


def test_a_file_that_could_not_be_imported_again_is_not_exported(ask):
    assert ask("POST", "/v1/agents", json=CREATE).status_code == 201
    file = ask("GET", "/v1/agents/x/file")
    assert file.status_code == 200
    octets = {"content-type": "application/octet-stream"}
    assert ask("POST", "/v1/agents/y/file", content=file.content, headers=octets).status_code == 201
    assert ask("POST", "/v1/agents/x/decisions", json={"context": [1.0] * 100}).status_code == 200
    refused = ask("GET", "/v1/agents/x/file")
    assert (refused.status_code, refused.json()["type"]) == (422, "/docs#problem-export-too-large")
    assert "limit file allows 20000" in refused.json()["detail"]


class Half:
    """A service that is being restored."""

    ready = False
    status = "restoring: 1200 of 20000 entries are replayed"


def test_readiness_says_how_much_is_replayed():
    with pytest.raises(Unavailable, match="restoring: 1200 of 20000 entries are replayed"):
        asyncio.run(Readiness(Half()).check())


def test_readiness_of_a_service_that_hangs_is_refused_in_time_and_comes_back():
    answer = threading.Event()

    class Hanging:
        asked = 0

        @property
        def ready(self):
            self.asked += 1
            return answer.wait(30)

    async def check():
        service = Hanging()
        readiness = Readiness(service, seconds=0.01)
        for _ in range(3):
            with pytest.raises(Unavailable, match="does not say"):
                await readiness.check()
        assert service.asked == 1  # nobody else waits for it
        readiness._seconds = 30
        answer.set()
        await readiness.check()

    asyncio.run(check())
