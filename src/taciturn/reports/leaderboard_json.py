"""``leaderboard.json``, the leaderboard for other programs, and the runs as the page's script reads them."""

import json
from typing import Any

import msgspec

from taciturn.measures import REWARD
from taciturn.registry import library_of
from taciturn.reports.cells import Cell, SettingKey, axis_of, step_milliseconds
from taciturn.reports.leaderboard import Leaderboard
from taciturn.reports.ranks import Ranking
from taciturn.reports.standings import Standing

FORMAT = 1
"""Rises when a key changes its meaning or goes away."""


def leaderboard_json(board: Leaderboard) -> bytes:
    """Return the leaderboard as JSON: the same bytes for the same runs."""
    info = board.info
    content = {
        "format": FORMAT,
        "title": info.title,
        "size": info.size,
        "recommended": info.recommended,
        "versions": versions(board),
        "methods": [_method(board, method) for method in [*board.methods, *board.apart]],
        "data": [_data(board, label) for label in board.data],
        "ranks": [_ranks(setting, ranked) for setting, ranked in board.rate_rankings.items()],
        "overall": [_standing(standing) for standing in board.standings],
        "cells": [_cell(board, cell) for cell in board.cells.values()],
        "left_out": info.left_out,
    }
    return msgspec.json.format(msgspec.json.encode(content, order="deterministic")) + b"\n"


def versions(board: Leaderboard) -> dict[str, list[str]]:
    """Return the versions of each package that runs name."""
    found: dict[str, set[str]] = {}
    for record in board.runs:
        for package, version in record.versions.items():
            found.setdefault(package, set()).add(version)
    return {package: sorted(found[package]) for package in sorted(found)}


def _method(board: Leaderboard, method: str) -> dict[str, Any]:
    params = next((record.params for record in board.runs if record.method == method), None)
    apart = {"not_ranked": board.apart[method]} if method in board.apart else {}
    return {"name": method, "library": library_of(method), "params": params} | apart


def _data(board: Leaderboard, label: str) -> dict[str, Any]:
    record = next(record for (data, _, _), cell in board.cells.items() if data == label for record in cell.runs)
    return {
        "label": label,
        "name": board.data[label],
        "measure": board.measures[label].name,
        "ranked": label in board.ranked_data,
        "source": record.source,
        "fingerprint": record.fingerprint,
        "scaling": record.scaling,
    }


def setting_json(setting: SettingKey) -> dict[str, Any]:
    """Return a setting by name."""
    names = ("missing", "delay", "drift", "restart", "max_nodes")
    return dict(zip(names, setting, strict=True)) | {"axis": axis_of(setting)}


def _ranks(setting: SettingKey, ranked: Ranking) -> dict[str, Any]:
    return {
        "setting": setting_json(setting),
        "data_sets": ranked.blocks,
        "friedman_p": ranked.friedman,
        "critical_difference": ranked.critical_difference,
        "mean_ranks": ranked.mean_ranks,
    }


def _standing(standing: Standing) -> dict[str, Any]:
    return {
        "method": standing.method,
        "mean_rank": standing.rank,
        "against_recommended": None if standing.tally is None else standing.tally._asdict(),
        "means": {measure.name: mean for measure, mean in standing.means.items()},
        "ms_per_step": standing.ms_per_step,
        "mb": standing.mb,
        "cells_failed_or_left_out": standing.lacks,
    }


def _cell(board: Leaderboard, cell: Cell) -> dict[str, Any]:
    duel = board.duel(cell.data, cell.setting, cell.method)
    return {
        "data": cell.data,
        "setting": setting_json(cell.setting),
        "method": cell.method,
        "mean": cell.mean,
        "deviation": cell.deviation,
        "interval": cell.interval,
        "seeds": len(cell.finished),
        "failed": cell.failed,
        "ms_per_step": cell.ms_per_step,
        "mb": cell.mb,
        "regret": cell.regret,
        "against_recommended": None if duel is None else {"difference": duel.difference, "p": duel.p},
        "runs": [record.id for record in cell.runs],
    }


def runs_json(board: Leaderboard) -> str:
    """Return all runs for the script of the page: data sets, settings and methods are places in lists.

    No text in it can end the element that holds it.
    """
    labels, settings, methods = list(board.data), list(board.settings), board.all_methods
    runs = [
        [
            record.id,
            labels.index(cell.data),
            settings.index(cell.setting),
            methods.index(cell.method),
            record.seed,
            None if record.result is None else round(record.result, 5),
            None if record.result is None else _rounded(step_milliseconds([record])),
            _rounded(record.peak_memory_mb),
            record.error or "",
        ]
        for cell in board.cells.values()
        for record in cell.runs
    ]
    content = {
        "methods": methods,
        "data": labels,
        "graded": [board.measures[label] == REWARD for label in labels],
        "settings": list(board.settings.values()),
        "ranked": [labels.index(label) for label in board.ranked_data],
        "silence": [settings.index(setting) for setting in board.silence],
        "runs": runs,
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
