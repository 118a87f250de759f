"""Chat completions are answered by the upstream of the chosen arm: real HTTP, with a stand-in for the models."""

import asyncio
import gzip
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from openapi_kit import found
from router_kit import Clock, config_in, serving, shop
from service_kit import MemoryJournal, until
from taciturn.router import attempts, upstreams
from taciturn.router.asks import Ask
from taciturn.router.chats import REQUEST_HEADERS, SESSION_HEADERS
from taciturn.router.desk import Desk
from taciturn.router.setup import set_up
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.core.operations import Decide
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key

ANSWER = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"role": "assistant"}}]}


class StandIn:
    """A server of models: it keeps what it was asked, and answers as `behave` says, by the path before /chat."""

    def __init__(self):
        self.asked, self.behave, self.released = [], {}, threading.Event()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                arm = self.path.split("/")[1]
                stand_in.asked.append((arm, self.path, dict(self.headers), json.loads(body)))
                stand_in.behave.get(arm, StandIn.answer)(self)

            def say(self, status, media, body, **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                if media is not None:
                    self.send_header("content-type", media)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def chunk(self, data):
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @staticmethod
    def answer(handler):
        headers = {"set_cookie": "a=b", "x_secret": "internal", "keep_alive": "timeout=5"}
        handler.say(200, "application/json", json.dumps(ANSWER).encode(), **headers)


@pytest.fixture(scope="module")
def stand_in():
    server = StandIn()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def fresh(stand_in, monkeypatch):
    stand_in.asked.clear()
    stand_in.behave.clear()
    for arm in ("refunds", "delivery", "account"):
        monkeypatch.setenv(f"KEY_{arm.upper()}", f"secret-of-{arm}")


def proxied(stand_in, **keys):
    arms = {
        arm: {
            "upstream": {
                "url": f"{stand_in.url}/{arm}/v1",
                "model": f"model-{arm}",
                "api_key_env": f"KEY_{arm.upper()}",
            }
        }
        for arm in ("refunds", "delivery", "account")
    }
    return shop(**{arm: arms[arm] | keys.pop(arm, {}) for arm in arms}, **keys)


@pytest.fixture(scope="module")
def proxy(stand_in, tmp_path_factory):
    """A router that the tests below share."""
    with pytest.MonkeyPatch.context() as patch:
        for arm in ("refunds", "delivery", "account"):
            patch.setenv(f"KEY_{arm.upper()}", "set")
        content = proxied(stand_in, timeout="5s")
        with serving(tmp_path_factory.mktemp("proxy"), content) as client:
            yield client


def test_the_chosen_upstream_answers_and_gets_its_own_key_and_model_only(proxy, stand_in):
    headers = {"authorization": "Bearer of-the-caller", "cookie": "c=d", "x-taciturn-session": "k1", "x-other": "1"}
    answer = proxy.chat("I want my money back", headers, temperature=0.30000000000000004, extra={"b": [1, None]})
    assert answer.status_code == 200
    assert answer.json() == ANSWER
    assert answer.headers["x-taciturn-arm"] == "refunds"
    assert not {"set-cookie", "x-secret", "keep-alive"} & answer.headers.keys()
    ((arm, path, sent, body),) = stand_in.asked
    assert (arm, path) == ("refunds", "/refunds/v1/chat/completions")
    assert sent["authorization"] == "Bearer secret-of-refunds"
    assert not {"cookie", "x-taciturn-session", "x-other"} & {name.lower() for name in sent}
    assert (body["model"], body["temperature"], body["extra"]) == (
        "model-refunds",
        0.30000000000000004,
        {"b": [1, None]},
    )
    assert len(body["messages"]) == 2
    why = proxy.http.get(f"/v1/route/{answer.headers['x-taciturn-decision']}").json()
    assert (why["text"], why["session"], why["state"]) == ("I want my money back", "k1", "pending")
    assert proxy.chat("thanks", {"x-conversation-id": "k1"}).headers["x-taciturn-arm"] == "refunds"
    thumb = proxy.http.post("/v1/feedback", json={"conversationId": "k1", "feedback": {"rating": "thumbsUp"}}).json()
    assert thumb["id"] == int(answer.headers["x-taciturn-decision"])


def test_the_arm_is_chosen_by_the_last_message_of_the_user_in_any_form(proxy):
    parts = [
        {"type": "text", "text": "I forgot"},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": "my password"},
    ]
    assert proxy.chat(parts).headers["x-taciturn-arm"] == "account"
    assert proxy.chat("Where is my parcel? " * 5_000).headers["x-taciturn-arm"] == "delivery"


def test_a_message_asked_about_twice_under_its_id_is_answered_twice(proxy):
    headers = {"x-openwebui-chat-id": "w1", "x-openwebui-message-id": "m1"}
    first = proxy.chat("Where is my parcel?", headers)
    title = proxy.chat("Make a title of this chat", headers)
    assert (first.status_code, title.status_code) == (200, 200)
    rated = {"type": "rating", "data": {"rating": -1}, "meta": {"chat_id": "w1", "message_id": "m1"}}
    thumb = proxy.http.post("/v1/feedback", json=rated).json()
    assert (str(thumb["id"]), thumb["reward"]) == (first.headers["x-taciturn-decision"], 0)
    other = {"x-openwebui-message-id": "m1"}
    assert proxy.chat("I forgot my password", other).headers["x-taciturn-arm"] == "account"


def test_a_stream_is_passed_on_as_it_comes(proxy, stand_in):
    arrived = threading.Event()

    def stream(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream; charset=utf-8")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.chunk(b'data: {"n": 1}\n\n')
        assert arrived.wait(30)  # the second piece is sent only when the first has arrived
        handler.chunk(b"data: [DONE]\n\n")
        handler.chunk(b"")

    stand_in.behave["delivery"] = stream
    body = {"messages": [{"role": "user", "content": "Where is my parcel?"}], "stream": True}
    with proxy.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == b'data: {"n": 1}\n\n'
        arrived.set()
        assert b"".join(pieces) == b"data: [DONE]\n\n"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


def test_an_upstream_is_told_when_the_caller_has_gone(proxy, stand_in):
    gone = threading.Event()

    def endless(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        try:
            while True:
                handler.chunk(b"data: more\n\n" * 100)
        except OSError:
            gone.set()

    stand_in.behave["delivery"] = endless
    body = {"messages": [{"role": "user", "content": "Where is my parcel?"}], "stream": True}
    with proxy.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        next(answer.iter_bytes())
    until(gone.is_set)


def say(status, media="application/json", body=b'{"error": {"message": "no"}}', **headers):
    return lambda handler: handler.say(status, media, body, **headers)


def hang_up(handler):
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


FAILURES = {
    "an error": say(500),
    "overload": say(429),
    "a wrong key": say(401, body=b'{"error": "Incorrect API key provided: secret-of-delivery"}'),
    "no such model": say(404),
    "a page": say(200, "text/html", b"<script>alert(1)</script>"),
    "no type": say(200, None, b"{}"),
    "a redirect": say(307, None, b"", location="/account/v1/chat/completions"),
    "nothing": hang_up,
    "too much": say(200, content_length=str(10**12), body=b""),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_the_next_best_arm_answers_where_an_upstream_fails_and_the_decision_is_withdrawn(proxy, stand_in, failure):
    stand_in.behave["delivery"] = FAILURES[failure]
    before = proxy.decisions()
    answer = proxy.chat("Where is my parcel?", {"x-taciturn-session": failure.replace(" ", "-")})
    assert answer.status_code == 200
    arm = answer.headers["x-taciturn-arm"]
    assert arm in {"refunds", "account"}
    assert [name for name, *_ in stand_in.asked] == ["delivery", arm]
    assert proxy.decisions() == [*before, arm]
    again = proxy.chat("and now?", {"x-taciturn-session": failure.replace(" ", "-")})
    assert again.headers["x-taciturn-arm"] == arm


def test_a_request_that_cannot_be_built_is_a_failure_of_its_upstream(proxy, stand_in, monkeypatch):
    monkeypatch.setenv("KEY_DELIVERY", "käy")
    before = proxy.decisions()
    answer = proxy.chat("Where is my parcel?")
    assert answer.status_code == 200
    assert [name for name, *_ in stand_in.asked] == [answer.headers["x-taciturn-arm"]]
    assert proxy.decisions() == [*before, answer.headers["x-taciturn-arm"]]


def rated(client, chat, message, rating=1):
    """The decision that a thumb in the shape of Open WebUI reaches."""
    thumb = {"type": "rating", "data": {"rating": rating}, "meta": {"chat_id": chat, "message_id": message}}
    answer = client.http.post("/v1/feedback", json=thumb)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_a_retry_and_a_thumb_find_what_was_answered_after_failures(stand_in, tmp_path):
    journal, headers = MemoryJournal(), {"x-openwebui-chat-id": "c1", "x-openwebui-message-id": "m1"}
    stand_in.behave["delivery"] = hang_up
    with serving(tmp_path, proxied(stand_in), journal=journal) as client:
        answer = client.chat("Where is my parcel?", headers)
        assert answer.headers["x-taciturn-arm"] != "delivery"
        made = answer.headers["x-taciturn-decision"]
        assert rated(client, "c1", "m1") == rated(client, None, "m1") == rated(client, "c1", "other") == made
        assert client.chat("Where is my parcel?", headers).headers["x-taciturn-decision"] == made
        assert len(client.decisions()) == 1
    with serving(tmp_path, proxied(stand_in), journal=journal) as client:
        assert rated(client, None, "m1", -1) == made
        assert client.chat("Where is my parcel?", headers).headers["x-taciturn-decision"] == made
        stand_in.behave[answer.headers["x-taciturn-arm"]] = (
            hang_up  # which others have seen, so that its decision stays
        )
        last = client.chat("Where is my parcel?", headers).headers["x-taciturn-decision"]
        assert len(client.decisions()) == 2
        assert rated(client, None, "m1") == last != made


def test_a_thumb_on_a_later_turn_finds_its_decision_also_after_a_failure(proxy, stand_in):
    def ask(text, message):
        headers = {"x-openwebui-chat-id": "c4", "x-openwebui-message-id": message}
        return proxy.chat(text, headers).headers["x-taciturn-decision"]

    first = ask("Where is my parcel?", "c4-1")
    assert ask("And now?", "c4-2") == ask("Make a title of this chat", "c4-2") == rated(proxy, None, "c4-2") == first
    stand_in.behave["delivery"] = hang_up
    moved = ask("And now?", "c4-2")
    assert moved == rated(proxy, None, "c4-2") == ask("And later?", "c4-3") == rated(proxy, None, "c4-3") != first
    assert rated(proxy, "c4", "c4-1") == first


def test_a_message_that_nobody_answered_can_be_asked_about_again(proxy, stand_in):
    headers = {"x-openwebui-chat-id": "c2", "x-openwebui-message-id": "m2"}
    for arm in ("refunds", "delivery", "account"):
        stand_in.behave[arm] = hang_up
    assert proxy.chat("Where is my parcel?", headers).status_code == 502
    thumb = {"message_id": "m2", "rating": "like"}
    assert proxy.http.post("/v1/feedback", json=thumb).status_code == 410
    stand_in.behave.clear()
    made = proxy.chat("Where is my parcel?", headers).headers["x-taciturn-decision"]
    assert rated(proxy, None, "m2") == made


def test_an_id_that_fails_for_ever_is_dropped_in_the_end(proxy, stand_in, monkeypatch):
    monkeypatch.setattr(attempts, "MAX_ATTEMPTS", 2)
    headers = {"x-openwebui-message-id": "m3"}
    stand_in.behave["delivery"] = stand_in.behave["account"] = stand_in.behave["refunds"] = hang_up
    assert proxy.chat("Where is my parcel?", headers).status_code == 502
    stand_in.behave.clear()
    assert proxy.chat("Where is my parcel?", headers).status_code == 200


def test_where_all_fail_the_first_failure_is_told_without_secrets(proxy, stand_in):
    before = proxy.decisions()
    for arm in ("refunds", "delivery", "account"):
        stand_in.behave[arm] = FAILURES["a wrong key"]
    answer = proxy.chat("Where is my parcel?")
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "the upstream of delivery answered 401"
    assert "secret" not in answer.text
    assert len(stand_in.asked) == 3
    assert proxy.decisions() == before


def test_a_refusal_of_the_request_is_passed_on_and_nothing_else_is_tried(proxy, stand_in):
    before = proxy.decisions()
    stand_in.behave["delivery"] = say(400, body=b'{"error": {"message": "max_tokens is too large"}}')
    answer = proxy.chat("Where is my parcel?", max_tokens=10**9)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "max_tokens is too large")
    assert len(stand_in.asked) == 1
    assert proxy.decisions() == before


@pytest.mark.parametrize(
    "refusal",
    [
        {"body": b'{"a": "' + b"x" * 70_000 + b'"}'},
        {"body": gzip.compress(b'{"a": 1}'), "content_encoding": "gzip"},
        {"body": b""},
    ],
    ids=["long", "compressed", "empty"],
)
def test_a_refusal_that_cannot_be_passed_on_keeps_its_status(proxy, stand_in, refusal):
    stand_in.behave["delivery"] = say(422, **refusal)
    answer = proxy.chat("Where is my parcel?")
    assert (answer.status_code, answer.json()) == (422, {})


def test_a_compressed_answer_stays_as_it_is(proxy, stand_in):
    stand_in.behave["delivery"] = say(200, body=gzip.compress(b'{"ok": 1}'), content_encoding="gzip")
    assert proxy.chat("Where is my parcel?").json() == {"ok": 1}


def test_an_answer_without_end_is_cut_off(proxy, stand_in, monkeypatch):
    monkeypatch.setattr(upstreams, "MAX_ANSWER", 10_000)

    def endless(handler):
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        try:
            while True:
                handler.chunk(b" " * 1000)
        except OSError:
            pass

    stand_in.behave["delivery"] = endless
    with pytest.raises(httpx.RemoteProtocolError):
        proxy.chat("Where is my parcel?")


def test_an_answer_that_breaks_off_breaks_off_for_the_caller_with_one_line_in_the_log(proxy, stand_in, caplog):
    def break_off(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.chunk(b"data: begun\n\n")
        hang_up(handler)

    stand_in.behave["delivery"] = break_off
    body = {"messages": [{"role": "user", "content": "Where is my parcel?"}], "stream": True}
    with proxy.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == b"data: begun\n\n"
        with pytest.raises(httpx.RemoteProtocolError):
            next(pieces)
    assert proxy.chat("I forgot my password").status_code == 200  # by now the first request is over
    assert [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("WARNING", "the answer of an upstream broke off (RemoteProtocolError)", None)
    ]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"{}", 422),
        (b"[]", 422),
        (b'{"messages": []}', 422),
        (b'{"messages": [{"role": "assistant", "content": "hi"}]}', 422),
        (b'{"messages": [{"role": "user", "content": null}]}', 422),
        (b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', 422),
        (b'{"messages": "hello"}', 422),
    ],
)
def test_a_wrong_request_reaches_no_upstream(proxy, stand_in, content, status):
    answer = proxy.http.post("/v1/chat/completions", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert not stand_in.asked


def test_other_methods_types_and_sizes_are_refused(proxy):
    assert proxy.http.get("/v1/chat/completions").status_code == 405
    assert proxy.http.post("/v1/chat/completions", content=b"x").status_code == 415
    headers = {"content-type": "application/json", "content-length": "9000000"}
    assert proxy.http.post("/v1/chat/completions", content=b"x" * 9_000_000, headers=headers).status_code == 413


def test_an_upstream_that_takes_too_long_or_is_not_there(stand_in, tmp_path):
    stand_in.behave["delivery"] = lambda _: stand_in.released.wait(20)
    content = proxied(stand_in, timeout=0.3, fallback=False)
    content["arms"]["account"]["upstream"]["url"] = "http://127.0.0.1:9/v1"
    with serving(tmp_path, content) as client:
        answer = client.chat("Where is my parcel?")
        assert (answer.status_code, answer.json()["detail"]) == (
            504,
            "the upstream of delivery did not answer within 0.3 s",
        )
        answer = client.chat("I forgot my password")
        assert (answer.status_code, answer.json()["status"]) == (502, 502)
        assert client.decisions() == []
    stand_in.released.set()


def test_upstreams_that_hang_are_not_waited_for_in_turn(stand_in, tmp_path):
    released = threading.Event()
    for arm in ("refunds", "delivery", "account"):
        stand_in.behave[arm] = lambda _: released.wait(30)
    with serving(tmp_path, proxied(stand_in, timeout=0.5)) as client:
        answer = client.chat("Where is my parcel?")
        released.set()
        assert (answer.status_code, answer.json()["detail"]) == (
            504,
            "the upstream of delivery did not answer within 0.5 s",
        )
        assert len(stand_in.asked) <= 2  # the second has used up the time of the third
        assert client.decisions() == []


def test_an_upstream_that_hangs_has_so_many_requests_and_no_more_and_stops_no_other(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr(upstreams, "MOST_IN_FLIGHT", 2)
    released = threading.Event()

    def hang(handler):
        assert released.wait(30)
        StandIn.answer(handler)

    stand_in.behave["delivery"] = hang
    with serving(tmp_path, proxied(stand_in, timeout=30, fallback=False)) as client, ThreadPoolExecutor(2) as callers:
        held = [callers.submit(client.chat, "Where is my parcel?") for _ in range(2)]
        until(lambda: len(stand_in.asked) == 2)
        assert client.chat("I forgot my password").status_code == 200
        refused = client.chat("Where is my parcel?")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["detail"] == "the upstream of delivery has 2 requests in flight; retry later"
        released.set()
        assert [caller.result(30).status_code for caller in held] == [200, 200]
        for behavior, status in ((StandIn.answer, 200), (say(400), 400), (say(500), 502)):  # none stays counted
            stand_in.behave["delivery"] = behavior
            assert [client.chat("Where is my parcel?").status_code for _ in range(3)] == [status] * 3


def test_the_withdrawals_of_many_failures_let_other_requests_go_between_them(tmp_path):
    """They queued up, and what was asked next waited for all of them."""
    config, service, failed = config_in(tmp_path, shop()), Service(MemoryJournal(), clock=Clock()), 120

    async def share_withdrawn():
        asks = [Ask(f"where is parcel {i}") for i in range(failed)]
        made = await asyncio.gather(*map(desk.route, asks))
        withdrawals = [asyncio.create_task(desk.withdraw(*pair)) for pair in zip(asks, made, strict=True)]
        await asyncio.sleep(0)  # all of them have begun
        await desk.route(Ask("I forgot my password", request_id="r"))  # which asks the agent four times
        done = sum(task.done() for task in withdrawals)
        await asyncio.gather(*withdrawals)
        return done / failed

    with closing(service):
        set_up(config, service, lambda *_: None)
        desk = Desk(config, service, {}, 0)
        assert asyncio.run(share_withdrawn()) < 1
        assert service.call("shop", lambda session: session.health()["withdrawn"]) == failed


def test_the_agent_is_asked_once_for_a_chat(proxy, monkeypatch):
    """Its reasons are not sent, and looking for them would make others wait."""
    asked, call = [], proxy.service.call_async

    def noted(name, what):
        asked.append(type(what))
        return call(name, what)

    monkeypatch.setattr(proxy.service, "call_async", noted)
    assert proxy.chat("Where is my parcel?").status_code == 200
    assert asked == [Decide]


def test_proxies_and_passwords_of_the_environment_are_not_used(stand_in, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password hidden\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    content = proxied(stand_in)
    for arm in content["arms"].values():
        del arm["upstream"]["api_key_env"]
    with serving(tmp_path, content) as client:
        assert client.chat("Where is my parcel?").status_code == 200
    assert "authorization" not in {name.lower() for name in stand_in.asked[0][2]}


def test_in_observe_mode_the_default_arm_answers(stand_in, tmp_path):
    with serving(tmp_path, proxied(stand_in, mode="observe", default="account")) as client:
        answer = client.chat("Where is my parcel?")
        assert (answer.headers["x-taciturn-arm"], answer.headers["x-taciturn-would"]) == ("account", "delivery")
        assert [name for name, *_ in stand_in.asked] == ["account"]


def test_where_only_dear_arms_are_left_the_budget_is_kept(stand_in, tmp_path):
    costs = {"refunds": {"cost": 9}, "delivery": {"cost": 1}, "account": {"cost": 9}}
    with serving(tmp_path, proxied(stand_in, budget={"per_decision": 1}, **costs)) as client:
        assert client.chat("I want my money back").headers["x-taciturn-arm"] == "refunds"  # ahead by one, and no more
        stand_in.behave["delivery"] = say(500)
        answer = client.chat("I want my money back")
        assert (answer.status_code, answer.json()["detail"]) == (502, "the upstream of delivery answered 500")
        assert client.decisions() == ["refunds"]


def test_callers_need_a_key_of_the_service_where_it_has_keys(stand_in, tmp_path):
    keyring = Keyring([Key("w", digest("taciturn_w"), "write")])
    with serving(tmp_path, proxied(stand_in), keyring) as client:
        assert client.chat("Where is my parcel?").status_code == 401
        assert client.chat("Where is my parcel?", {"authorization": "Bearer taciturn_w"}).status_code == 200
        assert stand_in.asked[0][2]["authorization"] == "Bearer secret-of-delivery"


def documented(document, status):
    """What the OpenAPI document says of an answer to a chat."""
    answer = document["paths"]["/v1/chat/completions"]["post"]["responses"][str(status)]
    return found(document, answer["$ref"]) if "$ref" in answer else answer


def test_answers_are_as_the_openapi_document_says(proxy, stand_in):
    document = proxy.http.get("/openapi.json").json()
    chat = document["paths"]["/v1/chat/completions"]["post"]
    assert [parameter["name"] for parameter in chat["parameters"]] == [*SESSION_HEADERS, *REQUEST_HEADERS]
    problem, events = "application/problem+json", "text/event-stream"
    for behavior, body, status, media in (
        (StandIn.answer, {}, 200, "application/json"),
        (say(200, events, b"data: 1"), {}, 200, events),
        (say(400), {}, 400, "application/json"),
        (say(500), {}, 502, problem),
        (StandIn.answer, {"messages": []}, 422, problem),
        (StandIn.answer, {"messages": 1}, 422, problem),
    ):
        stand_in.behave |= dict.fromkeys(("refunds", "delivery", "account"), behavior)
        answer = proxy.chat("Where is my parcel?", **body)
        assert (answer.status_code, answer.headers["content-type"]) == (status, media)
        assert media in documented(document, status)["content"]
        if status == 200:
            told = {name for name in answer.headers if name.startswith("x-taciturn-")}
            assert told | {"x-taciturn-would"} == set(documented(document, 200)["headers"])


def test_a_router_without_upstreams_says_so(tmp_path):
    with serving(tmp_path, shop()) as client:
        answer = client.chat("Where is my parcel?")
        assert (answer.status_code, answer.json()["title"]) == (404, "There is nothing at this path")
        assert documented(client.http.get("/openapi.json").json(), 404)["content"].keys() == {
            "application/problem+json"
        }
