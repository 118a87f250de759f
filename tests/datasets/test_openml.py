"""OpenML through scikit-learn's own `fetch_openml`, whose requests go to a server on loopback: complete and failing."""

import hashlib
import json
import socket
import urllib.request

import numpy as np
import pytest
import sklearn.datasets._openml

import taciturn
from download_kit import send
from taciturn.datasets import catalog, openml
from taciturn.datasets.fetch import TIMEOUT
from taciturn.datasets.openml import OPENML
from taciturn.errors import DataUnavailable, InvalidData

pytestmark = pytest.mark.usefixtures("no_waiting")

WORDS = b"""@RELATION credit
@ATTRIBUTE id NUMERIC
@ATTRIBUTE purpose {car,'new furniture'}
@ATTRIBUTE weekday {1,2}
@ATTRIBUTE amount REAL
@ATTRIBUTE class {good,bad}
@DATA
1,car,2,12.5,good
2,'new furniture',1,-3,bad
3,?,1,?,good
"""
PIXELS = b"""@RELATION digits
@ATTRIBUTE p1 INTEGER
@ATTRIBUTE p2 INTEGER
@ATTRIBUTE class {0,1,2}
@DATA
0,255,2
128,7,0
9,9,1
"""


def feature(name, kind, values=(), **roles):
    flags = {flag: str(roles.get(flag, False)).lower() for flag in ("is_target", "is_ignore", "is_row_identifier")}
    nominal = {"nominal_value": list(values)} if values else {}
    return {"name": name, "data_type": kind, "number_of_missing_values": "0", **flags, **nominal}


FEATURES = {
    WORDS: [
        feature("id", "numeric", is_row_identifier=True),
        feature("purpose", "nominal", ["car", "new furniture"]),
        feature("weekday", "nominal", ["1", "2"]),
        feature("amount", "numeric"),
        feature("class", "nominal", ["good", "bad"], is_target=True),
    ],
    PIXELS: [
        feature("p1", "numeric"),
        feature("p2", "numeric"),
        feature("class", "nominal", ["0", "1", "2"], is_target=True),
    ],
}


def publish(server, number, arff, md5=None):
    """Answer as OpenML does for a data set of this number."""
    description = {
        "id": str(number),
        "name": "toy",
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "description": "a toy",
        "file_id": "7",
        "url": "https://www.openml.org/data/v1/download/7/toy.arff",
        "md5_checksum": md5 or hashlib.md5(arff).hexdigest(),  # noqa: S324 - what OpenML publishes
    }
    features = [{"index": str(index), **given} for index, given in enumerate(FEATURES[arff])]
    api = "/api/v1/json/data"
    answers = {
        f"{api}/{number}": {"data_set_description": description},
        f"{api}/features/{number}": {"data_features": {"feature": features}},
        f"{api}/qualities/{number}": {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "3.0"}]}},
    }
    for path, answer in answers.items():
        server.paths[path] = send(json.dumps(answer).encode(), "application/json")
    server.paths["/data/v1/download/7/toy.arff"] = send(arff)


@pytest.fixture
def timeouts(server, monkeypatch):
    """Send scikit-learn's requests to the server on loopback; the timeouts that held while they were made."""
    seen = []
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # urllib keeps what another test has set

    def urlopen(request):
        seen.append(socket.getdefaulttimeout())
        url = request.full_url.replace("https://www.openml.org", server.url)
        return direct.open(urllib.request.Request(url, headers=dict(request.header_items())))  # noqa: S310

    monkeypatch.setattr(sklearn.datasets._openml, "urlopen", urlopen)
    return seen


@pytest.fixture
def openml_server(server, timeouts):  # noqa: ARG001 - the requests go there
    return server


def leftovers(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_words_reach_agents_as_words_and_numbers_as_numbers(openml_server, folder):
    publish(openml_server, 31, WORDS)
    data = taciturn.load_dataset("credit-g")
    assert data.contexts[:] == [
        {"purpose": "car", "weekday": "2", "amount": 12.5},
        {"purpose": "new furniture", "weekday": "1", "amount": -3.0},
        {"purpose": None, "weekday": "1", "amount": None},
    ]
    assert data.features == ["purpose", "weekday", "amount"], "the column that identifies a row is left out"
    assert [data.arms[k] for k in data.y] == ["good", "bad", "good"]
    assert leftovers(folder) == ["cache", "openml-31.npz"]


@pytest.mark.usefixtures("folder")
def test_pixels_reach_agents_as_an_array_and_are_kept_as_bytes(openml_server):
    publish(openml_server, 554, PIXELS)
    data = taciturn.load_dataset("mnist")
    np.testing.assert_array_equal(data.contexts, [[0, 255], [128, 7], [9, 9]])
    assert (data.contexts.dtype, data.arms, data.y.tolist()) == (np.float64, [0, 1, 2], [2, 0, 1])
    with np.load(catalog.local_file("mnist")) as archive:
        assert archive["X"].dtype == np.uint8


@pytest.mark.parametrize("numbers", [[0.5, 1.0], [-1.0, 2.0], [0.0, 256.0], [np.nan, 1.0]])
def test_numbers_that_are_no_bytes_are_kept_as_they_are(numbers):
    X = np.array([numbers])
    np.testing.assert_array_equal(openml._compact(X), X)


def test_it_is_downloaded_only_once_and_found_in_the_given_folder_too(openml_server, folder):
    publish(openml_server, 554, PIXELS)
    assert catalog.local_file("mnist") is None
    first = taciturn.load_dataset("mnist")
    requests = len(openml_server.requested)
    assert taciturn.load_dataset("mnist").fingerprint == first.fingerprint
    (folder / "cache" / "openml-554.npz").rename(folder / "openml-554.npz")
    assert catalog.local_file("mnist") == folder / "openml-554.npz"
    assert taciturn.load_dataset("mnist").source == "openml-554.npz"
    assert len(openml_server.requested) == requests


@pytest.mark.usefixtures("folder")
def test_no_request_waits_for_ever(openml_server, timeouts):
    publish(openml_server, 554, PIXELS)
    before = socket.getdefaulttimeout()
    taciturn.load_dataset("mnist")
    assert timeouts
    assert set(timeouts) == {TIMEOUT}
    assert socket.getdefaulttimeout() == before


def no_connection(server):
    server.shutdown()
    server.server_close()


def wrong_checksum(server):
    publish(server, 554, PIXELS, md5="0" * 32)


def truncated(server):
    publish(server, 554, PIXELS)
    server.paths["/data/v1/download/7/toy.arff"] = send(PIXELS[:60])


def unknown_number(server):
    server.paths["/api/v1/json/data/554"] = lambda handler: handler.send_error(412)


def server_error(server):
    server.paths["/api/v1/json/data/554"] = lambda handler: handler.send_error(500)


def login_page(server):
    server.paths["/api/v1/json/data/554"] = send(b"<html>please log in</html>", "text/html")


def other_json(server):
    server.paths["/api/v1/json/data/554"] = send(b'{"message": "hello"}', "application/json")


def hangs_up(server):
    server.paths["/api/v1/json/data/554"] = lambda handler: handler.wfile.write(b"\0\n")


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (no_connection, "no connection"),
        (wrong_checksum, "the downloaded file does not have the MD5 that OpenML publishes"),
        (truncated, "the downloaded file does not have the MD5 that OpenML publishes"),
        (unknown_number, "Dataset with data_id 554 not found"),
        (server_error, "the server responded 500 Internal Server Error"),
        (login_page, "the response is not one of OpenML"),
        (other_json, "the response is not one of OpenML"),
        (hangs_up, "the download was interrupted"),
    ],
)
def test_a_failure_is_one_line_that_says_what_to_do_and_leaves_no_file(fails, reason, openml_server, folder):
    fails(openml_server)
    with pytest.raises(DataUnavailable) as error:
        taciturn.load_dataset("mnist")
    message = str(error.value)
    assert message.startswith(f"mnist: could not download it (https://www.openml.org/d/554: {reason}")
    target = folder / "cache" / "openml-554.npz"
    advice = f"Fetch it on a machine with a connection, and copy the file to {target}, or set TACITURN_DATA"
    assert advice in message
    assert "\n" not in message
    assert leftovers(folder) == ["cache"]


def test_a_column_without_any_value_is_left_out(folder):
    X = np.array([[0.0, np.nan, np.nan], [1.0, np.nan, np.nan]])
    words = {"words_1": np.array(["a"]), "features": np.array(["amount", "word", "number"])}
    np.savez(folder / "openml-554.npz", X=X, y=np.array(["a", "b"]), **words)
    contexts = taciturn.load_dataset("mnist").contexts
    assert [column.kind for column in contexts.columns] == ["number", "empty", "empty"]
    assert contexts[1] == {"amount": 1.0}


def test_a_damaged_file_and_one_with_other_contents_are_refused(folder):
    np.savez(folder / "openml-554.npz", X=np.eye(2), y=np.array(["a", "b"]))
    with pytest.raises(InvalidData, match="not the file of mnist .*features"):
        taciturn.load_dataset("mnist")
    (folder / "openml-554.npz").write_bytes((folder / "openml-554.npz").read_bytes()[:200])
    with pytest.raises(InvalidData, match="damaged or truncated"):
        taciturn.load_dataset("mnist")


def test_every_number_is_one_data_set():
    numbers = [entry.sources[0].number for entry in OPENML.values()]
    assert len(set(numbers)) == len(numbers)
    assert [entry.home for entry in OPENML.values()] == [f"OpenML {number}" for number in numbers]
