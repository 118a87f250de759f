"""The report: its page, tables, figures and tests of significance; the page also in a real browser."""

import re

import numpy as np
import pytest

from browser_kit import chromium
from taciturn import figure_style
from taciturn.errors import TaciturnError
from taciturn.experiments.checks import toy_data
from taciturn.experiments.recorder import read_runs
from taciturn.experiments.reproduce import write_spaces
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand
from taciturn.reports import curves, figures, page, ranks, tables


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    several = Experiment(
        datasets=[toy_data(), toy_data(seed=9)],
        methods=["linucb", "rogcn", "gcnucb"],
        missing=[0.2, 0.6],
        delay=[0, "geometric:3"],
        seeds=range(3),
        steps=45,  # beyond those that curves leave out
        params={"ties": "first"},
    )
    list(execute(expand(several), folder, command="taciturn run <script>alert(1)</script>"))
    write_spaces(folder, toy_data(), rows=40)
    page.write_report(folder, figures.write_figures(folder, page.finished_runs(folder)))
    return folder


def test_the_page_loads_nothing_and_escapes_user_text(results):
    html = (results / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"src\s*=|url\(|@import|https?://|<link", html), "the page loads nothing"
    links = re.findall(r'href="([^"]*)">([A-Z]+)<', html)
    assert len(links) == html.count("href") == 8 * 3
    assert all((results / file).is_file() and file.endswith(kind.lower()) for file, kind in links)
    assert "<script>alert" not in html, "user text is escaped"
    assert "&lt;script&gt;alert(1)" in html
    for title in ("Summary", "Accuracy", "Significance", "Running accuracy", "Context spaces", "Runs"):
        assert f">{title}</h2>" in html
    assert html.count("<svg") >= 8 + 4 + 8 + 2
    assert not re.findall(r"(?i)\bnan\b", html.partition("<script>")[0])
    for record in read_runs(results):
        assert record.id in html


def test_a_method_has_one_colour_in_the_page_and_in_its_files(results):
    html = (results / "report.html").read_text(encoding="utf-8")
    files = sorted((results / "figures").glob("*.svg"))
    assert len(files) == 8
    for file in files:
        drawn = file.read_text(encoding="utf-8")
        for number, method in enumerate(["gcnucb", "linucb", "rogcn"]):
            assert re.search(rf'class="f{number}" [^>]*>{method}', html)
            marks = re.findall(rf"<!-- {method} .*?(?:fill|stroke): (#\w+)", drawn, re.DOTALL)
            ink = tuple(round(255 * part) for part in figure_style.look(number).ink)
            assert marks[0] == "#{:02x}{:02x}{:02x}".format(*ink)


def test_tables_are_written_as_markdown_and_latex(results):
    markdown = (results / "tables.md").read_text(encoding="utf-8")
    latex = (results / "tables.tex").read_text(encoding="utf-8")
    assert markdown.count("| gcnucb |") == latex.count("& gcnucb &") == 8
    rows = tables.accuracy_rows(page.finished_runs(results))
    marks = [row.mark for row in rows]
    assert latex.count(r"\textbf") == markdown.count("**") / 2 == marks.count("first")
    assert latex.count(r"$^\ddagger$") == marks.count("level") > 0
    assert tables.note(rows) in markdown
    for text in re.findall(r"(\d+\.\d) % \[(\d+\.\d), (\d+\.\d)\]", markdown):
        mean, low, high = map(float, text)
        assert 0 <= low <= mean <= high <= 100
    assert "±" not in markdown + latex
    assert "20\\%" in latex


def test_a_report_written_again_is_the_same(results):
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    assert sum(path.parent.name == "figures" for path in before) == 24
    assert {path.suffix for path in before if path.parent.name == "figures"} == {".svg", ".png", ".pdf"}
    page.write_report(results, figures.write_figures(results, page.finished_runs(results)))
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before


def test_titles_that_differ_by_signs_alone_have_files_of_their_own():
    taken = []
    for title in ("数据, 50% silent", "資料, 50% silent", "50 % silent", "?", "!"):
        taken.append(figures._new_stem(title, taken))
    assert taken == ["50-silent", "50-silent-2", "50-silent-3", "figure", "figure-2"]


@pytest.mark.parametrize("steps", [1, 20, 21])
def test_streams_shorter_than_the_skipped_steps_are_drawn(tmp_path, steps):
    """Regression: figures raised IndexError for streams of 20 steps or fewer, whose every step was skipped."""
    short = Experiment(datasets=[toy_data()], methods=["linucb", "majority"], seeds=range(2), steps=steps)
    records = list(execute(expand(short), tmp_path))
    for curve in curves.accuracy_curves(tmp_path, records):
        (last,) = curve.steps
        accuracies = [100 * record.accuracy for record in records if record.method == curve.label]
        assert (last, curve.mean[-1]) == (steps, pytest.approx(np.mean(accuracies)))
    page.write_report(tmp_path)
    assert [len(files) for files in figures.write_figures(tmp_path, records).values()] == [3]


def test_rows_say_which_are_references_and_the_constant_arm(tmp_path):
    short = Experiment(datasets=[toy_data()], methods=["linucb", "majority"], seeds=[0], steps=10)
    rows = tables.accuracy_rows(list(execute(expand(short), tmp_path)))
    assert [row.kind for row in rows] == ["constant arm", "method", "reference"]


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(TaciturnError, match="no finished runs"):
        page.write_report(tmp_path)


def test_a_method_that_always_wins_is_significantly_better_and_equal_ones_are_not():
    class Record:
        def __init__(self, method, block, seed, accuracy):
            self.method, self.data_key, self.setting_key = method, block, ("mcar:0.5", "fixed:0")
            self.seed, self.result = seed, accuracy

    rng = np.random.default_rng(0)
    gains = {"best": 0.3, "second": 0.0, "third": 0.0}
    records = [
        Record(method, block, seed, 0.4 + gain + 0.05 * rng.random())
        for block in range(8)
        for seed in range(3)
        for method, gain in gains.items()
    ]
    ranked = ranks.ranking(records)
    assert next(iter(ranked.mean_ranks)) == "best"
    assert ranked.mean_ranks["best"] == 1.0
    assert ranked.friedman < 0.01
    tests = {(test.better, test.worse): test for test in ranks.paired_tests(records)}
    assert tests["best", "second"].p < 0.001
    assert tests["best", "third"].difference == pytest.approx(30, abs=2)
    equal = next(test for pair, test in tests.items() if "best" not in pair)
    assert equal.p > 0.05
    assert ranks.ranking(records[:3]) is None


@pytest.fixture(scope="module")
def browser():
    with chromium("--window-size=390,800") as driver:
        yield driver


def test_a_browser_shows_and_sorts_the_page_without_requests(browser, results):
    browser.get((results / "report.html").as_uri())
    assert browser.title == "taciturn: toy"
    table = browser.find_element("css selector", "table.sortable")
    button = table.find_elements("css selector", "th button")[3]

    def column():
        return [float(cell.text.split()[0]) for cell in table.find_elements("css selector", "td:nth-child(4)")]

    before = column()
    button.click()
    assert column() == sorted(before) != before
    button.send_keys("\n")  # by keyboard
    assert column() == sorted(before, reverse=True)
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "descending"
    lines = browser.find_elements("css selector", "svg.chart polyline")
    assert len(lines) >= 24
    assert all(line.size["width"] > 50 for line in lines[:6]), "the curves are drawn on a narrow screen too"
    width = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1], "nothing overflows a phone's screen"
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    requests = [
        entry["message"]
        for entry in browser.get_log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
    ]
    assert requests
    assert all('"url":"file://' in message for message in requests), "no request to any host"
