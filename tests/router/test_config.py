"""The YAML file of a router: what it can say, and errors of one line that name the line and the key."""

import os
import re
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from router_kit import config_in, shop
from taciturn.errors import TaciturnError
from taciturn.router import yaml_file
from taciturn.router.config import MAX_EXAMPLES, Upstream, read_config

HOME = Path(__file__).parent.parent.parent
MODELS = (HOME / "examples" / "router" / "models.yaml").read_text(encoding="utf-8")
PIECES = (
    st.sampled_from(list("{}[]:-#&*!|>'\"%@`, \t\n0\0é\x85\ufeff"))
    | st.sampled_from(
        [
            "null",
            "- ",
            "\n  ",
            "!!set ",
            "!!binary x",
            "2026-02-30",
            "1e999",
            ".nan",
            "<<: {a: 1}",
            "? ",
            "---\n",
            "\ud800",
            "!!bool ",
            "!!float ",
            '!!int ""',
            "!!timestamp ",
            "1" + "0" * 400,
            "1:30",
            '"a\\nb: c"',
        ]
    )
    | st.text(max_size=5)
)
ARMS = "arms:\n  a: {examples: [one two]}\n  b: {examples: [three]}\n"


def refused(tmp_path, content):
    with pytest.raises(TaciturnError) as error:
        config_in(tmp_path, content)
    message = str(error.value)
    assert "\n" not in message
    return message.replace(str(tmp_path / "router.yaml"), "FILE")


def test_a_small_file_has_defaults_for_all_else(tmp_path):
    config = config_in(tmp_path, ARMS)
    assert [arm.name for arm in config.arms] == ["a", "b"]
    assert config.arms[0].examples == ("one two",)
    assert (config.name, config.observe, config.budget, config.sticky) == ("router", False, None, True)


def test_an_arm_needs_no_examples(tmp_path):
    config = config_in(tmp_path, "arms:\n  a:\n  b: {}\n")
    assert [(arm.name, arm.examples) for arm in config.arms] == [("a", ()), ("b", ())]


def test_a_full_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SMALL_KEY", "secret")
    upstream = {
        "url": "http://127.0.0.1:1/v1/",
        "model": "small",
        "api_key_env": "SMALL_KEY",
        "headers": {"x-team": "a"},
    }
    content = {
        "name": "models",
        "mode": "observe",
        "default": "large",
        "right": "several",
        "arms": {
            "small": {"description": "quick", "cost": 0.1, "upstream": upstream},
            "large": {"cost": 2, "upstream": {"url": "https://example.org/v1/chat/completions"}},
        },
        "budget": {"per_decision": 0.5},
        "session": {"sticky": False, "ttl": "90s"},
        "silence_after": "2d",
        "explore": 0.05,
        "fallback": False,
        "timeout": 5,
    }
    config = config_in(tmp_path, content)
    given = Upstream(url="http://127.0.0.1:1/v1", model="small", api_key_env="SMALL_KEY", headers={"x-team": "a"})
    assert config.upstreams == {"small": given, "large": Upstream(url="https://example.org/v1")}
    assert (config.observe, config.default, config.several_right, config.budget) == (True, "large", True, 0.5)
    assert (config.sticky, config.session_seconds, config.silence_after) == (False, 90.0, 172_800.0)
    assert (config.explore, config.fallback, config.timeout) == (0.05, False, 5.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "FILE: is empty; name the arms of the router: arms: …"),
        ("just words", "FILE, line 1: 'just words' is given; a mapping with name, arms"),
        ("name: x\n", "FILE, line 1: arms is missing; name at least two arms"),
        ("armz: {}\n", "FILE, line 1: armz: there is no such key; did you mean arms?"),
        (
            "arms:\n  a:\n    exmples: [x]\n  b: {}\n",
            "FILE, line 3: arms.a.exmples: there is no such key; did you mean",
        ),
        ("arms:\n  a: {}\n  a: {}\n", "FILE, line 3: arms.a: this key is there twice"),
        ("arms:\n  yes: {}\n  no: {}\n", 'FILE, line 2: arms: the key yes is not text; put it into quotes, as "yes"'),
        ("arms: {a: {}}\n", "there are 1 arms; 2 to 1000 are needed"),
        ("arms: [a, b]\n", "FILE, line 1: arms: a list is given; a mapping from the name of each arm"),
        (
            "arms:\n  a: {examples: [x]}\n  b: {examples: [x]}\n",
            "'x' is an example of a and b; a text belongs to one arm",
        ),
        ("arms:\n  a: {examples: [1]}\n  b: {}\n", "arms.a.examples[0]: 1 is given; text (in quotes"),
        ("arms:\n  a: {examples: ['  ']}\n  b: {}\n", "this text has 0 characters"),
        ("arms:\n  a: {examples: word}\n  b: {}\n", "'word' is given; a list (one item a line"),
        ("arms:\n  a: [x]\n  b: [y]\n", "arms.a: a list is given; a mapping with description, examples"),
        (ARMS + "mode: watch\n", "FILE, line 4: mode: 'watch' is given; route or observe is needed"),
        (ARMS + "mode: observe\n", "mode: observe answers with one arm always: name it, as default: ARM"),
        (ARMS + "default: c\n", "default: there is no arm 'c'; there are a, b"),
        (ARMS + "silence_after: soon\n", "'soon' is given; a duration from 1s to 365d, as 90s, 15m, 6h or 2d"),
        (ARMS + "silence_after: .nan\n", "a duration from 1s"),
        (ARMS + "explore: 2\n", "explore: 2 is given; a number from 0 to 1 is needed"),
        (ARMS + "explore: .inf\n", "a number from 0 to 1 is needed"),
        (ARMS + "name: My Router\n", "'My Router' cannot be a name; small letters, digits"),
        (ARMS + "budget: {per_decision: -1}\n", "budget.per_decision: -1 is given; a number from 0"),
        (ARMS + "budget: {}\n", "per_decision is missing"),
        (
            "arms:\n  a: {cost: 2}\n  b: {cost: 3}\nbudget: {per_decision: 1}\n",
            "no arm costs as little: a, the cheapest",
        ),
        ("arms:\n  a: {upstream: {url: 'http://x'}}\n  b: {}\n", "b has no upstream and others have"),
        ("arms:\n  a: {upstream: {url: 'ftp://x'}}\n  b: {}\n", "this is no address; http://127.0.0.1:8000/v1 is one"),
        ("arms:\n  a: {upstream: {url: 'http://u:p@x/'}}\n  b: {}\n", "this is no address"),
        ("arms:\n  a: {upstream: {model: m}}\n  b: {}\n", "url is missing"),
        ("arms:\n  a: {upstream: {url: 'http://x', headers: {Host: y}}}\n  b: {}\n", "this header cannot be sent"),
        ("a: &x [1]\nb: *x\n", "FILE, line 2: references (*name) are not read; write the value out"),
        ("a: [\n", "FILE, line 2: is not YAML"),
        ("a: b\n---\nc: d\n", "is not YAML"),
        ("a: !!python/object:os.system x\n", "a: there is no such key"),
        (ARMS + f"explore: 1{'0' * 400}\n", "explore: (a whole number of 1329 bits) is given; a number from 0 to 1"),
        (ARMS + f"timeout: 1{'0' * 400}\n", "a duration from 0.1s to 1h"),
        (ARMS + "fallback: !!bool maybe\n", "fallback: 'maybe' is given; true or false is needed"),
        (ARMS + 'explore: !!float ""\n', "explore: '' is given; a number from 0 to 1 is needed"),
        (ARMS + 'explore: !!int ""\n', "explore: '' is given; a number from 0 to 1 is needed"),
        (ARMS + "fallback: !!timestamp foo\n", "fallback: 'foo' is given; true or false is needed"),
        ('arms:\n  "a\\nb: c": {}\n  b: {}\n', "arms.a b: c: the name of an arm is printable text"),
        (ARMS + "timeout: 2h\n", "timeout: '2h' is given; a duration from 0.1s to 1h, as 90s or 15m, is needed"),
        (ARMS + "timeout: 1:30\n", "timeout: '1:30' is given; a duration from 0.1s to 1h, as 90s or 15m, is needed"),
        (ARMS + "explore: 1:0\n", "explore: '1:0' is given; a number from 0 to 1 is needed"),
        (
            "arms:\n  a:\n    examples:\n    - Error: cannot log in\n  b: {}\n",
            "line 4: arms.a.examples[0]: a mapping is given, as a colon made it one; put the text into quotes",
        ),
        ("[" * 50, "nests more than 12 deep"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_says_where(tmp_path, content, said):
    assert said in refused(tmp_path, content)


def test_a_key_given_in_place_of_its_variable_is_not_shown(tmp_path):
    for key in ("sk-123-secret", "sk_123_secret"):
        upstream = f"{{upstream: {{url: 'http://x', api_key_env: {key}}}}}"
        assert "secret" not in refused(tmp_path, f"arms:\n  a: {upstream}\n  b: {upstream}\n")


@pytest.mark.parametrize("key", ["secret-käy", "secret\nkey", "secret\x7fkey", "secret key", "secret\udcff"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(tmp_path, monkeypatch, key):
    monkeypatch.setenv("THE_KEY", key)
    upstream = "{upstream: {url: 'http://x', api_key_env: THE_KEY}}"
    said = refused(tmp_path, f"arms:\n  a: {upstream}\n  b: {upstream}\n")
    assert said.startswith("FILE, line 2: arms.a.upstream.api_key_env: this environment variable holds no key: ")
    assert "secret" not in said


@pytest.mark.parametrize("value", ["käy", "a\\nb", "a\\x7f", " a", "a "])
def test_a_value_that_no_header_can_hold_is_refused(tmp_path, value):
    upstream = f"{{upstream: {{url: 'http://x', headers: {{x-team: \"{value}\"}}}}}}"
    said = refused(tmp_path, f"arms:\n  a: {upstream}\n  b: {upstream}\n")
    assert "line 2: arms.a.upstream.headers.x-team: this value cannot be sent in a header; printable ASCII" in said


def test_numbers_are_read_as_people_write_them(tmp_path):
    config = config_in(tmp_path, "arms:\n  a: {cost: 1e3}\n  b: {cost: +2.5E-1}\nsilence_after: 1e4\ntimeout: 1.5m\n")
    assert config.costs == {"a": 1000.0, "b": 0.25}
    assert (config.silence_after, config.timeout) == (10_000.0, 90.0)


def test_what_has_no_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(TaciturnError, match="is a folder, a pipe or a device; give the YAML file of a router"):
            yaml_file.read_yaml(path)
    sparse = tmp_path / "sparse.yaml"
    sparse.touch()
    os.truncate(sparse, 2**34)
    with pytest.raises(TaciturnError, match="has too many bytes; 2000000 are allowed"):
        yaml_file.read_yaml(sparse)


def test_files_that_are_too_large_or_no_text_are_refused(tmp_path):
    path = tmp_path / "router.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaciturnError, match="is not UTF-8 text"):
        yaml_file.read_yaml(path)
    path.write_bytes(b"#" * (yaml_file.MAX_BYTES + 1))
    with pytest.raises(TaciturnError, match="bytes; 2000000 are allowed"):
        yaml_file.read_yaml(path)
    with pytest.raises(TaciturnError, match="cannot be read"):
        yaml_file.read_yaml(tmp_path / "none.yaml")
    many = {"examples": [f"text {i}" for i in range(MAX_EXAMPLES)]}
    assert "10001 examples in all" in refused(tmp_path, {"arms": {"a": many, "b": {"examples": ["one more"]}}})


def test_an_example_that_is_there_twice_counts_once(tmp_path):
    content = shop(refunds={"examples": ["give it back", "give it back"]})
    assert config_in(tmp_path, content).arms[0].examples == ("give it back",)


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 12), PIECES), min_size=1, max_size=4))
def test_whatever_a_file_holds_it_is_read_or_refused_in_one_line(edits):
    text = MODELS
    for place, length, piece in edits:
        text = text[:place] + piece + text[place + length :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            config = read_config(path)
        except TaciturnError as error:
            assert "\n" not in str(error)
            assert str(error).startswith(str(path))
        else:
            assert len(config.arms) >= 2


WORDS = st.sampled_from(["a", "1e3", "1:30", "''", "'a: b'", "9" * 5_000, ".nan", "~", "yes", '"a\\nb"', "2026-02-30"])
TAGS = st.sampled_from(
    ["", "!!bool ", "!!int ", "!!float ", "!!timestamp ", "!!null ", "!!binary ", "!!str ", "!!set ", "!x "]
)


@given(
    st.tuples(*[st.tuples(TAGS, WORDS).map("".join)] * 3),
    st.sampled_from(["name", "fallback", "explore", "timeout", "mode"]),
)
def test_whatever_tags_a_file_has_it_is_read_or_refused_in_one_line(values, key):
    cost, arm, value = values
    with tempfile.TemporaryDirectory() as folder:
        try:
            config_in(Path(folder), f"arms:\n  ? {arm}\n  : {{cost: {cost}}}\n  b: {{}}\n{key}: {value}\n")
        except TaciturnError as error:
            assert "\n" not in str(error)


def test_the_files_of_the_documentation_and_the_examples_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("EXAMPLE_API_KEY", "set")
    page = (HOME / "docs" / "router.md").read_text(encoding="utf-8")
    whole, upstream = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    config = config_in(tmp_path, whole)
    documented = yaml.safe_load(whole)
    assert (config.budget, config.default) == (0.4, "delivery")
    assert set(documented) == {
        "name",
        "mode",
        "default",
        "right",
        "silence_after",
        "explore",
        "fallback",
        "timeout",
    } | {
        "arms",
        "budget",
        "session",
    }  # every key is there
    config = config_in(tmp_path, f"arms:\n  a:\n{upstream}  b:\n{upstream}")
    assert config.upstreams["a"].headers == {"x-team": "support"}
    for path in (HOME / "examples" / "router").glob("*.yaml"):
        assert read_config(path).arms
