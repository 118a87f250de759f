"""The server's own parts: open files, sockets, signals and the line that says what the service is doing."""

import logging
import os
import resource
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taciturn.errors import TaciturnError
from taciturn.service import server
from taciturn.service.prepare import BLAS_VARIABLES
from taciturn.service.run import _StatusLine
from taciturn.service.server import RESERVED_FILES, StopSignals, allowed_connections, listen

files = st.integers(1, 5000) | st.just(resource.RLIM_INFINITY)


@given(wanted=st.integers(1, 3000), soft=files, hard=files)
def test_connections_fit_into_the_limit_on_open_files(wanted, soft, hard):
    if hard != resource.RLIM_INFINITY:
        soft = hard if soft == resource.RLIM_INFINITY else min(soft, hard)
    limits = [soft, hard]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.resource, "getrlimit", lambda _: tuple(limits))
        patch.setattr(server.resource, "setrlimit", lambda _, given: limits.__setitem__(slice(None), given))
        try:
            allowed = allowed_connections(wanted)
        except TaciturnError:
            assert 0 <= hard <= RESERVED_FILES
            return
    assert limits[1] == hard
    assert 1 <= allowed <= wanted
    assert limits[0] == resource.RLIM_INFINITY or allowed + RESERVED_FILES <= limits[0]
    if allowed < wanted:
        assert limits[0] == hard  # no more could be had


def test_all_addresses_of_a_host_share_one_port():
    sockets = listen("localhost", 0)
    assert len({each.getsockname()[1] for each in sockets}) == 1
    for each in sockets:
        with closing(each), closing(socket.socket(each.family)) as client:
            client.connect(each.getsockname())


def test_an_unknown_host_is_one_line():
    with pytest.raises(TaciturnError, match="cannot listen on nowhere.invalid, port 0: "):
        listen("nowhere.invalid", 0)


def test_the_first_signal_stops_and_handlers_are_restored(monkeypatch):
    stopped, ended = [], []
    monkeypatch.setattr(server.os, "_exit", ended.append)
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        signals.stop = lambda: stopped.append(True)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stopped, ended) == ([True], [])
        os.kill(os.getpid(), signal.SIGINT)
        assert ended[0] == 128 + signal.SIGINT
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(SystemExit) as left, StopSignals():
        os.kill(os.getpid(), signal.SIGTERM)  # before anything is served
    assert left.value.code == 0


RESTORING = "restoring: 1 of 9 entries are replayed"


def test_what_the_service_does_is_logged_once_for_each_change(caplog):
    class Service:
        status = "compiling"

    service = Service()
    line = _StatusLine(service)
    with caplog.at_level(logging.INFO, "taciturn.service"):
        for status in ("compiling", "compiling", RESTORING, RESTORING.replace("1", "2"), "ready", "ready"):
            service.status = status
            line.log_change()
    assert caplog.messages == ["compiling", RESTORING, "ready"]


PREPARED = """
from threadpoolctl import threadpool_info
from taciturn.service.prepare import prepare

prepare()
print({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
"""


@pytest.mark.parametrize(("told", "threads"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}, 2)])
def test_service_gives_linear_algebra_one_thread_unless_told_otherwise(told, threads):
    environment = {name: value for name, value in os.environ.items() if name not in BLAS_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", PREPARED], env=environment | told, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{{{min(threads, os.cpu_count())}}}"
