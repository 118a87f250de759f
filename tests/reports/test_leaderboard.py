"""The leaderboard: what is ranked, counted and compared, and its page, JSON and picture; no agent runs."""

import io
import itertools
import json
import math
import re

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from browser_kit import chromium
from leaderboard_kit import big_bakeoff, invented, write_runs
from page_kit import Window
from taciturn.errors import TaciturnError
from taciturn.experiments.bakeoff_info import BakeoffInfo, read_info, write_info
from taciturn.registry import METHODS, PEERS, library_of
from taciturn.reports import ranks
from taciturn.reports.cells import axis_of, without
from taciturn.reports.duels import Duels, means_p, seeds_p, sign_p
from taciturn.reports.leaderboard import read_leaderboard
from taciturn.reports.leaderboard_figure import draw_leaderboard
from taciturn.reports.leaderboard_page import write_leaderboard
from taciturn.reports.leaderboard_tables import Tables
from taciturn.reports.leaderboard_text import leaderboard_table

RATES = (0.0, 0.5, 0.9)
EVIL = "my.module:<script>alert(1)</script>{{body}}"


def board_of(folder, records, **info):
    write_runs(folder, records)
    write_info(folder, BakeoffInfo(**info))
    return read_leaderboard(folder)


def slow_ranks(row):
    """The rank of each result: one more than how many are better, and half of how many others are equal."""
    better = [[a > b or (not math.isnan(a) and math.isnan(b)) for a in row] for b in row]
    equal = [[a == b or (math.isnan(a) and math.isnan(b)) for a in row] for b in row]
    return [1 + sum(better[i]) + (sum(equal[i]) - 1) / 2 for i in range(len(row))]


@pytest.mark.parametrize("seed", range(20))
def test_ranks_are_those_of_the_slow_version_with_ties_and_absent_methods(tmp_path, seed):
    rng = np.random.default_rng(seed)
    methods = [f"m{i}" for i in range(int(rng.integers(2, 7)))]
    data, results = [f"d{i}" for i in range(4)], {}
    for method, name, rate in itertools.product(methods, data, RATES):
        kind = rng.random()
        if kind < 0.7:
            results[method, name, rate] = float(rng.integers(3)) / 4  # with many ties
        elif kind < 0.85:
            results[method, name, rate] = None  # failed
    records = [invented(m, d, f"mcar:{rate}", result=result) for (m, d, rate), result in results.items()]
    board = board_of(tmp_path, records)
    able = sorted({m for (m, _, _), result in results.items() if result is not None})
    expected = {}
    for rate in RATES:
        rows = [
            [math.nan if (value := results.get((m, d, rate))) is None else value for m in able]
            for d in data
            if any(results.get((m, d, rate)) is not None for m in able)
        ]
        if rows:
            expected[rate] = [slow_ranks(row) for row in rows]
    assert sorted(board.methods) == able
    for setting, ranked in board.rate_rankings.items():
        rows = expected.pop(float(setting[0].split(":")[1]))
        assert ranked.blocks == len(rows)
        assert ranked.mean_ranks == pytest.approx(dict(zip(able, np.mean(rows, axis=0), strict=True)))
        expected[setting] = rows
    every = np.mean([row for rows in expected.values() for row in rows], axis=0)
    assert board.mean_ranks == pytest.approx(dict(zip(able, every, strict=True)))
    assert list(board.mean_ranks.values()) == sorted(board.mean_ranks.values())
    assert board.methods == list(board.mean_ranks)


def test_the_critical_difference_is_nemenyis_and_joins_what_is_closer():
    rng = np.random.default_rng(0)
    names = [f"m{i}" for i in range(5)]
    for _ in range(30):
        table = rng.random((30, 5)) + 0.25 * np.arange(5)[::-1]
        ranked = ranks.rank_table(names, table)
        assert ranked.critical_difference == pytest.approx(2.728 * math.sqrt(5 * 6 / (6 * 30)), abs=1e-3)  # Demšar 2006
        assert ranked.friedman == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)
        order = list(ranked.mean_ranks)
        close = [
            order[i:j]
            for i, j in itertools.combinations(range(6), 2)
            if j - i > 1 and ranked.mean_ranks[order[j - 1]] - ranked.mean_ranks[order[i]] < ranked.critical_difference
        ]
        largest = [one for one in close if not any(set(one) < set(other) for other in close)]
        assert ranked.not_different() == largest


def test_no_test_of_ranks_without_three_methods_or_two_blocks_or_a_difference():
    for table in (np.ones((4, 2)) * [1, 2], np.array([[1.0, 2.0, 3.0]]), np.ones((4, 3))):
        ranked = ranks.rank_table(["a", "b", "c"][: table.shape[1]], table)
        assert (ranked.friedman, ranked.critical_difference, ranked.not_different()) == (None, None, [])


def test_wins_need_more_than_chance_over_seeds():
    gaps = np.array([0.02, 0.05, 0.01, 0.04])
    assert seeds_p(gaps, 600) == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)
    assert seeds_p(np.array([1 / 600, 1 / 600]), 600) > 0.05, "two equal differences of one step"
    assert seeds_p(np.array([0.2, 0.2]), 600) < 0.05
    assert seeds_p(np.zeros(3), 600) == 1.0


def test_one_seed_is_compared_by_its_steps():
    steps = np.array([1.0] * 9 + [-1.0] * 1 + [0.0] * 90)
    assert sign_p(steps, 0.08) == pytest.approx(stats.binomtest(9, 10).pvalue)
    assert sign_p(steps, -0.08) == 1.0, "most steps say otherwise than the mean"
    assert sign_p(np.zeros(5), 0.0) == 1.0
    assert means_p(0.8, 0.7, 600, 600) < 0.001
    assert means_p(0.8, 0.79, 600, 600) > 0.3
    assert means_p(1.0, 1.0, 600, 600) == 1.0


def test_traces_decide_between_single_seeds_where_they_were_kept(tmp_path):
    one, two = invented("a", result=0.52), invented("b", result=0.5)
    assert Duels(tmp_path).compare([one], [two]).outcome == 0, "by their means, as no traces were kept"
    (tmp_path / "traces").mkdir()
    right = np.arange(600) % 2 == 0
    np.savez(tmp_path / "traces" / f"{two.id}.npz", correct=right)
    right[1:24:2] = True
    np.savez(tmp_path / "traces" / f"{one.id}.npz", correct=right)
    duels = Duels(tmp_path)
    assert duels.compare([one], [two]).outcome == 1
    assert duels.compare([two], [one]).outcome == -1
    assert duels.compare([one], [invented("b", result=None)]) is None
    assert duels.compare([one], [invented("b", seed=1)]) is None, "no common seed"


def test_wins_ties_and_losses_are_counted_over_ranked_cells_that_both_finished(tmp_path):
    close = [0.700, 0.712, 0.690]
    gaps = {"d0": 0.1, "d1": -0.1, "d2": 0.0, "d3": 0.1, "tuned": 0.1}
    records = []
    for (name, gap), seed in itertools.product(gaps.items(), range(3)):
        records.append(invented("viewucb", name, seed=seed, result=close[seed]))
        result = None if name == "d3" else close[seed] + gap + 0.01 * (seed - 1)
        records.append(invented("other", name, seed=seed, result=result))
        records.append(invented("other", name, seed=seed, result=0.9, delay="fixed:5.0"))
    board = board_of(tmp_path, records, tuned_on=["tuned"])
    assert board.tally("other", board.silence) == (1, 1, 1)
    assert str(board.tally("other", board.silence)) == "1 / 1 / 1"
    assert board.tally("viewucb", board.silence) is None
    assert board.tally("other", board.on_axis("delay")) is None, "viewucb did not run there"


def test_tuned_data_are_shown_and_never_counted(tmp_path):
    records = [
        invented(method, name, f"mcar:{rate}", seed=seed, result=result + 0.001 * seed)
        for method, result in {"viewucb": 0.8, "linucb": 0.7, "vw-bag": 0.6}.items()
        for name in ("d0", "d1")
        for rate, seed in itertools.product(RATES, range(2))
    ]
    tuned = [
        invented(record.method, "digits", record.missing, seed=record.seed, result=1 - record.result)
        for record in records
        if record.dataset == "d0"
    ]
    without_tuned, with_tuned = tmp_path / "a", tmp_path / "b"
    one = board_of(without_tuned, records, tuned_on=["digits"])
    two = board_of(with_tuned, records + tuned, tuned_on=["digits"])
    assert one.standings == two.standings
    assert [one.rate_rankings[key] for key in one.silence] == [two.rate_rankings[key] for key in two.silence]
    html = write_leaderboard(with_tuned)[0].read_text(encoding="utf-8")
    assert "not ranked: peers were tuned on it" in html
    assert "digits (tuned on)" in html, "where viewucb is last"
    counted = board_of(tmp_path / "c", records + tuned)
    assert counted.standings != two.standings


def test_who_is_told_the_right_arm_or_has_no_ranked_run_is_listed_apart(tmp_path):
    records = [invented(method, "d", result=0.5) for method in ("viewucb", "linucb")]
    records += [invented("oracle-full", "d", result=0.9)]
    records += [invented("vw-bag", "digits"), invented("vw-cover", "d", result=None)]
    records += [invented("knn", "d", delay="fixed:3.0")]
    board = board_of(tmp_path, records, tuned_on=["digits"], left_out={"cb-linucb": {"d": "too slow"}})
    assert board.methods == ["linucb", "viewucb"]
    assert list(board.apart) == ["cb-linucb", "knn", "oracle-full", "vw-bag", "vw-cover"]
    html = write_leaderboard(tmp_path)[0].read_text(encoding="utf-8")
    assert "<li>oracle-full: told the right arm after every decision</li>" in html
    assert "<li>vw-cover: all runs failed</li>" in html
    assert "<li>cb-linucb: left out</li>" in html
    assert "too slow" in html
    assert not [a for a in board.not_first() if a[:2] == ("d", board.silence[0])], "being told is not being better"
    assert board.best("d", board.silence[0]) == 0.5


def test_a_cell_with_a_failed_run_is_last_and_keeps_the_mean_of_the_others(tmp_path):
    records = [invented(method, "d", seed=seed, result=0.5) for method in ("viewucb", "knn") for seed in range(2)]
    records += [invented("best", "d", seed=0, result=0.9), invented("best", "d", seed=1, result=None)]
    board = board_of(tmp_path, records)
    assert board.mean_ranks == {"knn": 1.5, "viewucb": 1.5, "best": 3.0}
    html = write_leaderboard(tmp_path)[0].read_text(encoding="utf-8")
    assert "90.0 (1 of 2 failed)" in html
    assert "failed or left out in 1 cells, ranked last there" in html


def test_peers_with_zeros_are_compared_with_themselves_and_not_ranked(tmp_path):
    results = {"vw-bag": (0.6, 0.4), "vw-bag-zero": (0.5, 0.1), "vw-cover": (0.9, 0.2), "viewucb": (0.8, 0.7)}
    records = [
        invented(method, data, missing, result=result + shift)
        for method, of_rates in results.items()
        for missing, result in zip(("mcar:0.5", "mcar:0.9"), of_rates, strict=True)
        for data, shift in (("one", 0.0), ("two", 0.05))
    ]
    records += [invented("vw-bag-zero", "tuned", result=0.9), invented("vw-cover-zero", "two", "mcar:0.5", result=None)]
    write_runs(tmp_path, records)
    write_info(tmp_path, BakeoffInfo(tuned_on=["tuned"]))
    board = read_leaderboard(tmp_path)
    assert set(board.methods) == {"vw-bag", "vw-cover", "viewucb"}
    assert board.apart["vw-bag-zero"].startswith("count silence as 0")
    half = next(setting for setting in board.silence if setting[0] == "mcar:0.5")
    pairs = board.zero_pairs("vw-bag-zero", half)
    assert [(one.method, two.method, one.data) for one, two in pairs] == [
        ("vw-bag", "vw-bag-zero", "one"),
        ("vw-bag", "vw-bag-zero", "two"),
    ]
    assert board.zero_pairs("vw-cover-zero", half) == [], "its run failed"
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?</td>", Tables(board).zeros())]
    assert cells[:8] == ["62.5", "52.5", "-10.0", "0 / 0 / 2", "42.5", "12.5", "-30.0", "0 / 0 / 2"]
    assert "Zeros</h3>" in write_leaderboard(tmp_path)[0].read_text(encoding="utf-8")


def test_settings_are_on_one_axis_and_have_one_without_it():
    alone = ("mcar:0.9", "fixed:0.0", "none:0.0", None, None)
    changed = {
        "silence": alone,
        "mechanism": ("reward:0.9", *alone[1:]),
        "delay": ("mcar:0.9", "half:100.0", *alone[2:]),
        "drift": (*alone[:2], "labels:0.5", None, None),
        "restart": (*alone[:3], 0.0, None),
        "memory": (*alone[:4], 200),
        "several at once": (*alone[:3], 0.5, 200),
    }
    for axis, setting in changed.items():
        assert axis_of(setting) == axis
        assert without(setting) == alone


def test_the_change_on_an_axis_is_paired_by_data_set(tmp_path):
    records = []
    for name, plain, late in (("d0", 0.8, 0.7), ("d1", 0.6, 0.55), ("d2", 0.9, None), ("digits", 0.5, 0.1)):
        records.append(invented("viewucb", name, "mcar:0.9", result=plain))
        records.append(invented("viewucb", name, "mcar:0.9", result=late, delay="fixed:5.0"))
    records.append(invented("viewucb", "d3", "mcar:0.9", result=0.1, delay="fixed:5.0"))
    board = board_of(tmp_path, records, tuned_on=["digits"])
    (setting,) = board.on_axis("delay")
    assert board.change("viewucb", setting) == pytest.approx(-0.075)
    assert ">-7.5</button>" in write_leaderboard(tmp_path)[0].read_text(encoding="utf-8")


def test_every_cell_in_which_another_is_ahead_is_listed(tmp_path):
    rng = np.random.default_rng(3)
    methods, data = ["viewucb", "linucb", "knn"], ["d0", "d1", "digits"]
    means = {key: float(rng.integers(5)) / 8 for key in itertools.product(data, RATES, methods)}
    records = [invented(m, d, f"mcar:{rate}", result=result) for (d, rate, m), result in means.items()]
    board = board_of(tmp_path, records, tuned_on=["digits"])
    expected = {
        (d, rate): sorted(m for m in methods if means[d, rate, m] > means[d, rate, "viewucb"])
        for d, rate in itertools.product(data, RATES)
    }
    found = {
        (ahead.data, float(ahead.setting[0].split(":")[1])): sorted(cell.method for cell in ahead.cells)
        for ahead in board.not_first()
    }
    assert found == {key: names for key, names in expected.items() if names}
    for ahead in board.not_first():
        assert ahead.cells[0].mean == max(cell.mean for cell in ahead.cells)


def test_graded_rewards_are_ranked_and_never_averaged_with_accuracies(tmp_path):
    records = [
        invented(method, name, result=result, graded=name == "graded")
        for method, results in {"viewucb": (0.8, 0.3), "linucb": (0.6, 0.4)}.items()
        for name, result in zip(("d", "graded"), results, strict=True)
    ]
    records.append(invented("knn", "graded", result=None, graded=True))  # does not say that rewards are graded
    records.append(invented("knn", "d", result=0.1))
    board = board_of(tmp_path, records)
    assert list(board.data) == ["d", "graded"], "a failed run is on the same data set"
    viewucb = next(standing for standing in board.standings if standing.method == "viewucb")
    assert {measure.name: mean for measure, mean in viewucb.means.items()} == {"right": 0.8, "mean reward": 0.3}
    assert board.mean_ranks == {"linucb": 1.5, "viewucb": 1.5, "knn": 3.0}
    (cell,) = [cell for cell in board.cells.values() if (cell.method, cell.data) == ("linucb", "graded")]
    assert cell.regret == pytest.approx(600 * 0.5)
    (cell,) = [cell for cell in board.cells.values() if (cell.method, cell.data) == ("linucb", "d")]
    assert cell.regret == pytest.approx(600 * 0.4), "wrong choices"
    assert board.regret_rate("linucb") == pytest.approx(1000 * (300 + 240) / 1200)
    html = write_leaderboard(tmp_path)[0].read_text(encoding="utf-8")
    assert ">0.300</button>" in html
    assert ">80.0</button>" in html
    assert board.constant_arm("graded", board.silence[0]) == ("a", 0.4)


def test_later_runs_of_the_same_cell_and_seed_replace_earlier_ones(tmp_path):
    first = invented("viewucb", "d", result=0.2, id="0" * 16)
    board = board_of(tmp_path, [first, invented("viewucb", "d", result=0.8)])
    assert [record.result for record in board.runs] == [0.8]
    assert "1 runs were repeated later" in write_leaderboard(tmp_path)[0].read_text(encoding="utf-8")


def test_runs_of_fewer_steps_are_not_compared_with_longer_ones(tmp_path):
    """A quick bake-off in the folder of a longer one replaced the runs of its methods, beside those of the others."""
    long = [invented(method, "d", steps=1000, result=0.8) for method in ("viewucb", "knn")]
    short = [
        invented(method, "d", steps=300, result=0.4, id=f"short {method}") for method in ("viewucb", "knn", "linucb")
    ]
    elsewhere = invented("linucb", "d", "mcar:0.9", steps=300)
    failed = invented("static", "d", result=None)
    for i, records in enumerate(([*long, *short], [*short, *long])):
        board = board_of(tmp_path / str(i), [*records, elsewhere, failed])
        results = {(record.method, record.missing): record.result for record in board.runs}
        assert results == {
            ("viewucb", "mcar:0.5"): 0.8,
            ("knn", "mcar:0.5"): 0.8,
            ("static", "mcar:0.5"): None,
            ("linucb", "mcar:0.9"): 0.5,
        }
        assert board.replaced == 3


def test_the_table_of_the_terminal_tells_close_rates_apart_and_shows_names_as_they_are(tmp_path):
    """99.5 and 99.9 % were both columns called 100%, with the ranks of the last; brackets were read as markup."""
    own = "command:sh agent.sh [/x] [bold]"
    results = {"mcar:0.995": {"viewucb": 0.8, own: 0.2}, "mcar:0.999": {"viewucb": 0.2, own: 0.8}}
    records = [
        invented(method, "d", missing, result=result)
        for missing, of_method in results.items()
        for method, result in of_method.items()
    ]
    table = leaderboard_table(board_of(tmp_path, records))
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    rows = [[cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in console.file.getvalue().splitlines()]
    shown = {row[0]: row[3:5] for row in rows if row}
    assert shown == {"method": ["99.5%", "99.9%"], "viewucb": ["1.0", "2.0"], own: ["2.0", "1.0"]}


def sample(folder, **options):
    """A folder with a bit of everything: peers, your own, graded rewards, other axes, failures, what was left out."""
    methods = ["viewucb", "vw-squarecb", "linucb", "extratrees", "static", EVIL, "oracle-full", "knn", "logreg"]
    methods += ["vw-bag", "vw-cover", "majority", "rogcn", "gcnucb", "vw-regcb", "vw-bag-zero"]
    settings = [{"delay": "geometric:20.0"}, {"missing": "context:0.9"}, {"max_nodes": 200}, {"restart": 0.5}]
    data = ["cnae9", "cora", "digits", "<b>mine</b>", "obd"]
    records = big_bakeoff(methods, data, rates=RATES, seeds=2, settings=settings, graded=["obd"], **options)
    records[5] = invented("viewucb", records[5].dataset, records[5].missing, seed=records[5].seed, result=None)
    write_runs(folder, records)
    left_out = {"cb-bootstrapped": {"cora": "<i>too slow</i>"}, "static": {"other": "no start"}}
    write_info(folder, BakeoffInfo(title="<u>Ours</u>", size="quick", tuned_on=["digits"], left_out=left_out))
    (folder / "commands.txt").write_text("taciturn bakeoff </script><script>alert(2)</script>\n", encoding="utf-8")
    return records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("bakeoff")
    sample(target)
    write_leaderboard(target)
    return target


def test_the_same_runs_give_the_same_bytes_in_any_order(folder, tmp_path):
    names = ("leaderboard.html", "leaderboard.json", "leaderboard.md")
    before = [(folder / name).read_bytes() for name in names]
    page, data = write_leaderboard(folder)
    assert (page, data) == (folder / names[0], folder / names[1])
    assert [(folder / name).read_bytes() for name in names] == before
    records = sample(tmp_path)
    shuffled = np.random.default_rng(1).permutation(len(records))
    write_runs(tmp_path, [records[i] for i in shuffled])
    write_leaderboard(tmp_path)
    assert [(tmp_path / name).read_bytes() for name in names] == before


def test_text_of_users_is_escaped_and_nothing_is_loaded(folder):
    html = (folder / "leaderboard.html").read_text(encoding="utf-8")
    for text in ("<script>alert", "<b>mine", "<i>too", "<u>Ours"):
        assert text not in html
        assert text.replace("<", "&lt;").replace(">", "&gt;") in html
    assert html.count("<script") == 2
    assert html.count("</script>") == 2, "the runs cannot end their element"
    assert "{{body}}" in html, "braces of a name stay what they are"
    assert not re.findall(r'src\s*=|href="(?!#)|url\(|@import|https?://', html)
    assert not re.findall(r"(?i)\bnan\b", html.partition("<script")[0])


def html_rows(html, title):
    """The rows of the first table behind a heading, as lists of texts."""
    table = html.partition(f">{title}</h2>")[2].partition("<table")[2].partition("</table>")[0]
    lines = table.partition("<tbody>")[2].split("</tr>")[:-1]
    cells = [re.split(r"<(?:td|th)[^>]*>", line)[1:] for line in lines]
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in line] for line in cells]


def test_the_json_agrees_with_the_page_and_the_markdown(folder):
    html = (folder / "leaderboard.html").read_text(encoding="utf-8")
    content = json.loads((folder / "leaderboard.json").read_bytes())
    assert {key: content[key] for key in ("format", "title", "size", "recommended")} == {
        "format": 1,
        "title": "<u>Ours</u>",
        "size": "quick",
        "recommended": "viewucb",
    }
    assert content["left_out"]["cb-bootstrapped"] == {"cora": "<i>too slow</i>"}
    rows = html_rows(html, "Leaderboard")
    assert len(rows) == len(content["overall"]) == 14  # without the one of zeros and the one that is told
    markdown = (folder / "leaderboard.md").read_text(encoding="utf-8").splitlines()[2:]
    for row, line, overall in zip(rows, markdown, content["overall"], strict=True):
        tally = overall["against_recommended"]
        shown = "–" if tally is None else f"{tally['won']} / {tally['tied']} / {tally['lost']}"
        per_rate = [f"{ranked['mean_ranks'][overall['method']]:.1f}" for ranked in content["ranks"]]
        means = overall["means"]
        expected = [
            f"{overall['mean_rank']:.2f}",
            *per_rate,
            shown,
            f"{100 * means['right']:.1f}",
            f"{means['mean reward']:.3f}",
            f"{overall['ms_per_step']:.2f}",
            f"{overall['mb']:.0f}",
        ]
        assert row[2:] == expected
        assert line == f"| {overall['method']} | {library_of(overall['method'])} | {' | '.join(expected)} |"
    assert [len(ranked["mean_ranks"]) for ranked in content["ranks"]] == [14, 14, 14]
    assert all(ranked["data_sets"] == 4 and ranked["critical_difference"] > 0 for ranked in content["ranks"])
    apart = {method["name"] for method in content["methods"] if "not_ranked" in method}
    assert apart == {"oracle-full", "cb-bootstrapped", "vw-bag-zero"}
    assert {data["name"]: data["ranked"] for data in content["data"]}["digits"] is False


def test_the_cells_of_the_json_are_those_of_the_runs(folder):
    content = json.loads((folder / "leaderboard.json").read_bytes())
    records = {record.id: record for record in read_leaderboard(folder).runs}
    assert sorted(id for cell in content["cells"] for id in cell["runs"]) == sorted(records)
    for cell in content["cells"]:
        runs = [records[id] for id in cell["runs"]]
        results = [record.result for record in runs if record.result is not None]
        assert {record.method for record in runs} == {cell["method"]}
        assert {record.setting_key for record in runs} == {
            tuple(cell["setting"][name] for name in ("missing", "delay", "drift", "restart", "max_nodes"))
        }
        assert cell["mean"] == pytest.approx(np.mean(results))
        assert (cell["seeds"], cell["failed"]) == (len(results), len(runs) - len(results))
        if len(results) > 1:
            assert cell["deviation"] == pytest.approx(np.std(results, ddof=1))


def page_runs(html):
    return json.loads(re.search(r'id="runs">(.*?)</script>', html, re.DOTALL)[1])


def test_every_number_opens_runs_that_there_are(folder):
    html = (folder / "leaderboard.html").read_text(encoding="utf-8")
    content = page_runs(html)
    assert len(content["runs"]) == len(read_leaderboard(folder).runs)
    buttons = re.findall(r"<button((?: data-\w=\"[\d,]+\")+)>", html)
    assert len(buttons) > 300
    for button in buttons:
        given = {key: {*map(int, places.split(","))} for key, places in re.findall(r'data-(\w)="([\d,]+)"', button)}
        data, settings = given.get("d", {*content["ranked"]}), given.get("s", {*content["silence"]})
        found = [run for run in content["runs"] if run[1] in data and run[2] in settings and run[3] in given["m"]]
        assert found, button
        assert {run[3] for run in found} == given["m"], button


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "There are no runs in this folder yet"),
        ([invented("viewucb", result=None), invented("knn", result=None)], "All runs failed"),
        ([invented("viewucb", "digits")], "peers were tuned on the others"),
        ([invented("viewucb", delay="fixed:2.0")], "No runs have rewards missing at random"),
        ([invented("viewucb")], "needs three methods and two data sets"),
        ([invented("knn"), invented("linucb")], "viewucb, the recommended method, has no ranked runs"),
        ([invented("viewucb", f"d{i}") for i in range(3)], "the same rate of silence"),
        ([invented(m, d) for m in ("viewucb", "knn", "linucb") for d in "ab"], "needs three methods and two data sets"),
        ([invented("viewucb", missing=f"mcar:{rate}") for rate in RATES], "No other method has a higher mean"),
        ([invented("viewucb", peak_memory_mb=None), invented("knn")], ">–</td>"),
    ],
)
def test_a_folder_that_lacks_something_says_what(tmp_path, records, said):
    write_runs(tmp_path, records)
    write_info(tmp_path, BakeoffInfo(tuned_on=["digits"]))
    page, data = write_leaderboard(tmp_path)
    assert said in page.read_text(encoding="utf-8")
    assert json.loads(data.read_bytes())["format"] == 1


def test_without_a_description_the_defaults_hold_and_a_wrong_one_is_refused(tmp_path):
    assert read_info(tmp_path) == BakeoffInfo()
    assert BakeoffInfo() == BakeoffInfo(
        title="The silence bake-off", size="own", tuned_on=[], recommended="viewucb", left_out={}
    )
    given = BakeoffInfo(title="t", size="full", tuned_on=["a"], recommended="knn", left_out={"m": {"d": "why"}})
    write_info(tmp_path, given)
    assert read_info(tmp_path) == given
    (tmp_path / "bakeoff.json").write_text('{"size": "huge"}', encoding="utf-8")
    with pytest.raises(TaciturnError, match=r"bakeoff\.json does not describe a bake-off: .*huge"):
        read_info(tmp_path)


def test_libraries_are_named():
    assert library_of("viewucb") == library_of("knn") == "taciturn"
    assert {name for name in METHODS if library_of(name) == "scikit-learn"} == {
        "labelspreading",
        "logreg",
        "extratrees",
        "static",
    }
    assert {library_of(name) for name in PEERS} == {"vowpalwabbit", "contextualbandits", "mabwiser", "river"}
    assert library_of("package.module:Class") == library_of("command:./mine") == "yours"


def test_pictures_show_the_best_of_each_library_and_at_most_ten(tmp_path):
    weak = ["river-linucb", "static", "command:mine"]
    names = ["viewucb", *(name for name in METHODS if name not in ("viewucb", *weak, "oracle-full")), *weak]
    records = [invented(m, d, result=0.9 - 0.01 * i) for i, m in enumerate(names) for d in ("a", "b")]
    board = board_of(tmp_path, records)
    assert len(board.shown_methods) == 10
    assert {"viewucb", "linucb", *weak} <= {*board.shown_methods}
    assert {library_of(method) for method in board.shown_methods} == {library_of(method) for method in names}
    assert board.shown_methods == [method for method in board.methods if method in board.shown_methods]


def test_a_line_has_points_where_its_method_finished_all_ranked_data_sets(tmp_path):
    results = {"a": (0.9, 0.8), "b": (0.5, 0.4), "digits": (0.1, 0.1), "graded": (0.3, 0.3)}
    records = [
        invented(method, name, f"mcar:{rate}", result=result, graded=name == "graded")
        for name, by_rate in results.items()
        for rate, result in zip((0.0, 0.5), by_rate, strict=True)
        for method in ("viewucb", "knn")
        if (method, name, rate) != ("knn", "b", 0.5)
    ]
    board = board_of(tmp_path, records, tuned_on=["digits"])
    right, reward = board.ranked_measures
    assert board.complete_means("viewucb", right) == [(0, pytest.approx(0.7)), (1, pytest.approx(0.6))]
    assert board.complete_means("knn", right) == [(0, pytest.approx(0.7))]
    assert board.complete_means("knn", reward) == [(0, 0.3), (1, 0.3)]
    draw_leaderboard(tmp_path, tmp_path / "one.svg")


def test_the_picture_is_drawn_as_png_and_the_same_svg(folder, tmp_path):
    for name in ("one.png", "one.svg", "two.svg"):
        draw_leaderboard(folder, tmp_path / name)
    assert (tmp_path / "one.png").stat().st_size > 20_000
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    with pytest.raises(TaciturnError, match="nothing to draw"):
        draw_leaderboard(tmp_path, tmp_path / "three.svg")


def test_five_thousand_runs_are_a_page_below_three_megabytes(tmp_path):
    methods = [*METHODS, *PEERS][:36]
    data = [f"data-{i}" for i in range(14)]
    rates = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    settings = [{"delay": "geometric:20.0"}, {"missing": "context:0.9"}, {"max_nodes": 200}]
    records = big_bakeoff(methods, data, rates=rates, seeds=1, settings=settings)
    assert len(records) > 5000
    write_runs(tmp_path, records)
    page, _ = write_leaderboard(tmp_path)
    assert page.stat().st_size < 3_000_000


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


@pytest.fixture
def window(browser, folder):
    opened = Window(browser)
    opened.open((folder / "leaderboard.html").as_uri())
    return opened


def opened_runs(window):
    """The texts of the rows of the open dialog; None where it is closed."""
    if not window.run("return document.querySelector('dialog').open"):
        return None
    return window.run(
        "return [...document.querySelectorAll('dialog tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )


def test_a_number_opens_its_runs_by_mouse_and_keyboard_and_escape_closes_them(window, folder):
    assert opened_runs(window) is None
    row = next(row for row in window.all("table.sortable tbody tr") if row.text.startswith("viewucb"))
    button = row.find_elements("css selector", "button")[2]
    button.click()
    rows = opened_runs(window)
    board = read_leaderboard(folder)
    middle = [r for r in board.runs if (r.method, r.missing, r.delay) == ("viewucb", "mcar:0.5", "fixed:0.0")]
    expected = {r.id for r in middle if r.dataset != "digits" and not r.max_nodes and r.restart is None}
    assert {row[7] for row in rows} == expected
    shown = {r.id: f"{r.result:.3f}" if r.mean_reward is not None else f"{100 * r.result:.1f} %" for r in middle}
    assert all(row[0] == shown[row[7]] for row in rows)
    assert {row[2] for row in rows} == {"50% silent"}
    assert window.find("#runs-title").text == f"50%: {button.text}"
    window.press("\ue00c")  # Escape
    assert opened_runs(window) is None
    assert window.run("return document.activeElement === arguments[0]", button), "the focus is where it was"
    window.press("\ue007")  # Enter
    assert {row[7] for row in opened_runs(window)} == expected
    window.find("#runs-close").click()
    assert opened_runs(window) is None
    window.press("\ue00d")  # Space, on the number again
    assert opened_runs(window)
    assert window.errors() == []


def test_numbers_are_reached_by_tab_with_a_visible_focus(window):
    window.tab_to("td button[data-m]")
    window.press("\ue007")
    assert opened_runs(window)


def test_a_failed_run_shows_its_error_and_text_of_users_stays_text(window):
    failed = [cell for cell in window.all("td button[data-m]") if "failed" in cell.get_attribute("textContent")]
    window.run("arguments[0].click()", failed[0])
    assert "ValueError: it failed" in [row[8] for row in opened_runs(window)]
    window.press("\ue00c")
    evil = next(row for row in window.all("table.sortable tbody tr") if "alert(1)" in row.text)
    evil.find_element("css selector", "button").click()
    assert EVIL in {row[3] for row in opened_runs(window)}
    assert window.run("return document.querySelectorAll('script').length") == 2


def test_a_checked_method_is_drawn_and_labels_do_not_overlap(window):
    window.run("for (const details of document.querySelectorAll('details')) details.open = true")
    boxes = window.all("input[type=checkbox]")
    assert sum(box.is_selected() for box in boxes) == 10 < len(boxes)

    def drawn():
        groups = window.all("#silence-chart figure:first-of-type g[data-line]:not([hidden])")
        return [group.get_attribute("data-line") for group in groups]

    def gaps():
        labels = window.all("#silence-chart figure:first-of-type g[data-line]:not([hidden]) text")
        return np.diff(sorted(float(label.get_attribute("y")) for label in labels))

    assert min(gaps()) >= 14.9
    for box in sorted(boxes, key=lambda box: box.is_selected()):
        name, was_drawn = box.get_attribute("value"), box.is_selected()
        assert (name in drawn()) == was_drawn
        box.send_keys(" ")  # by keyboard
        assert (name in drawn()) == (not was_drawn)
        assert len(drawn()) < 2 or min(gaps()) >= 14.9


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_does_not_scroll_sideways_and_dark_mode_is_dark(window, folder, dark):
    window.open((folder / "leaderboard.html").as_uri(), 360, 740, dark=dark)
    window.run("for (const details of document.querySelectorAll('details')) details.open = true")
    assert window.fits()
    window.find("td button[data-m]").click()
    assert window.fits()
    right = window.run("return document.querySelector('dialog').getBoundingClientRect().right")
    assert right <= 360
    paper = window.run("return getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", paper)[:3])) < 120 if dark else paper == "rgb(255, 255, 255)"
    assert window.errors() == []
    assert all(url.startswith("file://") for url in window.requested())


def test_columns_are_sorted_and_what_has_no_number_is_last_both_ways(window):
    table = window.find("table.sortable")
    button = table.find_elements("css selector", "thead button")[6]
    for down in (False, True):
        button.click()
        texts = [cell.text for cell in table.find_elements("css selector", "tbody td:nth-child(7)")]
        assert texts[-1] == "–"
        wins = [int(text.split()[0]) for text in texts[:-1]]
        assert wins == sorted(wins, reverse=down)
