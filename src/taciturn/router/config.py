"""What the YAML file of a router says."""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from taciturn.errors import TaciturnError
from taciturn.router.yaml_file import Value, read_yaml
from taciturn.service.core.operations import NAME
from taciturn.validate import base_address

DAY = 86_400.0
MAX_ARMS, MAX_EXAMPLES, MAX_EXAMPLE, MAX_DESCRIPTION, MAX_NAME = 1_000, 10_000, 4_000, 1_000, 100
"""Arms, examples in all, and characters of an example, of a description and of an arm's name."""

MAX_COST = 1e9
VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]{0,127}")
HEADER = re.compile("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
OURS = frozenset(["authorization", "content-length", "content-type", "host", "connection", "transfer-encoding"])
"""Headers to an upstream that the router sets itself."""


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """Where an arm's chat completions come from.

    Arguments:
        url: the base address, to which `/chat/completions` is added.
        model: the name of the model there; None sends the one that the caller gave.
        api_key_env: the environment variable that has the key; None for no key.
        headers: further headers.
    """

    url: str
    model: str | None = None
    api_key_env: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ArmConfig:
    """One arm: what it is for, texts that belong to it, what a decision for it costs, and its upstream, if any."""

    name: str
    description: str = ""
    examples: tuple[str, ...] = ()
    cost: float = 0.0
    upstream: Upstream | None = None


@dataclass(frozen=True, kw_only=True)
class RouterConfig:
    """All that a router's file says.

    Arguments:
        name: of the router, and of its agent in the service.
        arms: at least two.
        observe: answer with `default` always, and only log what would have been chosen.
        default: the arm that is answered in observe mode.
        several_right: whether several arms can be right for a text; False teaches with each thumbs-up that the others
            would have been wrong.
        budget: the mean cost of a decision that is kept to; None for no budget.
        sticky: whether a session stays with its arm.
        session_seconds: for how long after its decision.
        silence_after: seconds until a decision without thumbs counts as silent.
        explore: the share of decisions that are drawn at random.
        fallback: whether the next best arm answers where an upstream fails.
        timeout: seconds that an upstream may take to begin, and between two pieces of its answer.
    """

    name: str
    arms: tuple[ArmConfig, ...]
    observe: bool = False
    default: str | None = None
    several_right: bool = False
    budget: float | None = None
    sticky: bool = True
    session_seconds: float = 3_600.0
    silence_after: float = DAY
    explore: float = 0.0
    fallback: bool = True
    timeout: float = 60.0

    @property
    def costs(self) -> dict[str, float]:
        """The cost of a decision for each arm."""
        return {arm.name: arm.cost for arm in self.arms}

    @property
    def upstreams(self) -> dict[str, Upstream]:
        """The upstream of each arm that has one: all of them, or none."""
        return {arm.name: arm.upstream for arm in self.arms if arm.upstream is not None}

    def observing(self) -> "RouterConfig":
        """The same in observe mode; raises if there is no default arm to answer with."""
        if self.default is None:
            raise TaciturnError("--observe answers with one arm always: name it in the file, as default: ARM")
        return replace(self, observe=True)


def read_config(path: Path) -> RouterConfig:
    """Read and check the file of a router."""
    whole = read_yaml(path)
    given = whole.keys(
        "name",
        "arms",
        "mode",
        "default",
        "right",
        "budget",
        "session",
        "silence_after",
        "explore",
        "fallback",
        "timeout",
    )
    if "arms" not in given:
        raise whole.error("arms is missing; name at least two arms, each with a few examples")
    arms = _arms(given["arms"])
    mode = given["mode"].choice("route", "observe") if "mode" in given else "route"
    default = _one_of(given["default"], arms) if "default" in given else None
    if mode == "observe" and default is None:
        raise given["mode"].error("observe answers with one arm always: name it, as default: ARM")
    session = given["session"].keys("sticky", "ttl") if "session" in given else {}
    return RouterConfig(
        name=_name(given["name"]) if "name" in given else "router",
        arms=arms,
        observe=mode == "observe",
        default=default,
        several_right="right" in given and given["right"].choice("one", "several") == "several",
        budget=_budget(given["budget"], arms) if "budget" in given else None,
        sticky=session["sticky"].truth() if "sticky" in session else True,
        session_seconds=session["ttl"].seconds(1, 365 * DAY) if "ttl" in session else 3_600.0,
        silence_after=given["silence_after"].seconds(1, 365 * DAY) if "silence_after" in given else DAY,
        explore=given["explore"].number(0, 1) if "explore" in given else 0.0,
        fallback=given["fallback"].truth() if "fallback" in given else True,
        timeout=given["timeout"].seconds(0.1, 3_600) if "timeout" in given else 60.0,
    )


def _name(value: Value) -> str:
    name = value.text(64)
    if not NAME.fullmatch(name):
        raise value.error(f"{name!r} cannot be a name; small letters, digits, - and _ can, as support-desk")
    return name


def _arms(value: Value) -> tuple[ArmConfig, ...]:
    arms = tuple(
        _arm(name, arm)
        for name, arm in value.items(what="a mapping from the name of each arm to its examples and the like")
    )
    if not 2 <= len(arms) <= MAX_ARMS:
        raise value.error(f"there are {len(arms)} arms; 2 to {MAX_ARMS} are needed")
    if (count := sum(len(arm.examples) for arm in arms)) > MAX_EXAMPLES:
        raise value.error(f"there are {count} examples in all; {MAX_EXAMPLES} are allowed")
    missing = [arm.name for arm in arms if arm.upstream is None]
    if 0 < len(missing) < len(arms):
        raise value.error(f"{missing[0]} has no upstream and others have; give every arm one, or none")
    first: dict[str, str] = {}
    for arm in arms:
        for example in arm.examples:
            if first.setdefault(example, arm.name) != arm.name:
                both = f"{first[example]} and {arm.name}"
                raise value.error(f"{example[:60]!r} is an example of {both}; a text belongs to one arm")
    return arms


def _arm(name: str, value: Value) -> ArmConfig:
    if len(name) > MAX_NAME or name != name.strip() or not name.isprintable():
        raise value.error(f"the name of an arm is printable text of at most {MAX_NAME} characters")
    given = {} if value.is_nothing else value.keys("description", "examples", "cost", "upstream")
    examples = (
        [example.text(MAX_EXAMPLE) for example in given["examples"].list(MAX_EXAMPLES)] if "examples" in given else []
    )
    return ArmConfig(
        name=name,
        description=given["description"].text(MAX_DESCRIPTION) if "description" in given else "",
        examples=tuple(dict.fromkeys(examples)),
        cost=given["cost"].number(0, MAX_COST) if "cost" in given else 0.0,
        upstream=_upstream(given["upstream"]) if "upstream" in given else None,
    )


def _upstream(value: Value) -> Upstream:
    given = value.keys("url", "model", "api_key_env", "headers")
    if "url" not in given:
        raise value.error("url is missing; give the address before /chat/completions, as http://127.0.0.1:8000/v1")
    headers = {}
    for name, header in given["headers"].items() if "headers" in given else ():
        content = header.text(4_000)
        if not HEADER.fullmatch(name) or name.lower() in OURS:
            raise header.error("this header cannot be sent; others than those of HTTP itself and of keys can")
        if not content.isascii() or not content.isprintable() or content != content.strip():
            raise header.error("this value cannot be sent in a header; printable ASCII without spaces around it can")
        headers[name] = content
    return Upstream(
        url=_url(given["url"]),
        model=given["model"].text(200) if "model" in given else None,
        api_key_env=_variable(given["api_key_env"]) if "api_key_env" in given else None,
        headers=headers,
    )


def _url(value: Value) -> str:
    """An address without a slash at its end; the error does not show it, as a key may be there by mistake."""
    address = base_address(value.text(2_000))
    if address is None:
        example = "http://127.0.0.1:8000/v1 is one, without a user or a query (a key is given by api_key_env)"
        raise value.error(f"this is no address; {example}")
    return address.removesuffix("/chat/completions")


def _variable(value: Value) -> str:
    """The name of a variable that holds what can be a key; errors do not show it, as it may be the key itself."""
    name = value.text(500)
    if not VARIABLE.fullmatch(name):
        raise value.error(
            "this is not the name of an environment variable; OPENAI_API_KEY is (the key itself stays out)"
        )
    if not (key := os.environ.get(name, "").strip()):
        raise value.error("this environment variable is not set; export it before the router starts")
    if not all("!" <= character <= "~" for character in key):
        raise value.error(
            "this environment variable holds no key: there is a space, a line end or a letter outside ASCII in it; "
            "export the key alone"
        )
    return name


def _budget(value: Value, arms: tuple[ArmConfig, ...]) -> float:
    given = value.keys("per_decision")
    if "per_decision" not in given:
        raise value.error("per_decision is missing: the mean cost of a decision to keep to")
    budget = given["per_decision"].number(0, MAX_COST)
    cheapest = min(arms, key=lambda arm: arm.cost)
    if cheapest.cost > budget:
        raise given["per_decision"].error(
            f"no arm costs as little: {cheapest.name}, the cheapest, costs {cheapest.cost:g}"
        )
    return budget


def _one_of(value: Value, arms: tuple[ArmConfig, ...]) -> str:
    name = value.text(MAX_NAME)
    if name not in {arm.name for arm in arms}:
        raise value.error(f"there is no arm {name!r}; there are {', '.join(arm.name for arm in arms)}"[:300])
    return name
