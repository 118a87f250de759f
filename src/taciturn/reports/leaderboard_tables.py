"""The tables of the leaderboard's page, in which every number is a button that opens the runs behind it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from taciturn.registry import peer_of_zeros
from taciturn.reports.best import Best
from taciturn.reports.cells import Cell, SettingKey, mean_of, peak_mb, step_milliseconds, without
from taciturn.reports.document import TEXT, sortable_rows
from taciturn.reports.duels import Duel
from taciturn.reports.leaderboard import Leaderboard
from taciturn.reports.leaderboard_text import (
    WON,
    cell_text,
    number_text,
    rate_text,
    result_text,
    standing_header,
    standing_texts,
)
from taciturn.reports.ranks import Ranking
from taciturn.reports.standings import Standing, Tally

SHADES = 5
"""Ranks are shaded in so many steps."""


class Tables:
    """The tables of one leaderboard."""

    def __init__(self, board: Leaderboard) -> None:
        self._board = board
        self._methods = {method: i for i, method in enumerate(board.all_methods)}
        self._data = {label: i for i, label in enumerate(board.data)}
        self._settings = {setting: i for i, setting in enumerate(board.settings)}

    def opener(
        self,
        text: str,
        methods: Iterable[str],
        data: Iterable[str] | None = None,
        settings: Iterable[SettingKey] | None = None,
    ) -> str:
        """Return a button that opens runs: without data on all ranked data sets, without settings at all rates."""
        if text == "–":
            return text
        places = {
            "m": [self._methods[method] for method in methods],
            "d": None if data is None else [self._data[label] for label in data],
            "s": None if settings is None else [self._settings[setting] for setting in settings],
        }
        found = "".join(f' data-{k}="{",".join(map(str, at))}"' for k, at in places.items() if at is not None)
        return f"<button{found}>{escape(text)}</button>"

    def row(self, method: str, cells: Iterable[str], *, label: str | None = None) -> str:
        """Return a row of cells, each ``<td>``, behind the name of a method; that of the recommended one is marked."""
        marked = ' class="ours"' if method == self._board.info.recommended else ""
        return f'<tr{marked}><th scope="row">{label or escape(method)}</th>{"".join(cells)}</tr>'

    def main(self) -> str:
        """Return the main table: ranks, comparisons, results and costs of all ranked methods."""
        rows = (self._main_row(standing) for standing in self._board.standings)
        return sortable_rows(standing_header(self._board), rows, texts=["library"])

    def _main_row(self, standing: Standing) -> str:
        _, library, *texts = standing_texts(standing)
        ranks = [standing.rank, *standing.ranks.values()]
        settings: list[list[SettingKey] | None] = [None, *([setting] for setting in standing.ranks)]
        method = standing.method
        cells = [f"<td{TEXT}>{escape(library)}</td>"]
        for text, rank, at in zip(texts[: len(ranks)], ranks, settings, strict=True):
            cells.append(f'<td class="{self._shade(rank)}">{self.opener(text, [method], settings=at)}</td>')
        tally, *others = texts[len(ranks) :]
        both = [method, self._board.info.recommended] if standing.tally else [method]
        cells.append(_td(self.opener(tally, both)))
        cells += [_td(self.opener(text, [method])) for text in others]
        mark = f' <abbr title="failed or left out in {standing.lacks} cells, ranked last there">†</abbr>'
        return self.row(method, cells, label=escape(method) + (mark if standing.lacks else ""))

    def _shade(self, rank: float) -> str:
        """Return the class of a rank: h0 for the best fifth to h4."""
        count = len(self._board.methods)
        return f"h{min(int(SHADES * (rank - 1) / max(count - 1, 1)), SHADES - 1)}"

    def means(self, lines: Sequence[str]) -> str:
        """Return the mean result at each rate, by measure; a box shows the line of a method, checked for `lines`."""
        board = self._board
        header = ["method"]
        header += [f"{rate_text(setting)}, {m.axis}" for m in board.ranked_measures for setting in board.silence]
        return sortable_rows(header, (self._means_row(method, method in lines) for method in board.methods))

    def _means_row(self, method: str, checked: bool) -> str:  # noqa: FBT001
        board = self._board
        cells = [
            _td(self.opener(result_text(measure, board.mean(method, [setting], measure)), [method], settings=[setting]))
            for measure in board.ranked_measures
            for setting in board.silence
        ]
        box = f'<input type="checkbox" value="{escape(method)}"{" checked" if checked else ""}>'
        return self.row(method, cells, label=f"<label>{box} {escape(method)}</label>")

    def of_data(self, data: str) -> str:
        """Return the table of one data set: methods × rates, the best mean over rates first, and the constant arm."""
        board = self._board
        rates = [setting for setting in board.silence if any(key[:2] == (data, setting) for key in board.cells)]
        by_method = {
            method: [board.cells.get((data, setting, method)) for setting in rates] for method in board.all_methods
        }
        known = {method: mean_of(cell.mean for cell in cells if cell) for method, cells in by_method.items()}
        order = sorted(board.all_methods, key=lambda method: -1.0 if (mean := known[method]) is None else mean)[::-1]
        best = [board.first_by_test(data, setting) for setting in rates]
        rows = [self._data_row(data, method, by_method[method], best) for method in order if any(by_method[method])]
        rows += [self._left_out_row(data, method, len(rates)) for method in order if not any(by_method[method])]
        rows.append(self._constant_row(data, rates))
        return sortable_rows(["method", *map(rate_text, rates)], rows)

    def _data_row(self, data: str, method: str, cells: Sequence[Cell | None], best: Sequence[Best[str]]) -> str:
        shown = []
        for cell, here in zip(cells, best, strict=True):
            text = "–" if cell is None else cell_text(cell) + here.sign(method)
            button = "–" if cell is None else self.opener(text, [method], [data], [cell.setting])
            shown.append(f'<td class="top">{button}</td>' if method == here.first else _td(button))
        return self.row(method, shown)

    def _left_out_row(self, data: str, method: str, count: int) -> str:
        reason = self._board.info.left_out.get(method, {}).get(self._board.data[data])
        if reason is None:
            return ""
        rest = "<td></td>" * (count - 1)
        return self.row(method, [f'<td class="soft t">left out: {escape(reason)}</td>{rest}'])

    def _constant_row(self, data: str, rates: Sequence[SettingKey]) -> str:
        board = self._board
        texts = []
        for setting in rates:
            arm, mean = board.constant_arm(data, setting)
            texts.append(f"{result_text(board.measures[data], mean)} ({escape(arm)})" if mean is not None else "–")
        cells = "".join(map(_td, texts))
        return f'<tr class="soft"><th scope="row">best constant arm</th>{cells}</tr>'

    def axis(self, axis: str) -> str:
        """Return the table of an axis: mean ranks in its settings, and what they change against silence alone."""
        board = self._board
        settings = board.on_axis(axis)
        methods = board.entered(settings)
        ranked = {setting: board.ranking([setting], methods) for setting in settings}
        overall = board.ranking(settings, methods)
        header = ["method", "mean rank"]
        for setting in settings:
            header += [f"{board.settings[setting]}: rank", "change"]
        header += [f"{WON} against {board.info.recommended}"]
        order = {} if overall is None else overall.mean_ranks
        rows = [self._axis_row(method, rank, ranked) for method, rank in order.items()]
        return sortable_rows(header, rows) if rows else ""

    def _axis_row(self, method: str, rank: float, ranked: Mapping[SettingKey, Ranking | None]) -> str:
        board = self._board
        cells = [self.opener(f"{rank:.2f}", [method], settings=ranked)]
        for setting, here in ranked.items():
            change = board.change(method, setting)
            points = "–" if change is None else f"{100 * change:+.1f}"
            text = "–" if here is None else f"{here.mean_ranks[method]:.1f}"
            cells.append(self.opener(text, [method], settings=[setting]))
            cells.append(self.opener(points, [method], settings=[setting, without(setting)]))
        tally = board.tally(method, ranked)
        both = [method, board.info.recommended] if tally else [method]
        cells.append(self.opener("–" if tally is None else str(tally), both, settings=ranked))
        return self.row(method, map(_td, cells))

    def zeros(self) -> str:
        """Return the table of peers that count silence as 0: their means beside those of the same without it."""
        board = self._board
        peers = {method: peer for method in board.all_methods if (peer := peer_of_zeros(method))}
        rates = [setting for setting in board.silence if any(board.zero_pairs(method, setting) for method in peers)]
        if not rates:
            return ""
        header = ["method"]
        for setting in rates:
            header += [f"{rate_text(setting)}: skipped", "as 0", "change", WON]
        return sortable_rows(header, (self._zeros_row(method, peer, rates) for method, peer in peers.items()))

    def _zeros_row(self, method: str, peer: str, rates: Sequence[SettingKey]) -> str:
        board, cells = self._board, []
        for setting in rates:
            pairs = board.zero_pairs(method, setting)
            means = [mean_of(cell.mean for cell in column) for column in zip(*pairs, strict=True)] or [None, None]
            gap = "–" if None in means else f"{100 * (means[1] - means[0]):+.1f}"  # type: ignore[operator]
            data = [cell.data for _, cell in pairs]
            shown = [*(number_text(None if mean is None else 100 * mean, 1) for mean in means), gap]
            tally = Tally.of(board.duels.compare(zeros.finished, skipping.finished) for skipping, zeros in pairs)
            shown.append("–" if tally is None else str(tally))
            methods = [peer], [method], [peer, method], [peer, method]
            cells += [self.opener(text, of, data, [setting]) for text, of in zip(shown, methods, strict=True)]
        return self.row(peer, map(_td, cells))

    def not_first(self) -> str:
        """Return the cells in which another method has a higher mean than the recommended one, or it did not finish."""
        texts, ours = ("setting", "best", "beyond chance"), self._board.info.recommended
        header = ["data", *texts, "by", "its mean", f"mean of {ours}", "methods ahead"]
        return sortable_rows(header, self._not_first_rows(), texts=texts)

    def _not_first_rows(self) -> Iterator[str]:
        board = self._board
        for ahead in board.not_first():
            measure = board.measures[ahead.data]
            ours = board.cells.get((ahead.data, ahead.setting, board.info.recommended))
            best = ahead.cells[0]
            both = [best.method, board.info.recommended] if ours else [best.method]
            tuned = "" if ahead.data in board.ranked_data else " (tuned on)"
            where = [ahead.data], [ahead.setting]
            verdict = _verdict(board.duel(ahead.data, ahead.setting, best.method))
            texts = [escape(board.settings[ahead.setting]), escape(best.method), verdict]
            cells = [
                self.opener(_gap(best, ours, 100), both, *where),
                self.opener(result_text(measure, best.mean), [best.method], *where),
                "did not finish"
                if ours is None or ours.mean is None
                else self.opener(result_text(measure, ours.mean), [ours.method], *where),
                self.opener(str(len(ahead.cells)), [cell.method for cell in ahead.cells], *where),
            ]
            shown = "".join([f"<td{TEXT}>{text}</td>" for text in texts] + [*map(_td, cells)])
            yield f'<tr><th scope="row">{escape(ahead.data + tuned)}</th>{shown}</tr>'

    def costs(self) -> str:
        """Return regrets by data set, and times and memory."""
        board = self._board
        header = ["method", "regret in 1,000 steps", *board.ranked_data, "ms a step", "seconds in all", "MB"]
        return sortable_rows(header, map(self._costs_row, board.methods))

    def _costs_row(self, method: str) -> str:
        board = self._board
        cells = board.ranked_cells(method, board.silence)
        finished = [record for cell in cells for record in cell.finished]
        texts: list[tuple[str, list[str] | None]] = [(number_text(board.regret_rate(method), 1), None)]
        for data in board.ranked_data:
            here = [cell for cell in cells if cell.data == data]
            texts.append((number_text(mean_of(cell.regret for cell in here), 1), [data]))
        texts.append((number_text(step_milliseconds(finished), 2), None))
        texts.append((number_text(sum(record.seconds for record in finished), 0), None))
        texts.append((number_text(peak_mb(finished), 0), None))
        return self.row(method, (_td(self.opener(text, [method], data)) for text, data in texts))


def _td(content: str) -> str:
    return f"<td>{content}</td>"


def _gap(best: Cell, ours: Cell | None, scale: float) -> str:
    if ours is None or ours.mean is None or best.mean is None:
        return "–"
    return f"{scale * (best.mean - ours.mean):+.1f}"


def _verdict(duel: Duel | None) -> str:
    if duel is None:
        return "not comparable"
    p = f"p = {duel.p:.2g}" if duel.p >= 0.001 else "p < 0.001"
    return f"yes, {p}" if duel.beyond_chance else f"no, {p}"
