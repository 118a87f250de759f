"""A YAML file whose errors say which line and which key they are about."""

import difflib
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import yaml

from taciturn.errors import TaciturnError
from taciturn.validate import shown

MAX_BYTES = 2_000_000
"""The largest file that is read."""

MAX_DEPTH = 12
"""How deep a file may nest."""

DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
"""Numbers as people write them: YAML takes 1e3 for text."""

UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
"""Seconds of the units of a duration, longest first."""

DURATIONS = ("90s", "15m", "6h", "2d")
"""Examples of durations."""

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Value:
    """A value of the file with its place; what is asked of it and is not there is an error that names the place.

    Arguments:
        node: what the parser made of it.
        file: the name of the file.
        path: the keys that lead to it, as "arms.refunds.cost"; empty for the whole file.
    """

    def __init__(self, node: yaml.Node, file: str, path: str = "") -> None:
        self._node, self._file, self.path = node, file, path

    def error(self, problem: str) -> TaciturnError:
        """The error for this value."""
        where = f" {self.path}:" if self.path else ""
        message = f"{self._file}, line {self._node.start_mark.line + 1}:{where} {problem}"
        return TaciturnError("".join(c if c.isprintable() else " " for c in message))  # a key can have a line end

    def _child(self, node: yaml.Node, key: str) -> Self:
        return type(self)(node, self._file, f"{self.path}.{key}" if self.path else key)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing stands behind the key."""
        return _plain(self._node) is None

    def items(self, *, what: str = "a mapping of names") -> Iterator[tuple[str, Self]]:
        """The keys of a mapping, which are text and different, with their values."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self._is_not(what)
        seen = set()
        for key_node, node in self._node.value:
            key = _plain(key_node)
            if not isinstance(key, str) or not key.strip():
                shown_key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
                place = type(self)(key_node, self._file, self.path)
                raise place.error(f'the key {shown_key} is not text; put it into quotes, as "{shown_key}"')
            if key in seen:
                raise self._child(key_node, key).error("this key is there twice; remove one of them")
            seen.add(key)
            yield key, self._child(node, key)

    def keys(self, *allowed: str) -> dict[str, Self]:
        """The values of a mapping that has no other keys than these; null counts as absent."""
        found = {}
        for key, value in self.items(what=f"a mapping with {', '.join(allowed)}"):
            if key not in allowed:
                near = difflib.get_close_matches(key, allowed, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(allowed)}"
                raise value.error(f"there is no such key; {hint}")
            if not value.is_nothing:
                found[key] = value
        return found

    def list(self, most: int) -> list[Self]:
        """The items of a list of at most so many."""
        if not isinstance(self._node, yaml.SequenceNode):
            raise self._is_not("a list (one item a line, each after a dash)")
        if len(self._node.value) > most:
            raise self.error(f"there are {len(self._node.value)} items; {most} are allowed")
        return [type(self)(node, self._file, f"{self.path}[{i}]") for i, node in enumerate(self._node.value)]

    def text(self, most: int) -> str:
        """Text of at most so many characters, and not only spaces."""
        value = _plain(self._node)
        if isinstance(self._node, yaml.MappingNode) and self._node.value:
            raise self.error("a mapping is given, as a colon made it one; put the text into quotes if it is text")
        if not isinstance(value, str):
            raise self._is_not("text (in quotes, if it looks like something else)")
        if not value.strip() or len(value) > most:
            raise self.error(f"this text has {len(value.strip())} characters; 1 to {most} are allowed")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.error("this text has half a character; remove it") from None
        return value

    def number(self, least: float, most: float) -> float:
        """A number from `least` to `most`."""
        value = _number(_plain(self._node))
        if value is None or not least <= value <= most:
            raise self._is_not(f"a number from {least:g} to {most:g}")
        return float(value)

    def truth(self) -> bool:
        """True or false."""
        value = _plain(self._node)
        if not isinstance(value, bool):
            raise self._is_not("true or false")
        return value

    def choice(self, *choices: str) -> str:
        """One of some words."""
        value = _plain(self._node)
        if value not in choices or not isinstance(value, str):
            raise self._is_not(" or ".join(choices))
        return value

    def seconds(self, least: float, most: float) -> float:
        """A duration in seconds: a number of them, or 90s, 15m, 6h, 2d."""
        number = _seconds(_plain(self._node))
        if number is None or not least <= number <= most:
            *others, last = (example for example in DURATIONS if (_seconds(example) or 0.0) <= most)
            examples = f"{', '.join(others)} or {last}"
            raise self._is_not(f"a duration from {_duration(least)} to {_duration(most)}, as {examples},")
        return float(number)

    def _is_not(self, wanted: str) -> TaciturnError:
        value = _plain(self._node)
        given = {"list": "a list", "dict": "a mapping", "NoneType": "nothing"}.get(type(value).__name__, shown(value))
        return self.error(f"{given} is given; {wanted} is needed")


def _plain(node: yaml.Node) -> Any:
    """The plain value of a node, as `yaml.safe_load` makes it; of a list or mapping only its kind.

    Text stays text where its tag does not fit it, and where YAML would take it for a number to the base of 60: 1:30.
    """
    if isinstance(node, yaml.SequenceNode):
        return []
    if isinstance(node, yaml.MappingNode):
        return {}
    constructor: Any = yaml.constructor.SafeConstructor()
    try:
        value = constructor.construct_object(node)
    except Exception:  # noqa: BLE001 - a tag of its own, !!int "", the 31st of February: each raises another error
        return node.value
    return node.value if isinstance(value, int | float) and ":" in node.value else value


def _number(value: Any) -> float | None:
    """The number that a plain value is or says; None for none."""
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _seconds(value: Any) -> float | None:
    """The seconds of a duration, as 90, "90s" or "1.5m"; None for none."""
    if not isinstance(value, str) or value[-1:] not in UNITS:
        return _number(value)
    number = _number(value[:-1].strip())
    return None if number is None else number * UNITS[value[-1]]


def _duration(seconds: float) -> str:
    """A duration in the longest unit that it has at least one of."""
    unit = next((unit for unit, length in UNITS.items() if seconds >= length), "s")
    return f"{seconds / UNITS[unit]:g}{unit}"


def read_yaml(path: Path) -> Value:
    """The content of a YAML file; raises an error of one line where it is none."""
    content = _content(path)
    try:
        text = content.decode("utf-8-sig")
        _check_events(text, path)
        node = yaml.compose(text, Loader=Loader)
    except UnicodeDecodeError:
        raise TaciturnError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise TaciturnError(f"{path}{line}: is not YAML ({error.problem})") from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise TaciturnError(f"{path}: is not YAML ({reason})") from None
    if node is None:
        raise TaciturnError(f"{path}: is empty; name the arms of the router: arms: …")
    return Value(node, str(path))


def _content(path: Path) -> bytes:
    """The bytes of a file; a pipe or a device, which may have no end, is not read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise TaciturnError(f"{path}: is a folder, a pipe or a device; give the YAML file of a router")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TaciturnError(f"{path}: cannot be read ({error.strerror}); give the YAML file of a router") from None
    if len(content) > MAX_BYTES:
        raise TaciturnError(f"{path}: has too many bytes; {MAX_BYTES} are allowed")
    return content


def _check_events(text: str, path: Path) -> None:
    """Raise for references, with which a small file can be as large as it likes, and for deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1
            raise TaciturnError(f"{path}, line {line}: references (*name) are not read; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise TaciturnError(f"{path}, line {event.start_mark.line + 1}: nests more than {MAX_DEPTH} deep")
