"""What a file from others would take is known before it is read, and old formats are upgraded."""

import hashlib
import json
import tracemalloc

import numpy as np
import pytest

import taciturn
from taciturn.agents import decoding, storage
from taciturn.errors import InvalidData


def file_of(header, arrays=b"", version=storage.FORMAT):
    """The content of a file with any header, given as JSON or text, and a correct checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = b"taciturn" + bytes([version]) + len(text).to_bytes(8, "little") + text + arrays
    return content + hashlib.sha256(content).digest()


def parts_of(content):
    """The header of a file, parsed, and the bytes of its arrays."""
    start = len(storage.MAGIC) + 8
    stop = start + int.from_bytes(content[start - 8 : start], "little")
    return json.loads(content[start:stop]), content[stop:-32]


def refusal(content, **options):
    """The one line that an untrusted file is refused with, and the memory that it took to say so."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidData) as error:
            storage.loads(content, "forged", trusted=False, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("forged: ")
    return str(error.value), peak


def linucb_with(**replaced):
    """A file of a small agent whose encoded state has other values under some keys."""
    header, arrays = parts_of(storage.dumps(taciturn.LinUCB(arms=3)))
    for entry in header["root"]["state"]["dict"]:
        entry[1] = replaced.get(entry[0], entry[1])
    return file_of(header, arrays)


@pytest.mark.parametrize("key", ["arm_names", "intake", "deferred"])
@pytest.mark.parametrize("length", [10**7, 10**10, 10**30])
@pytest.mark.parametrize("step", [1, -1, 3])
def test_a_range_of_billions_is_refused_before_it_is_gone_through(key, length, step):
    limits = [0, length * step, step] if step > 0 else [length, 0, step]
    message, peak = refusal(linucb_with(**{key: {"range": limits}}))
    assert "a range of" in message
    assert peak < 1_000_000


def test_many_ranges_count_together():
    many = {"list": [{"range": [0, 100_000, 1]}] * 6}
    assert "a range of" in refusal(linucb_with(deferred=many))[0]
    assert "a range of" not in refusal(linucb_with(arm_names={"list": [{"range": [0, 0, 1]}] * 100}))[0]


def test_an_array_that_is_named_again_and_again_is_copied_once():
    array = np.zeros(500_000)
    root = {"list": [{"array": 0}] * 2000}
    content = file_of({"root": root, "arrays": [["<f8", [len(array)], 0]]}, array.tobytes())
    message, peak = refusal(content)
    assert "array 0 is named twice" in message
    assert peak < 3 * len(content)


def test_arrays_that_lie_over_one_another_are_refused():
    array = np.zeros(1000)
    layout = [["<f8", [1000], 0]] * 2000
    content = file_of({"root": {"list": [{"array": i} for i in range(2000)]}, "arrays": layout}, array.tobytes())
    message, peak = refusal(content)
    assert "an array at 0, where 8000 is next" in message
    assert peak < 3_000_000


@pytest.mark.parametrize("text", [b"[" * 60_000_000, b"[" + b"[]," * 20_000_000 + b"[]]"], ids=["deep", "wide"])
def test_sixty_megabytes_of_brackets_are_refused_before_they_are_parsed(text):
    message, peak = refusal(file_of(text))
    assert "a header of" in message
    assert peak < 1_000_000  # not even copied


@pytest.mark.parametrize("unit", [b"[],", b"{},", b"0,", b'"",', b"[[[[[[],"])
def test_a_header_of_many_small_values_is_refused_before_they_are_parsed(unit):
    text = b"[" + unit * (decoding.MAX_VALUES + 1) + b"0]"
    message, peak = refusal(file_of(text))
    assert f"values; {decoding.MAX_VALUES} are allowed" in message
    assert peak < 2 * len(text)


@pytest.mark.parametrize("tag", ["list", "tuple", "dict"])
def test_values_that_nest_deeply_are_refused(tag):
    value = 0
    for _ in range(decoding.MAX_DEPTH + 1):
        value = {tag: [["key", value]] if tag == "dict" else [value]}
    assert "deep" in refusal(linucb_with(deferred=value))[0]


@pytest.mark.parametrize(
    "entry",
    [
        ["<U1000000000", [1], 0],
        ["<U1000000000", [2**62], 0],
        ["<U0", [10**12], 0],
        ["<f8", [2**32, 2**32], 0],  # 0 in 64 bits
        ["<f8", [2**61], 0],
        ["<f8", [2**61, 8], 0],
        ["<f8", [10**30], 0],
        ["<f8", [1.0], 0],
        ["<f8", [True], 0],
        ["<f8", ["1"], 0],
        ["<f8", [1], False],
        ["<f8", [1], 0.0],
        [">f8", [1], 0],
        ["<M8[s]", [1], 0],
        ["|V8", [1], 0],
        ["(1000000000,)<f8", [1], 0],
        ["<f8,<f8", [1], 0],
        ["O", [1], 0],
        [{"names": ["a"], "formats": ["<f8"]}, [1], 0],
    ],
    ids=json.dumps,
)
def test_an_array_that_the_file_is_too_short_for_or_of_no_allowed_type_is_refused(entry):
    message, peak = refusal(file_of({"root": {"array": 0}, "arrays": [entry]}, bytes(8)))
    assert peak < 1_000_000
    assert "holds no agent" not in message  # it was refused for the array


def test_text_that_is_no_letters_is_refused():
    codes = np.array([0x110000, 0xD800], np.uint32)
    for code in codes:
        content = file_of({"root": {"array": 0}, "arrays": [["<U1", [1], 0]]}, code.tobytes())
        assert "text of no letters" in refusal(content)[0]


def test_floats_and_constants_of_json_are_refused():
    for text in (b"1.5", b"NaN", b"-Infinity", b"1e999", b"9" * 5000):
        refusal(file_of(b'{"root": {"list": [' + text + b']}, "arrays": []}'))


def test_a_trusted_file_may_say_as_much_as_it_likes():
    agent = taciturn.LinUCB(arms=3)
    agent.decide({f"feature {i}": float(i == 0) for i in range(3)})
    header, arrays = parts_of(storage.dumps(agent))
    header["padding"] = [0] * (decoding.MAX_VALUES + 1)
    content = file_of(header, arrays)
    assert storage.loads(content, "mine").feature_names == agent.feature_names
    refusal(content)


# Content in memory.


def test_dumps_and_loads_are_save_and_load_without_a_file(tmp_path):
    agent = taciturn.ViewUCB(arms=["a", "b"])
    for i in range(4):
        agent.feedback(agent.decide(np.eye(4)[i]).id, i % 2)
    agent.save(tmp_path / "agent")
    content = storage.dumps(agent)
    assert content == (tmp_path / "agent").read_bytes()
    loaded = storage.loads(content, "agent", trusted=False)
    assert storage.dumps(loaded) == content


def test_a_service_exports_and_imports_without_a_temporary_folder(monkeypatch):
    import tempfile

    from taciturn.service.core.operations import Import
    from taciturn.service.core.session import Session

    def full(*_, **__):
        raise FileNotFoundError("no usable temporary directory found")

    for name in ("mkdtemp", "mkstemp", "gettempdir", "TemporaryDirectory", "NamedTemporaryFile"):
        monkeypatch.setattr(tempfile, name, full)
    agent = taciturn.LinUCB(arms=["a", "b"])
    decision = agent.decide([1.0, 2.0])
    session = Session()
    session.apply(Import(bytes(Session(agent, kind="linucb").export()), 100, 1e9))
    session.agent.feedback(decision.id, 1)
    assert session.agent.health().rewarded == 1


# Older formats.


@pytest.fixture
def next_format(monkeypatch):
    """Let the library be of the format after this one, whose agents' arms go under another key."""

    def upgrade(header):
        entries = header["root"]["state"]["dict"]
        renamed = [["arms_of_format_4" if key == "arm_names" else key, value] for key, value in entries]
        return {**header, "root": {**header["root"], "state": {"dict": renamed}}}

    restore = taciturn.LinUCB.from_state_dict

    def from_state_dict(state):
        state = dict(state)
        return restore({**state, "arm_names": state.pop("arms_of_format_4")})

    monkeypatch.setattr(storage, "UPGRADES", {storage.FORMAT: upgrade})
    monkeypatch.setattr(storage, "FORMAT", storage.FORMAT + 1)
    monkeypatch.setattr(taciturn.LinUCB, "from_state_dict", from_state_dict)


def test_a_file_of_the_format_before_is_upgraded(request):
    agent = taciturn.LinUCB(arms=["a", "b"])
    agent.decide([1.0, 2.0])
    content = storage.dumps(agent)
    request.getfixturevalue("next_format")
    loaded = storage.loads(content, "old", trusted=False)
    assert loaded.arm_names == ("a", "b")
    assert loaded.next_id == 1
    oldest, newest = storage.FORMAT - 1, storage.FORMAT
    for version in (oldest - 1, newest + 1):
        message = (
            f"has format {version:02x} of another version of taciturn; this one reads {oldest:02x} to {newest:02x}"
        )
        with pytest.raises(InvalidData, match=message):
            storage.loads(file_of(*parts_of(content), version=version), "another")


def test_an_upgrade_that_fails_is_one_line(monkeypatch):
    content = storage.dumps(taciturn.LinUCB(arms=2))
    monkeypatch.setattr(storage, "UPGRADES", {storage.FORMAT: lambda header: header["not there"]})
    monkeypatch.setattr(storage, "FORMAT", storage.FORMAT + 1)
    with pytest.raises(InvalidData, match="old: not written by this version of taciturn"):
        storage.loads(content, "old")
