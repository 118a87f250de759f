"""A YAML file whose errors say which line and which key they are about."""

import difflib
import math
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
        return TaciturnError(f"{self._file}, line {self._node.start_mark.line + 1}:{where} {problem}")

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
        value = _plain(self._node)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not least <= value <= most:
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
        value = _plain(self._node)
        units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
        number: Any = value
        if isinstance(value, str) and value[-1:] in units:
            try:
                number = float(value[:-1]) * units[value[-1]]
            except ValueError:
                number = None
        if isinstance(number, bool | str | None) or not isinstance(number, int | float) or not least <= number <= most:
            raise self._is_not(f"a duration from {least:g}s to {most / 86400:g}d, as 90s, 15m, 6h or 2d")
        return float(number)

    def _is_not(self, wanted: str) -> TaciturnError:
        value = _plain(self._node)
        given = {"list": "a list", "dict": "a mapping", "NoneType": "nothing"}.get(type(value).__name__, shown(value))
        return self.error(f"{given} is given; {wanted} is needed")


def _plain(node: yaml.Node) -> Any:
    """The plain value of a node, as `yaml.safe_load` makes it; of a list or mapping only its kind."""
    if isinstance(node, yaml.SequenceNode):
        return []
    if isinstance(node, yaml.MappingNode):
        return {}
    constructor: Any = yaml.constructor.SafeConstructor()
    try:
        return constructor.construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError):  # a tag of its own, the 31st of February
        return node.value


def read_yaml(path: Path) -> Value:
    """The content of a YAML file; raises an error of one line where it is none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TaciturnError(f"{path}: cannot be read ({error.strerror}); give the YAML file of a router") from None
    if len(content) > MAX_BYTES:
        raise TaciturnError(f"{path}: has {len(content)} bytes; {MAX_BYTES} are allowed")
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
