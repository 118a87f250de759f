"""What strangers and broken clients can do to a running service: nothing that others notice."""

import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from taciturn.service.api.connections import MAX_PIPELINED

JSON = {"content-type": "application/json"}
PAGE = os.sysconf("SC_PAGE_SIZE")


class Running:
    """A service in a process of its own."""

    def __init__(self, process, port):
        self.process, self.port = process, port

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def ask(self, method, path, body=None, headers=JSON):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as line:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            return answer.status, answer.read()

    def resident(self):
        """Megabytes of memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE / 1e6

    def files(self):
        """Number of open files and sockets."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))  # noqa: PTH208 - only counted

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)


def command(*words):
    return [sys.executable, "-m", "taciturn", "serve", "--port", "0", *map(str, words)]


@contextmanager
def serving(folder, *words):
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(command(*words), cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            line = process.stdout.readline()
            found = re.search(r":(\d+)/", line)
            assert found, (folder / "log").read_text()
            yield Running(process, int(found[1]))
        finally:
            process.kill()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service with the default limits, for all attacks that must leave it as it was."""
    with serving(tmp_path_factory.mktemp("attacked")) as service:
        yield service


def log_lines(folder):
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def is_open(port, other):
    """Whether a process has the connection from one port of this machine to another open, as the system says."""
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, here, there, *_, inode = row.split()[:10]
        if (int(here.split(":")[1], 16), int(there.split(":")[1], 16)) == (port, other):
            return inode != "0"
    return False


def answer_of(line):
    """All that a connection receives until the server closes it; a reset ends it too."""
    parts = []
    try:
        while part := line.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def send_and_receive(line, data):
    """The answer to a request, which may come before all of it is sent."""
    with suppress(BrokenPipeError, ConnectionResetError):
        line.sendall(data)
    return answer_of(line)


def send_until_closed(line, data, times):
    """Send data again and again; returns how many bytes the server took before it closed the connection."""
    sent = 0
    try:
        for _ in range(times):
            sent += line.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent


@pytest.mark.parametrize(
    ("head", "more"),
    [
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ", b"a" * 8000),
        (b"GET /", b"a" * 8000),
        (b"GET / HTTP/1.1\r\n", b"x-a: b\r\n" * 1000),
    ],
    ids=["value", "path", "many"],
)
def test_headers_without_end_are_refused(running, head, more):
    with closing(running.connect()) as line:
        before = running.resident()
        line.sendall(head)
        sent = send_until_closed(line, more, 5000)
        assert sent < 20_000_000  # what the buffers of both sides hold
        assert running.resident() < before + 30
        assert running.ask("GET", "/healthz")[0] == 200


def test_headers_of_the_allowed_size_are_taken_and_larger_ones_answered_431(tmp_path):
    with serving(tmp_path, "--limit", "headers=20000") as service:
        for size, status in ((19_000, b"200"), (21_000, b"431")):
            with closing(service.connect()) as line:
                head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: "
                line.sendall(head + b"a" * size + b"\r\n\r\n")
                assert answer_of(line).startswith(b"HTTP/1.1 " + status)


def test_half_open_requests_leave_others_served(running):
    """More than there may be connections: without a request, without the end of its headers, and of its body."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    starts = (
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
        b"",
    )
    with ExitStack() as stack:
        for number in range(1100):
            line = stack.enter_context(closing(running.connect()))
            line.sendall(starts[number % 3])
        for _ in range(5):
            assert running.ask("GET", "/healthz")[0] == 200
        assert running.ask("POST", "/v1/agents", json.dumps({"name": "x", "kind": "linucb", "arms": 2}))[0] == 201
        assert running.files() < 1050


def test_slow_headers_and_connections_without_a_request_are_closed(tmp_path):
    with (
        serving(tmp_path, "--limit", "header_seconds=0.2") as service,
        closing(service.connect()) as silent,
        closing(service.connect()) as slow,
        closing(service.connect()) as late,
    ):
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")
        refused = b"PATCH /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n"
        late.sendall(refused)  # answered before its body is there, which then never comes
        assert answer_of(silent) == answer_of(slow) == b""
        assert answer_of(late).startswith(b"HTTP/1.1 405")


def test_client_that_does_not_read_its_answer_is_dropped(tmp_path):
    """An answer larger than the buffers of both sides; its connection is closed after the time of a request."""
    with serving(tmp_path, "--limit", "seconds=2") as service, closing(socket.socket()) as line:
        service.ask("POST", "/v1/agents", json.dumps({"name": "x", "kind": "linucb", "arms": 20}))
        assert service.ask("POST", "/v1/agents/x/decisions", json.dumps({"context": [1.0] * 300}))[0] == 200
        assert len(service.ask("GET", "/v1/agents/x/file")[1]) > 10_000_000
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", service.port))
        line.sendall(b"GET /v1/agents/x/file HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert line.recv(1) == b"H"
        ends = service.port, line.getsockname()[1]
        assert is_open(*ends)
        until = time.monotonic() + 60
        while is_open(*ends):  # what was not read stays with the system, not with the service
            assert time.monotonic() < until
            assert service.ask("GET", "/healthz")[0] == 200


def test_requests_sent_ahead_are_bounded(running):
    with closing(running.connect()) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * (3 * MAX_PIPELINED))
        assert b"HTTP/1.1 429" in answer_of(line)
        assert running.ask("GET", "/healthz")[0] == 200


def test_many_large_requests_at_once_take_bounded_memory_and_leave_others_served(tmp_path):
    """24 of them used to take 4 GB: numbers of two bytes, which become 32 bytes each."""
    body = b'{"contexts":[[' + b"0," * 1_999_990 + b"0]]}"
    head = b"POST /v1/agents/x/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    with serving(tmp_path, "--limit", "in_flight=200000000") as service, ExitStack() as stack:
        service.ask("POST", "/v1/agents", json.dumps({"name": "x", "kind": "linucb", "arms": 2}))
        before, peak = service.resident(), 0.0
        with ThreadPoolExecutor(25) as pool:
            lines = [stack.enter_context(closing(service.connect(120))) for _ in range(24)]
            sent = [pool.submit(send_and_receive, line, head + body) for line in lines]
            while not all(one.done() for one in sent):
                assert service.ask("GET", "/healthz")[0] == 200
                peak = max(peak, service.resident())
        statuses = {one.result()[9:12] for one in sent}
        assert statuses <= {b"422", b"429"}
        assert b"429" in statuses
        assert peak < before + 450


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_writes_snapshots_and_exits_with_0(tmp_path, number):
    with serving(tmp_path) as service:
        service.ask("POST", "/v1/agents", json.dumps({"name": "x", "kind": "linucb", "arms": 2}))
        service.ask("POST", "/v1/agents/x/decisions", json.dumps({"context": [1.0]}))
        assert service.stop(number) == 0
    headers = [json.loads(file.read_text()) for file in (tmp_path / "taciturn-data" / "snapshots").glob("*.json")]
    assert ("x", 2) in [(header["agent"], header["position"]) for header in headers]
    assert not [line for line in log_lines(tmp_path) if line["level"] not in {"info", "debug"}]


def test_a_second_signal_ends_at_once(tmp_path):
    with serving(tmp_path) as service, closing(service.connect()) as line:
        head = b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        line.sendall(head + b"content-length: 9\r\n\r\n{")  # a request in progress, for which the first signal waits
        assert service.ask("GET", "/healthz")[0] == 200
        service.process.send_signal(signal.SIGTERM)
        while True:  # until it no longer accepts connections: it has taken the first signal
            try:
                service.connect(1).close()
            except OSError:
                break
        began = time.monotonic()
        assert service.stop() == 128 + signal.SIGTERM
        assert time.monotonic() - began < 10  # the request would have had 30 seconds


def test_a_taken_port_is_one_line(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        words = [*command("--log-level", "debug"), "--port", str(port)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    reason = "Address already in use; --port 0 takes any free port"
    assert done.stderr == f"taciturn: cannot listen on 127.0.0.1, port {port}: {reason}\n"


def test_debug_logs_only_our_own_lines(tmp_path):
    with serving(tmp_path, "--log-level", "debug") as service:
        create = {"name": "x", "kind": "viewucb", "arms": 2, "params": {"neighbors": 2}}
        assert service.ask("POST", "/v1/agents", json.dumps(create))[0] == 201
        for _ in range(5):
            assert service.ask("POST", "/v1/agents/x/decisions", json.dumps({"context": [1.0, 2.0]}))[0] == 200
        assert service.stop() == 0
    lines = log_lines(tmp_path)
    assert all(line["logger"].startswith("taciturn") for line in lines)
    assert [line["status"] for line in lines if line["logger"] == "taciturn.access"] == [201] + [200] * 5
    assert len(lines) < 30
