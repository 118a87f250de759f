"""Methods by name: one table, read by the command line, the experiments, the service and `taciturn.make`."""

import difflib
import importlib
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from taciturn.contracts import Agent, Arm
from taciturn.errors import TaciturnError, UnknownName, how_to_install
from taciturn.validate import shown


class Method(NamedTuple):
    """One named method.

    `target` is the import path of its class (``module:Class``), `params` the parameters that the name stands for and
    `about` one line for people. `family` is its section under ``[agents]`` in a preset's file, None where presets do
    not apply. A `reference` is a baseline for tables and is not offered by the service. `before` are the values of
    parameters that files and journals do not name, because there was no such parameter when they were written.
    `package` is the library that learns where it is not taciturn, by its name on the package index; the extra ``peers``
    installs those of `PEERS`.
    """

    target: str
    params: dict[str, Any]
    about: str
    family: str | None = None
    reference: bool = False
    before: Mapping[str, Any] = MappingProxyType({})
    package: str | None = None


EXACT = MappingProxyType({"covariance": "exact"})
"""Before there were other forms of ridge regressions."""

SCIKIT_LEARN = "scikit-learn"


def _bilinucb(imputer: str, about: str, *, bounded: bool = True) -> Method:
    params = {"imputer": imputer, "bounded": bounded}
    family = "bilinucb" if bounded else "ilinucb"
    return Method("taciturn.agents.bilinucb:BILinUCB", params, about, family, before=EXACT)


METHODS: dict[str, Method] = {
    "viewucb": Method(
        "taciturn.agents.viewucb:ViewUCB",
        {},
        "UCB over several graph views of a context, weighted by their observed accuracy",
        before={
            "alpha": 4.0,
            "fourier": False,
            "residuals": False,
            "plain": False,
            "constant": 1.0,
            "calibrated": False,
            "width_entries": 2**25,
            "soft_label_weight": 0.3,
        },
    ),
    "linucb": Method(
        "taciturn.agents.linucb:LinUCB",
        {},
        "one ridge regression per arm; learns nothing from silence",
        "linucb",
        before=EXACT,
    ),
    "rogcn": Method(
        "taciturn.agents.rogcn:ROGCN", {}, "one graph network over all contexts; learns from right answers", "rogcn"
    ),
    "bilinucb-gcn": _bilinucb("gcn", "linucb; silence imputed by a graph network, bounded"),
    "bilinucb-kmeans": _bilinucb("kmeans", "linucb; silence imputed by the cluster's mean reward, bounded"),
    "bilinucb-random": _bilinucb("random", "linucb; silence imputed at random, bounded"),
    "ilinucb-gcn": _bilinucb("gcn", "bilinucb-gcn without the bound", bounded=False),
    "ilinucb-kmeans": _bilinucb("kmeans", "bilinucb-kmeans without the bound", bounded=False),
    "ilinucb-random": _bilinucb("random", "bilinucb-random without the bound", bounded=False),
    "gcnucb": Method(
        "taciturn.agents.gcnucb:GCNUCB",
        {},
        "one graph network per arm, and a ridge regression on its embeddings",
        "gcnucb",
    ),
    "majority": Method(
        "taciturn.agents.references:Majority", {}, "reference: the arm rewarded most so far", reference=True
    ),
    "oracle-full": Method(
        "taciturn.agents.references:OracleFull",
        {},
        "reference: viewucb told the right arm after every decision",
        reference=True,
    ),
    "labelspreading": Method(
        "taciturn.agents.references:LabelSpreader",
        {},
        "reference: scikit-learn's label spreading, refit every 50 steps",
        reference=True,
        package=SCIKIT_LEARN,
    ),
    "knn": Method(
        "taciturn.agents.references:NearestVotes",
        {},
        "reference: votes of the 10 nearest answered contexts",
        reference=True,
    ),
    "logreg": Method(
        "taciturn.agents.references:LogReg",
        {},
        "reference: scikit-learn's logistic regression, refit every 50 steps",
        reference=True,
        package=SCIKIT_LEARN,
    ),
    "extratrees": Method(
        "taciturn.agents.classifiers:ExtraTrees",
        {},
        "reference: scikit-learn's extremely randomized trees, refit every 50 steps or more",
        reference=True,
        package=SCIKIT_LEARN,
    ),
    "static": Method(
        "taciturn.agents.classifiers:Static",
        {},
        "reference: a logistic regression on the labelled start alone",
        reference=True,
        package=SCIKIT_LEARN,
    ),
}


def _vw(options: str, about: str, **params: Any) -> Method:
    target = "taciturn.adapters.peers.vowpal_wabbit:VowpalWabbit"
    return Method(target, {"options": options, **params}, f"Vowpal Wabbit: {about}", package="vowpalwabbit")


def _contextualbandits(kind: str, about: str, **params: Any) -> Method:
    target = f"taciturn.adapters.peers.contextual_bandits:ContextualBandits{kind}"
    return Method(target, params, f"contextualbandits: {about}", package="contextualbandits")


def _mabwiser(kind: str, about: str, **params: Any) -> Method:
    target = f"taciturn.adapters.peers.mabwiser:MABWiser{kind}"
    return Method(target, params, f"MABWiser: {about}", package="mabwiser")


ZERO = "-zero"
"""How the name of a peer ends that learns a reward of 0 in silence."""


def _with_zeros(peers: dict[str, Method]) -> dict[str, Method]:
    """Each peer as its users have it, skipping silence, and once more with a reward of 0 in its place."""
    zeros = {
        f"{name}{ZERO}": peer._replace(params=peer.params | {"silence": 0.0}, about=f"{name}; silence counts as 0")
        for name, peer in peers.items()
    }
    return peers | zeros


# The parameters were chosen on digits, mushroom and magic by benchmarks/tune_peers.py: see docs/bakeoff.md.
PEERS: dict[str, Method] = _with_zeros(
    {
        "vw-squarecb": _vw("--squarecb --gamma_scale 10000 -l 0.5", "probabilities by the inverse gap"),
        "vw-regcb": _vw("--regcb --mellowness 0.001 -l 0.5", "all arms whose confidence interval reaches the best"),
        "vw-bag": _vw("--bag 5 -l 0.5", "votes of regressions on resampled events"),
        "vw-cover": _vw("--cover 3 --psi 0.1 --nounif -l 0.5", "several policies that differ from one another"),
        "cb-linucb": _contextualbandits("LinUCB", "LinUCB", alpha=0.1, lambda_=10.0, from_empty=True, all_arms=True),
        "cb-bootstrapped": _contextualbandits(
            "Bootstrapped", "percentiles of resampled logistic regressions", percentile=80
        ),
        "cb-adaptive": _contextualbandits(
            "Adaptive", "logistic regressions, and chance where they promise little", percentile=10, C=1.0
        ),
        "mabwiser-linucb": _mabwiser("Linear", "LinUCB", policy="LinUCB", alpha=0.1, l2_lambda=10.0, all_arms=True),
        "mabwiser-lints": _mabwiser(
            "Linear", "linear Thompson sampling", policy="LinTS", alpha=0.02, l2_lambda=10.0, all_arms=True
        ),
        "mabwiser-knearest": _mabwiser("KNearest", "UCB1 among the nearest contexts", k=5, alpha=0.5, metric="cosine"),
        "river-linucb": Method(
            "taciturn.adapters.peers.river:RiverLinUCB",
            {"alpha": 100.0, "beta": 25.0, "all_arms": True},
            "river: LinUCB by Bayesian regressions",
            package="river",
        ),
    }
)
"""Bandits of other libraries, which the extra ``peers`` installs; the service does not offer them."""

PRESETS = {"paper": "opr2020.toml"}

COMMAND, PROGRAM = "command:", "taciturn.adapters.program:Program"
"""How a method begins that is a program, and the class of such agents."""


def method_named(name: str) -> Method:
    """Return the method or peer of a name."""
    if name not in METHODS and name not in PEERS:
        raise unknown_name("method", name, [*METHODS, *PEERS])
    return METHODS[name] if name in METHODS else PEERS[name]


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """Return the error for a name that is not in a table: the known names, and the closest one, or one of its kind."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1) or [
        known for known in names if known.startswith(f"{name}-")
    ]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UnknownName(f"unknown {kind} {name!r}{hint} (there are: {', '.join(names)})")


@cache
def preset_file(preset: str) -> dict[str, Any]:
    """Return the contents of a preset's file: settings, printed results and their source."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    return tomllib.loads(files("taciturn.papers").joinpath(PRESETS[preset]).read_text(encoding="utf-8"))


def method_params(name: str, preset: str | None = None) -> dict[str, Any]:
    """Return a method's own parameters, updated by those of a preset that knows its family."""
    method = method_named(name)
    params = dict(method.params)
    if preset is not None:
        settings = preset_file(preset)
        if method.family in settings["agents"]:
            params |= settings["agents"]["all"] | settings["agents"][method.family]
        if "imputer" in params:
            params["imputer_params"] = dict(settings["imputers"].get(params["imputer"], {}))
    return params


def make(name: str, *, arms: Sequence[Arm] | int, preset: str | None = None, **overrides: Any) -> Agent:
    """Build an agent.

    Arguments:
        name: a method of `METHODS` or `PEERS`, the import path ``package.module:Class`` of another agent, or
            ``command:`` and the command of a program that is one.
        arms: the arms by name, or how many there are.
        preset: the settings of a paper; import paths have none.
        overrides: parameters of the agent, which take precedence over the preset.
    """
    if not isinstance(name, str):
        raise unknown_name("method", name, [*METHODS, *PEERS])
    if is_command(name):
        program = import_agent(PROGRAM)
        check_keywords(name, program, overrides)
        started: Agent = program(command=name.removeprefix(COMMAND), arms=arms, **overrides)
        return started
    if is_import_path(name):
        imported: Agent = import_agent(name)(arms=arms, **overrides)
        return imported
    params = method_params(name, preset) | overrides
    factory = _factory(name)
    check_keywords(name, factory, params)
    agent: Agent = factory(arms=arms, **params)
    return agent


def _factory(name: str) -> Any:
    """Return the class of a method; raise where a peer's library is not installed."""
    method = method_named(name)
    module, _, attribute = method.target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if name not in PEERS:
            raise
        raise _needs_library(name) from error


def _needs_library(name: str) -> TaciturnError:
    return TaciturnError(f"{name} needs {PEERS[name].package}: {how_to_install('peers')}")


def library_version(name: str) -> dict[str, str]:
    """Return the library that a peer is of, with its version; empty for other methods. Raise if it is not installed."""
    package = PEERS[name].package if name in PEERS else None
    if missing_library(name) is not None:
        raise _needs_library(name)
    return {} if package is None else {package: version(package)}


def missing_library(name: str) -> str | None:
    """Return the library that a peer is of where it is not installed; None where nothing is missing."""
    package = PEERS[name].package if name in PEERS else None
    try:
        return None if package is None or version(package) else package
    except PackageNotFoundError:
        return package


def library_of(name: str) -> str:
    """Return the library that a method is of: "taciturn", that of a peer or reference, or "yours" for other names."""
    if name not in METHODS and name not in PEERS:
        return "yours"
    return method_named(name).package or "taciturn"


def peer_of_zeros(name: str) -> str | None:
    """Return the peer that skips silence where this one counts it as 0; None for all other methods."""
    return name.removesuffix(ZERO) if name in PEERS and name.endswith(ZERO) else None


def is_import_path(name: str) -> bool:
    """Whether a method is given by import path, ``package.module:Class``, and not by a name of `METHODS`."""
    return ":" in name and not is_command(name)


def is_command(name: str) -> bool:
    """Whether a method is a program, given as ``command:`` and its command line."""
    return name.startswith(COMMAND)


def command_words(command: object) -> list[str]:
    """Return a command as a list of words; raise where it has none, or a quotation is not closed."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError as error:
        raise TaciturnError(f"command={shown(command)} is not allowed; {error}") from None
    if not words:
        raise TaciturnError(f"command={shown(command)} is not allowed; a program and its arguments are")
    return words


def import_agent(path: str) -> Any:
    """Return the class, or the function that makes an agent, at ``package.module:Class``."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownName(f"no agent at {path!r} ({error}); give it as package.module:Class") from None


def check_keywords(name: str, factory: Any, params: dict[str, Any]) -> None:
    """Raise `UnknownName` for the first parameter that the dataclass `factory` does not have."""
    known = [field.name for field in fields(factory)]  # without class variables
    for key in params:
        if key not in known:
            raise unknown_name(f"parameter of {name}", key, known)
