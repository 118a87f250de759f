"""An endpoint that speaks the protocol of OpenAI, on loopback: right, wrong, slow, huge and unwilling."""

import gzip
import json
import socket
import threading
import traceback

import numpy as np
import pytest

from embed_kit import endpoint, letter_counts, reply, right
from taciturn.errors import EmbeddingFailed, TaciturnError
from taciturn.features import embed_openai
from taciturn.features.embed import embedder, unit_rows

KEY = "sk-very-secret"
TEXTS = ["abc", "", "zebra crossing", "abc"]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Nothing of the machine that runs the tests: no key, no address, no proxy."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "NETRC"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between attempts, which are noted and not made."""
    noted = []
    monkeypatch.setattr(embed_openai.time, "sleep", noted.append)
    return noted


@pytest.fixture
def server(pauses):  # noqa: ARG001 - so that no test waits
    with endpoint() as server:
        yield server


def made(server):
    return embedder(f"openai:letters@{server.url}")


def failure(embeds, texts=TEXTS):
    """The line of the error, without the name of the embedder with which it begins."""
    with pytest.raises(EmbeddingFailed) as failed:
        embeds.embed(texts)
    line = str(failed.value)
    assert "\n" not in line
    assert line.startswith(f"the embedder {embeds.name} failed: ")
    return line.partition(" failed: ")[2]


def answer(status=200, headers=None, body=b""):
    return lambda _: (status, headers or {}, body)


def test_texts_are_posted_as_the_protocol_says_and_come_back_in_order(server):
    server.answers = [lambda request: (200, {}, reply(request.items()[::-1]))]
    rows = made(server).embed(TEXTS)
    np.testing.assert_array_equal(rows, unit_rows(letter_counts(TEXTS)))
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "letters", "input": ["abc", " ", "zebra crossing"]}
    assert request.headers["Content-Type"] == "application/json"


def test_a_request_has_at_most_256_texts(server):
    texts = [chr(97 + i % 26) * (1 + i // 26) for i in range(600)]
    np.testing.assert_array_equal(made(server).embed(texts), unit_rows(letter_counts(texts)))
    assert [len(request.body["input"]) for request in server.requests] == [256, 256, 88]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_endpoint_is_asked_again_later_and_later(server, pauses, status):
    server.answers = [answer(status), answer(status)]
    assert made(server).embed(["abc"]).shape == (1, 26)
    assert pauses == [0.5, 2.0]


def test_three_attempts_are_all(server):
    server.answers = [answer(500)] * 3
    assert failure(made(server)) == "it answered 500"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0"}, 0.5),
        ({"Date": "Mon, 16 Nov 2026 10:00:00 GMT", "Retry-After": "Mon, 16 Nov 2026 10:00:09 GMT"}, 9.0),
        ({"Retry-After": "soon"}, 0.5),
    ],
    ids=str,
)
def test_retry_after_is_honoured(server, pauses, headers, waited):
    server.answers = [answer(429, headers)]
    made(server).embed(["abc"])
    assert pauses == [waited]


def test_an_endpoint_that_asks_for_a_long_pause_is_not_asked_again(server, pauses):
    server.answers = [answer(429, {"Retry-After": "3600"})]
    assert failure(made(server)) == "it answered 429 and asks to wait 3600 s"
    assert (len(server.requests), pauses) == (1, [])


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (400, "it answered 400; a text may be too long for the model"),
        (401, "it answered 401; OPENAI_API_KEY is sent only to the address in OPENAI_BASE_URL"),
        (404, "it answered 404; check the model and the address, which ends in /v1 in most cases"),
        (204, "it answered 204"),
    ],
)
def test_a_refusal_is_final(server, status, says):
    server.answers = [answer(status, body=b"" if status == 204 else KEY.encode())]
    assert failure(made(server)) == says
    assert len(server.requests) == 1


def test_redirects_are_not_followed(server):
    server.answers = [answer(307, {"Location": f"{server.url}/embeddings"})]
    assert failure(made(server)) == "it answered 307; redirects are not followed, give the address where they lead"
    assert len(server.requests) == 1


def changed(change):
    """An answer whose items were changed."""

    def respond(request):
        items = request.items()
        change(items)
        return 200, {}, reply(items)

    return respond


WRONG_FORM = 'its answer is not {"data": [{"index": …, "embedding": [numbers]}, …]}'


@pytest.mark.parametrize(
    ("respond", "says"),
    [
        (changed(lambda items: items.pop()), "its answer has 2 embeddings, not one for each of 3 texts"),
        (changed(lambda items: items.append(items[0])), "its answer has 4 embeddings, not one for each of 3 texts"),
        (changed(lambda items: items[0].update(index=1)), "its answer has 3 embeddings, not one for each of 3 texts"),
        (changed(lambda items: items[0].update(embedding=[float("nan")] * 26)), WRONG_FORM),
        (changed(lambda items: items[0].update(embedding=[None] * 26)), WRONG_FORM),
        (changed(lambda items: items[0].update(embedding="aGVsbG8=")), WRONG_FORM),
        (changed(lambda items: items[0].pop("index")), WRONG_FORM),
        (answer(body=b"<html>Welcome</html>"), WRONG_FORM),
        (answer(body=b""), WRONG_FORM),
        (answer(body=b'{"data": "\xff"}'), WRONG_FORM),
        (answer(body=b'{"more": ' + b"[" * 100_000), WRONG_FORM),
        (answer(body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}), "its answer is compressed, which"),
    ],
)
def test_a_wrong_answer_is_one_line_and_nothing_is_held(server, respond, says):
    server.answers = [respond]
    embeds = made(server)
    assert failure(embeds).startswith(says)
    assert embeds.nbytes == 0
    np.testing.assert_array_equal(embeds.embed(TEXTS), unit_rows(letter_counts(TEXTS)))


@pytest.mark.parametrize(
    "vector", [[1.0], [1e999], [10**400]], ids=["another length", "infinity", "a number beyond all floats"]
)
def test_a_vector_that_is_none_is_refused(server, vector):
    text = json.dumps(vector).replace("Infinity", "1e999")
    server.answers = [answer(body=f'{{"data": [{{"index": 0, "embedding": {text}}}]}}'.encode())]
    embeds = made(server)
    embeds.dimension = 26
    with pytest.raises(EmbeddingFailed, match=f"^the embedder {embeds.name} "):
        embeds.embed(["abc"])


def test_an_answer_that_is_too_large_is_not_read_to_its_end(server):
    endless = b" " * (2 * embed_openai.BYTES_PER_TEXT)
    server.answers = [answer(body=endless, headers={"Content-Length": "1000000000000"})]
    assert failure(made(server), ["abc"]) == f"its answer is larger than {embed_openai.BYTES_PER_TEXT} bytes"


def test_an_answer_that_takes_too_long_is_given_up(server, monkeypatch):
    monkeypatch.setattr(embed_openai, "LONGEST_ANSWER", -1.0)
    assert failure(made(server)) == "its answer takes longer than -1 s"


def test_an_endpoint_that_does_not_answer_is_given_up_after_three_attempts(server, monkeypatch):
    done = threading.Event()
    server.answers = [lambda request: done.wait() and right(request)] * 3
    monkeypatch.setattr(embed_openai, "TIMEOUT", (5.0, 0.05))
    try:
        assert failure(made(server)) == "it does not answer (ReadTimeout)"
    finally:
        done.set()
    assert len(server.requests) == 3


def test_a_connection_that_breaks_off_is_tried_again(server, pauses):
    server.answers = [answer(body=b'{"data": [', headers={"Content-Length": "500"})]
    assert made(server).embed(["abc"]).shape == (1, 26)
    assert len(pauses) == 1


def test_where_nobody_listens_the_error_says_so(pauses):
    with socket.socket() as taken:  # bound, and never listening
        taken.bind(("127.0.0.1", 0))
        embeds = embedder(f"openai:letters@http://127.0.0.1:{taken.getsockname()[1]}/v1")
        assert failure(embeds) == "it does not answer (ConnectionError)"
    assert len(pauses) == 2


def test_the_address_of_the_environment_is_used_and_becomes_part_of_the_name(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    embeds = embedder("openai:letters")
    assert embeds.name == f"openai:letters@{server.url}"
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert embedder("openai:letters").name == "openai:letters@https://api.openai.com/v1"
    assert embedder(embeds.name).embed(["abc"]).tobytes() == embeds.embed(["abc"]).tobytes()


def test_the_key_is_read_at_every_request_and_goes_only_to_the_address_of_the_environment(server, monkeypatch):
    embeds = made(server)
    keys = []
    for i, (address, key) in enumerate([(None, KEY), (server.url, KEY), (server.url + "/", f" {KEY}2\n"), ("", KEY)]):
        monkeypatch.setenv("OPENAI_BASE_URL", address or "http://another.example/v1")
        monkeypatch.setenv("OPENAI_API_KEY", key)
        embeds.embed([f"text {i}"])
        keys.append(server.requests[-1].headers.get("Authorization"))
    assert keys == [None, f"Bearer {KEY}", f"Bearer {KEY}2", None]


def test_passwords_in_netrc_are_not_sent(server, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    made(server).embed(["abc"])
    assert server.requests[0].headers["Authorization"] is None


@pytest.mark.parametrize("key", [KEY, KEY + "\u2028x", KEY + "\nX-Header: 1"], ids=["sent", "not ASCII", "line end"])
def test_the_key_is_never_shown(server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.answers = [answer(401, body=f"wrong key {KEY}".encode())]
    embeds = made(server)
    with pytest.raises(EmbeddingFailed) as failed:
        embeds.embed(["abc"])
    assert failed.value.__context__ is None
    shown = "".join(traceback.format_exception(failed.value)) + repr(embeds) + str(vars(embeds))
    assert KEY not in shown


@pytest.mark.parametrize(
    "name",
    [
        "openai:",
        "openai:@http://127.0.0.1/v1",
        "openai:m m",
        "openai:m@ftp://127.0.0.1/v1",
        "openai:m@http://",
        "openai:m@http://me:secret@127.0.0.1/v1",
        "openai:m@http://secret@127.0.0.1/v1",
        "openai:m@http://127.0.0.1/v1?key=secret",
        "openai:m@http://127.0.0.1/v1#secret",
        "openai:m@http://127.0.0.1:port/v1",
        "openai:m@http://[::1/v1",
        "openai:m@http://127.0.0.1/v1\r\nX: secret",
        "openai:m@http://127.0.0.1/ v1",
    ],
)
def test_a_name_or_address_that_is_not_valid_is_refused_and_not_shown(name):
    with pytest.raises(TaciturnError, match="is not valid; ") as refused:
        embedder(name)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1/v1\nsecret", "127.0.0.1/secret", "http://bücher.example/secret"])
def test_an_address_of_the_environment_that_is_not_valid_is_refused_and_not_shown(monkeypatch, url):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(TaciturnError, match="is not valid; ") as refused:
        embedder("openai:letters")
    assert "secret" not in str(refused.value)


def test_a_model_may_have_an_at_sign():
    embeds = embedder("openai:@cf/baai/bge@1@http://127.0.0.1:8000/v1/")
    assert embeds.name == "openai:@cf/baai/bge@1@http://127.0.0.1:8000/v1"
    assert embedder(embeds.name).name == embeds.name
