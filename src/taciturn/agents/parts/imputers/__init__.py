"""Imputers: what fills in for silence. A new one is a module here, with a name in `NAMED`."""

from typing import Any

from taciturn.agents.parts.imputers.base import BaseImputer, RandomImputer
from taciturn.agents.parts.imputers.classifier import ClassifierImputer
from taciturn.agents.parts.imputers.gcn import GCNImputer
from taciturn.agents.parts.imputers.kmeans import KMeansImputer
from taciturn.errors import TaciturnError
from taciturn.registry import check_keywords, unknown_name
from taciturn.validate import shown

NAMED: dict[str, type[BaseImputer]] = {"gcn": GCNImputer, "kmeans": KMeansImputer, "random": RandomImputer}


def imputer_from(given: Any, params: dict[str, Any]) -> BaseImputer:
    """The imputer that a name with its settings, a classifier or an imputer stands for."""
    if not isinstance(params, dict):
        raise TaciturnError(f"imputer_params={shown(params)} is not allowed; a dict of settings is")
    if isinstance(given, str):
        if given not in NAMED:
            raise unknown_name("imputer", given, NAMED)
        check_keywords(f"imputer {given}", NAMED[given], params)
        return NAMED[given](**params)
    if params:
        raise TaciturnError(f"imputer_params={params!r} is not allowed; settings go with the name of an imputer")
    if isinstance(given, BaseImputer):
        return given
    if not isinstance(given, type) and hasattr(given, "partial_fit") and hasattr(given, "predict_proba"):
        return ClassifierImputer(given)
    raise TaciturnError(
        f"imputer={given!r} is not allowed; {', '.join(map(repr, NAMED))}, a BaseImputer, "
        "or a classifier with partial_fit and predict_proba is"
    )
