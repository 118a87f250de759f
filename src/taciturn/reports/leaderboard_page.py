"""``leaderboard.html``: the page of a bake-off, which loads nothing from the network; with its JSON and Markdown."""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

from taciturn.experiments.recorder import read_commands
from taciturn.intervals import INTERVAL
from taciturn.registry import library_of
from taciturn.reports.best import RULE, TOLD
from taciturn.reports.cells import AXES, SettingKey
from taciturn.reports.document import anchor, fill, section, sortable
from taciturn.reports.leaderboard import Leaderboard, read_leaderboard
from taciturn.reports.leaderboard_charts import data_chart, rank_charts, silence_charts
from taciturn.reports.leaderboard_json import leaderboard_json, runs_json, versions
from taciturn.reports.leaderboard_tables import Tables
from taciturn.reports.leaderboard_text import leaderboard_markdown
from taciturn.system import atomic_write

PAGE, JSON, MARKDOWN = "leaderboard.html", "leaderboard.json", "leaderboard.md"


def write_leaderboard(folder: Path) -> tuple[Path, Path]:
    """Write ``leaderboard.html``, ``leaderboard.json`` and ``leaderboard.md`` into a results folder.

    Returned are the page and the JSON. The same folder gives the same bytes. One without runs, or without what a part
    needs, gives a page that says so.
    """
    board = read_leaderboard(folder)
    atomic_write(folder / JSON, leaderboard_json(board))
    atomic_write(folder / MARKDOWN, leaderboard_markdown(board).encode())
    atomic_write(folder / PAGE, _page(board, read_commands(folder)).encode())
    return folder / PAGE, folder / JSON


def _page(board: Leaderboard, commands: list[str]) -> str:
    tables = Tables(board)
    sections = {
        "Leaderboard": _main(board, tables),
        "Accuracy against silence": _silence(board, tables),
        "Which ranks differ": rank_charts(board),
        "Each data set": "".join(_data_sets(board, tables)),
        "More than silence": "".join(_axes(board, tables)),
        f"Where {board.info.recommended} is not first": _not_first(board, tables),
        "Regret, time and memory": _costs(board, tables),
        "How to read it": _method(board),
        "Provenance": _provenance(board, commands),
    }
    links = "".join(f'<a href="#{anchor(title)}">{escape(title)}</a>' for title, body in sections.items() if body)
    parts = [_intro(board), f"<nav>{links}</nav>", *(section(title, body) for title, body in sections.items())]
    return fill("leaderboard.html", title=escape(board.info.title), body="\n".join(parts), runs=runs_json(board))


def _intro(board: Leaderboard) -> str:
    """Return what was run, and what came out, in a few words."""
    if not board.runs:
        return '<p class="bad">There are no runs in this folder yet: there is nothing to rank.</p>'
    libraries = {library_of(method) for method in board.all_methods}
    failed = sum(record.result is None for record in board.runs)
    facts = {
        "methods": len(board.all_methods),
        "libraries": len(libraries),
        "data sets": len(board.data),
        "runs": len(board.runs),
        "failed": failed,
        "hours of running": round(sum(record.seconds for record in board.runs) / 3600, 1),
    }
    shown = "".join(f"<li><b>{value:,}</b> {escape(name)}</li>" for name, value in facts.items())
    return (
        "<p>Agents choose an arm for each context, and the reward often never comes. Every method decided on the same "
        "streams, with the same rewards missing. Every number of a method is a button: it opens the runs that it was "
        f'computed from.</p><ul class="facts">{shown}</ul>{_headline(board)}'
    )


def _headline(board: Leaderboard) -> str:
    """Return how the recommended method did, whatever that was."""
    ours = board.info.recommended
    if not board.methods:
        return f'<p class="bad">{escape(_nothing_ranked(board))}</p>'
    best, rank = next(iter(board.mean_ranks.items()))
    text = f"{escape(best)} has the best mean rank, {rank:.2f} of {len(board.methods)} methods"
    if ours not in board.methods:
        return f'<p>{text}. <span class="bad">{escape(ours)}, the recommended method, has no ranked runs.</span></p>'
    if best != ours:
        text += f"; {escape(ours)}, the recommended one, has {board.mean_ranks[ours]:.2f}"
    tallies = [standing.tally for standing in board.standings if standing.tally is not None]
    won, tied, lost = (sum(counts) for counts in zip((0, 0, 0), *tallies, strict=True))  # by the others
    ahead = [a for a in board.not_first() if a.data in board.ranked_data and a.setting in board.silence]
    beyond = sum(any(_is_beyond(board, cell.data, cell.setting, cell.method) for cell in a.cells) for a in ahead)
    return (
        f"<p>{text}. Against the other methods, {escape(ours)} won {lost:,} of {won + tied + lost:,} "
        f"comparisons, {tied:,} were ties, and it lost {won:,}. In {len(ahead)} of "
        f"{len(board.blocks(board.silence))} data sets and rates another method has a higher mean, in {beyond} of "
        "them beyond chance.</p>"
    )


def _is_beyond(board: Leaderboard, data: str, setting: SettingKey, method: str) -> bool:
    duel = board.duel(data, setting, method)
    return duel is not None and duel.outcome == 1


def _nothing_ranked(board: Leaderboard) -> str:
    """Return why no method is ranked."""
    if all(record.result is None for record in board.runs):
        return "All runs failed: there is nothing to rank. The errors are below."
    if not board.silence:
        return "No runs have rewards missing at random and nothing else changed: there is nothing to rank."
    return "No run was finished on a data set that counts: peers were tuned on the others, so there is nothing to rank."


def _main(board: Leaderboard, tables: Tables) -> str:
    parts = []
    if board.methods:
        tuned = [label for label in board.data if label not in board.ranked_data]
        over = f"Mean ranks over {len(board.ranked_data)} data sets at each rate of silence; 1 is the best."
        if tuned:
            over += f" Not counted, because peers were tuned on them: {', '.join(tuned)}."
        parts.append(f"<p>{escape(over)}</p>{tables.main()}")
        if any(standing.lacks for standing in board.standings):
            parts.append('<p class="note">† failed or was left out in some cells, where it shares the last rank.</p>')
    if board.apart:
        by_reason: dict[str, list[str]] = {}
        for method, why in board.apart.items():
            by_reason.setdefault(why, []).append(method)
        items = "".join(f"<li>{escape(', '.join(some))}: {escape(why)}</li>" for why, some in by_reason.items())
        parts.append(f"<p>Not ranked:</p><ul>{items}</ul>")
    return "".join(parts) + _left_out(board)


def _left_out(board: Leaderboard) -> str:
    lines = [[method, data, why] for method, where in board.info.left_out.items() for data, why in where.items()]
    if not lines:
        return ""
    table = sortable(["method", "data", "reason"], sorted(lines))
    return f"<details><summary>Left out: {len(lines)} methods and data sets, with the reason</summary>{table}</details>"


def _silence(board: Leaderboard, tables: Tables) -> str:
    if not board.methods:
        return ""
    drawn = "".join(silence_charts(board))
    if len(board.silence) < 2:
        drawn = "<p class='note'>All runs have the same rate of silence: there is no line to draw.</p>"
    return (
        f'<div id="silence-chart">{drawn}</div><details><summary>All methods: check one to draw its line</summary>'
        f"{tables.means(board.shown_methods)}</details>"
    )


def _data_sets(board: Leaderboard, tables: Tables) -> Iterator[str]:
    for i, data in enumerate(board.data):
        measure = board.measures[data]
        notes = [
            measure.axis,
            *_firsts(board, data),
            *([] if data in board.ranked_data else ["not ranked: peers were tuned on it"]),
        ]
        chart = data_chart(board, data)
        summary = f"<h3>{escape(data)}</h3> <span class='soft'>{escape(', '.join(notes))}</span>"
        is_open = " open" if i == 0 else ""
        yield f"<details{is_open}><summary>{summary}</summary>{tables.of_data(data)}{chart}</details>"


def _firsts(board: Leaderboard, data: str) -> Iterator[str]:
    """Yield at how many rates the recommended method has the highest mean on a data set."""
    ours = [board.cells.get((data, setting, board.info.recommended)) for setting in board.silence]
    run = [cell for cell in ours if cell is not None]
    first = sum(cell.mean is not None and cell.mean == board.best(data, cell.setting) for cell in run)
    if run:
        yield f"{board.info.recommended} has the highest mean at {first} of {len(run)} rates"


def _axes(board: Leaderboard, tables: Tables) -> Iterator[str]:
    about = {
        "mechanism": "Rewards that are missing by context, or more often where they are low, and not at random",
        "delay": "Rewards that come late",
        "drift": "Labels or features that change on the way",
        "memory": "Agents that hold at most so many contexts",
        "restart": "Agents that are saved and loaded on the way, or start afresh where they cannot be saved",
        "several at once": "Several of these at once",
    }
    if zeros := tables.zeros():
        text = "Peers that count silence as 0, as many users do, beside the same that skip it: means over ranked data"
        yield f"<details><summary><h3>Zeros</h3> <span class='soft'>{text}</span></summary>{zeros}</details>"
    for axis in AXES[1:]:
        if board.on_axis(axis):
            table = tables.axis(axis) or "<p>No run on a data set that counts was finished.</p>"
            is_open = " open" if axis == next(other for other in AXES[1:] if board.on_axis(other)) else ""
            summary = f"<h3>{axis.capitalize()}</h3> <span class='soft'>{about[axis]}</span>"
            yield f"<details{is_open}><summary>{summary}</summary>{table}</details>"


def _not_first(board: Leaderboard, tables: Tables) -> str:
    if not board.runs:
        return ""
    ours = escape(board.info.recommended)
    if not any(record.method == board.info.recommended for record in board.runs):
        return f"<p>{ours} has no runs here.</p>"
    if not board.not_first():
        return f"<p>No other method has a higher mean than {ours} on any data set and setting.</p>"
    return (
        f"<p>Every data set and setting, ranked or not, in which another method has a higher mean than {ours}: the "
        "best of them, by how many points, and whether that is beyond chance (5 %, not corrected: of twenty "
        f"comparisons of equal methods, one is expected to be).</p>{tables.not_first()}"
    )


def _costs(board: Leaderboard, tables: Tables) -> str:
    if not board.methods:
        return ""
    return (
        "<p>Cumulative regret: what always choosing the best arm would have earned more, which is the number of wrong "
        "choices where one arm is right; for each data set, the mean of a run over all rates of silence. Times are of "
        "the whole step, deciding and learning, on the machine of the runs; memory is the highest peak of the process, "
        f"all libraries included.</p>{tables.costs()}"
    )


def _method(board: Leaderboard) -> str:
    ours = escape(board.info.recommended)
    return f"""<ul>
<li><b>Rank</b>: on each data set and rate, methods are ordered by their mean over seeds; equal ones share a rank. A
method of which a run failed, or that was left out, shares the last rank there. Data sets on which peers were tuned are
shown and never counted. {TOLD}, which is told the right arm, is never ranked.</li>
<li><b>Won, tied, lost</b> are data sets and rates against {ours}, where both finished. A tie is a difference that
chance explains at 5 %: with two seeds or more by a paired t-test over seeds, whose standard deviation is taken to be at
least one step; with one seed by a sign test over the steps at which one of the two earned more (McNemar's test where
one arm is right), or, where the steps were not kept, by the two means as if their steps were independent, which is more
cautious.</li>
<li><b>[low, high]</b>, behind a mean, is the {INTERVAL}: it never leaves the range of the measure. {RULE} With one
seed nothing is marked.</li>
<li><b>Accuracy and mean reward</b> are never averaged with each other: data sets whose arms all have a reward are shown
apart. Ranks and comparisons count both. Means are over the cells that a method finished.</li>
<li><b>Change</b>, in the tables of more than silence, is the mean difference in points to the same method with the same
share of rewards missing at random and nothing else; of mean rewards, in hundredths.</li>
</ul>"""


def _provenance(board: Leaderboard, commands: list[str]) -> str:
    if not board.runs:
        return ""
    records = {record.dataset: record for record in board.runs}
    facts = {
        "versions": {package: ", ".join(found) for package, found in versions(board).items()},
        "data": {
            name: f"{record.source}, scaling {record.scaling}, fingerprint {record.fingerprint}"
            for name, record in sorted(records.items())
        },
        "parameters": {record.method: record.params for record in reversed(board.runs)},  # silence alone is first
    }
    why = "were repeated later, or have fewer steps than others on the same data set and setting, and are not counted"
    replaced = f"<p>{board.replaced} runs {why}.</p>" if board.replaced else ""
    text = escape(json.dumps(facts, indent=2, sort_keys=True, ensure_ascii=False))
    again = escape("\n".join(commands) or "(not recorded)")
    return (
        f"<p>These commands wrote the results, and run them again; what a folder has is not repeated:</p>"
        f"<pre>{again}</pre>{replaced}"
        f"<details><summary>Versions, data and parameters</summary><pre>{text}</pre></details>"
        f"<p class='note'>The same numbers for other programs are in {JSON}, the first table as Markdown in "
        f"{MARKDOWN}.</p>"
    )
