"""The proxy delivers everything, nothing or late, as it is told."""

import socket
import socketserver
import threading
from contextlib import closing, suppress
from queue import SimpleQueue

import pytest

from service.cluster.proxy import Proxy


class Echo:
    """A server that answers what it gets; `received` has all that a connection sent, when it has ended."""

    def __init__(self, path):
        self.path, self.received = path, SimpleQueue()
        received = self.received

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                everything = b""
                with suppress(ConnectionError):  # the other side has gone without reading the answer
                    while content := self.request.recv(100):
                        everything += content
                        self.request.sendall(content)
                received.put(everything)

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def echo(tmp_path):
    with closing(Echo(tmp_path / "socket")) as server:
        yield server


@pytest.fixture
def proxy(echo):
    with closing(Proxy(echo.path)) as proxy:
        yield proxy


def connected(proxy):
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=60)


def ends(line):
    """Whether the other side has ended a connection, without an answer."""
    try:
        return line.recv(100) == b""
    except ConnectionError:
        return True


def test_it_forwards_both_ways(proxy, echo):
    with connected(proxy) as line:
        for content in (b"one", b"two"):
            line.sendall(content)
            assert line.recv(100) == content
    assert echo.received.get(timeout=60) == b"onetwo"


def test_cut_ends_the_connections_that_there_are(proxy, echo):
    with connected(proxy) as line:
        line.sendall(b"one")
        line.recv(100)
        proxy.cut()
        assert ends(line)
    assert echo.received.get(timeout=60) == b"one"
    with connected(proxy) as line:
        line.sendall(b"two")
        assert line.recv(100) == b"two"


def test_it_refuses_until_all_who_wanted_that_accept(proxy, echo):
    proxy.refuse()
    proxy.refuse()
    proxy.accept()
    with connected(proxy) as line:
        assert ends(line)
    proxy.accept()
    with connected(proxy) as line:
        line.sendall(b"two")
        assert line.recv(100) == b"two"
    assert echo.received.get(timeout=60) == b"two", "and nothing before"


def test_what_was_held_is_lost_with_its_connection(proxy, echo):
    with connected(proxy) as line:
        line.sendall(b"one")
        line.recv(100)
        proxy.hold()
        line.sendall(b"two")
        proxy.release(late=False)
        assert ends(line)
    assert echo.received.get(timeout=60) == b"one"


def test_what_was_held_arrives_late_though_its_sender_has_gone(proxy, echo):
    with connected(proxy) as line:
        line.sendall(b"one")
        line.recv(100)
        proxy.hold()
        line.sendall(b"two")
    with connected(proxy) as other:
        other.sendall(b"three")
        proxy.release(late=True)
        assert other.recv(100) == b"three"
    assert {echo.received.get(timeout=60) for _ in range(2)} == {b"onetwo", b"three"}


def test_nothing_is_delivered_before_all_who_hold_have_released(proxy, echo):
    proxy.hold()
    proxy.hold()
    with connected(proxy) as line:
        line.sendall(b"one")
        proxy.release(late=True)
        proxy.cut()
        assert ends(line), "it had not even been connected"
        proxy.release(late=True)
    with connected(proxy) as line:
        line.sendall(b"two")
        assert line.recv(100) == b"two"
    assert echo.received.get(timeout=60) == b"two"
