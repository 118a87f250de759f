"""Embedders for tests: one that another process can import, and an endpoint on loopback."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NOT_A_FUNCTION = 5


def letter_counts(texts):
    """How often each letter is in each text, (n, 26)."""
    return np.array([[text.count(letter) for letter in LETTERS] for text in texts], dtype=float)


class Recorder:
    """`letter_counts` that remembers what it was called with."""

    def __init__(self):
        self.calls = []

    def __call__(self, texts):
        self.calls.append(texts)
        return letter_counts(texts)


class Request:
    """A request to the endpoint."""

    def __init__(self, handler):
        self.path, self.headers = handler.path, handler.headers
        self.body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))

    def items(self):
        """What a right answer holds for its texts."""
        vectors = letter_counts(self.body["input"]).tolist()
        return [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]


def reply(data):
    """The body of a right answer with these items."""
    return json.dumps({"object": "list", "data": data, "usage": {"total_tokens": 3}}).encode()


def right(request):
    return 200, {}, reply(request.items())


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = Request(self)
        self.server.requests.append(request)
        answer = self.server.answers.pop(0) if self.server.answers else right
        status, headers, body = answer(request)
        self.send_response_only(status)  # without a date, so that answers can have their own
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # the client has given up
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def endpoint():
    """A server at `url` that gives its `answers` in turn, then right ones, and remembers all `requests`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests, server.answers = [], []
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
