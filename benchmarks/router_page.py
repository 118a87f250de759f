"""Write the tables and the picture of docs/router-story.md from what router.py has measured.

python benchmarks/router_page.py

What stands between the marks of a block in the page is written anew; the rest of the page is as it was.
"""

import json
import re
from pathlib import Path

import numpy as np
from scipy import stats

from router import BLOCK, LONG, OTHERS, ROUTER, SHORT, STATIC, Case

DOCS = Path(__file__).parent.parent / "docs"
STORY, RUNS, PICTURE = DOCS / "router-story.md", DOCS / "router-story.json", DOCS / "router-story.png"
RATES = (0.5, 0.9, 0.95, 0.99)
THOUSANDS = ((0, 1000), (1000, 2000), (2000, 3000))
WINDOWS = ((0, 1000), (1000, 3000), (3000, 6000), (6000, 10_000))
WHO = {
    "anybody": "anybody, whether pleased or not",
    "pleased": "the pleased, three times as often",
    "angry": "the angry, three times as often",
    "only angry": "only the angry",
}
NAMES = {
    "banking77, 20 intents": "20 of the bank's 77 queues",
    "debian": "Debian's packages by their one-line descriptions, 35 sections",
    "cnae9": "CNAE-9, business descriptions as word counts, 9 categories",
}


class Runs:
    """All runs, and what they say of one setting, seed by seed."""

    def __init__(self, runs):
        self.runs = [(Case(**one["case"]), one) for one in runs]

    def of(self, method=ROUTER, *, data="banking77", examples=3, silent=1.0, answers="anybody", messages=0):
        """Return the longest run of each seed that has so many messages: {seed: run}."""
        wanted = (data, method, examples, silent, answers)
        fitting = [
            (case, one)
            for case, one in self.runs
            if (case.data, case.method, case.examples, case.silent, case.answers) == wanted
            and case.messages >= messages
        ]
        return {case.seed: one for case, one in sorted(fitting, key=lambda pair: pair[0].messages)}

    def right(self, window, method=ROUTER, **setting):
        """Return the share of right decisions in a window of messages: {seed: share}."""
        of = {seed: one["right"] for seed, one in self.of(method, **setting).items()}
        return {seed: share(blocks, window) for seed, blocks in of.items()}

    def static(self, window, *, data="banking77", examples=3):
        """Return the same of the classifier that never learns: the better one on average, and its name."""
        of = {seed: one["right"] for seed, one in self.of(STATIC, data=data, examples=examples).items()}
        names = next(iter(of.values()))
        found = {name: {seed: share(blocks[name], window) for seed, blocks in of.items()} for name in names}
        best = max(found, key=lambda name: np.mean(list(found[name].values())))
        return found[best], best


def share(blocks, window):
    """Return the share of right decisions in a window; one that ends later than the stream ends with it."""
    first, last = window[0] // BLOCK, min(window[1] // BLOCK, len(blocks))
    return sum(blocks[first:last]) / (BLOCK * (last - first))


def percent(shares):
    """Return a mean over seeds in percent and the half width of its interval of 95 %."""
    values = 100 * np.array(list(shares))
    if len(values) < 2:  # no interval
        return f"{values.mean():.1f}" if len(values) else ""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.1f} ± {half:.1f}"


def difference(ours, theirs):
    """Return the mean difference in points over the seeds that both have, and its interval."""
    text = percent(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys()))
    return text if text.startswith("-") else f"+{text}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def accuracy(runs, examples):
    """The router and the others at the four rates, over all messages and over the last third."""
    of = {rate: {"silent": rate, "examples": examples} for rate in RATES}
    rows = [["runs", *[str(len(runs.of(**of[rate]))) for rate in RATES]]]
    rows += [["thumbs in 3000 messages", *[thumbs(runs, **of[rate]) for rate in RATES]]]
    for window, label in (((0, SHORT), ""), ((SHORT * 2 // 3, SHORT), ", last 1000")):
        ours = [runs.right(window, **of[rate]) for rate in RATES]
        static, name = runs.static(window, examples=examples)
        rows.append([f"**router**{label}", *[percent(one.values()) for one in ours]])
        rows.append([f"static{label} ({name})", *[percent(static[seed] for seed in one) for one in ours]])
        rows.append([f"difference{label}", *[difference(one, static) for one in ours]])
    for method in ("linucb", "knn"):
        shares = [percent(runs.right((0, SHORT), method, **of[rate]).values()) for rate in RATES]
        rows += [[f"`{method}`", *shares]] if any(shares) else []
    return table([f"{examples} examples a queue, silent", *[shown(rate) for rate in RATES]], rows)


def five(runs):
    """The same with five examples, where that was measured."""
    known = runs.of(silent=RATES[0], examples=5)
    return f"With five examples a queue:\n\n{accuracy(runs, 5)}" if known else ""


def thumbs(runs, upto=SHORT, **setting):
    """Return how many thumbs came in so many messages, on average over the seeds, rounded."""
    found = [(one["up"] + one["down"]) * min(upto / one["messages"], 1.0) for one in runs.of(**setting).values()]
    return f"{np.mean(found):.0f}" if found else ""


def buys(runs):
    """What one thumb in a hundred messages is worth after so many of them."""
    rows, long = [], {"silent": 0.99, "messages": LONG}
    for window in WINDOWS:
        ours, (static, _) = runs.right(window, **long), runs.static(window)
        shares = percent(ours.values()), percent(static[seed] for seed in ours)
        rows.append(
            [f"{window[0] + 1} to {window[1]}", thumbs(runs, window[1], **long), *shares, difference(ours, static)]
        )
    count = len(runs.of(**long))
    return table(
        [f"messages ({count} run{'s' * (count > 1)})", "thumbs by then", "router", "static", "difference"], rows
    )


def pays(runs):
    """How far the router is ahead in each thousand of the first messages, and how many thumbs had come by its end."""
    rows = []
    for rate in RATES:
        cells = []
        for window in THOUSANDS:
            gain = difference(runs.right(window, silent=rate), runs.static(window)[0])
            cells.append(f"{gain} ({thumbs(runs, window[1], silent=rate)})")
        rows.append([shown(rate), *cells])
    return table(["silent", *[f"messages {first + 1} to {last}" for first, last in THOUSANDS]], rows)


def shown(rate):
    return f"{100 * rate:.0f} %"


def who(runs):
    """At 95 % silence, by who answers; of the seeds that all have."""
    of = {answers: found for answers in WHO if (found := runs.of(silent=0.95, answers=answers))}
    shared = set.intersection(*map(set, of.values()))
    rows = []
    for answers, found in of.items():
        counts = [f"{np.mean([found[seed][kind] for seed in shared]):.0f}" for kind in ("up", "down")]
        blocks = [found[seed]["right"] for seed in shared]
        shares = [percent(share(one, window) for one in blocks) for window in ((0, SHORT), THOUSANDS[-1])]
        rows.append([WHO[answers], *counts, *shares])
    head = f"who answers ({len(shared)} run{'s' * (len(shared) > 1)} each)"
    return table([head, "thumbs up", "thumbs down", "router", "last 1000"], rows)


def others(runs):
    """Other data, three examples an arm."""
    rows = []
    for data in OTHERS:
        if not runs.of(data=data, silent=0.9):
            continue
        count = min(one["messages"] for one in runs.of(data=data, silent=0.9).values()) // BLOCK * BLOCK
        window = (0, count)
        static, _ = runs.static(window, data=data)
        ours = [runs.right(window, data=data, silent=rate) for rate in (0.9, 0.99)]
        own = {seed: static[seed] for seed in ours[0]}
        rows.append([NAMES[data], str(count), percent(own.values()), *[percent(one.values()) for one in ours]])
    head = ["", "messages", "static", "router, 90 % silent", "router, 99 % silent"]
    return table(head, rows) if rows else ""


def examples(runs):
    """What two further examples an arm are worth to the classifier that never learns."""
    three, five = (np.mean(list(runs.static((0, LONG), examples=count)[0].values())) for count in (3, 5))
    three, five = f"{100 * three:.1f} %", f"{100 * five:.1f} %"
    return (
        f"Over 10 000 messages and five draws the static classifier is right on {three} of the messages with three "
        f"examples a queue, on {five} with five."
    )


def speed(runs):
    """Milliseconds of a decision, and how many runs there were."""
    found = [one["milliseconds"] for case, one in runs.runs if case.method == ROUTER and case.data == "banking77"]
    time = f"A decision takes {np.median(found):.0f} ms of one processor, embedding included"
    return f"{time} (median of {len(found)} runs on a busy machine)."


BLOCKS = {
    "three": lambda runs: accuracy(runs, 3),
    "five": five,
    "buys": buys,
    "examples": examples,
    "pays": pays,
    "who": who,
    "others": others,
    "speed": speed,
}


def filled(page, runs):
    """Return the page with all of its blocks as the runs say."""
    for name, written in BLOCKS.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not marks.search(page):
            raise SystemExit(f"{STORY.name} has no block {name}")
        text = written(runs)
        page = marks.sub(
            lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}" if text else found[1] + found[2], page
        )
    return page


def draw(runs, target):
    """Draw by how much the router is ahead of the classifier that never learns, seed by seed, for each rate."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    colors = plt.get_cmap("viridis")(np.linspace(0.0, 0.8, len(RATES)))
    windows = [(first, first + 2 * BLOCK) for first in range(0, SHORT, 2 * BLOCK)]
    middle = [np.mean(window) for window in windows]
    for rate, color in zip(RATES, colors, strict=True):
        pairs = [(runs.right(window, silent=rate), runs.static(window)[0]) for window in windows]
        gains = 100 * np.array([[ours[seed] - theirs[seed] for seed in sorted(ours)] for ours, theirs in pairs])
        label = f"{100 * (1 - rate):.0f} % of messages get a thumb"
        axes.plot(middle, gains.mean(axis=1), marker="o", markersize=3, color=color, label=label)
        axes.fill_between(middle, gains.min(axis=1), gains.max(axis=1), color=color, alpha=0.18, linewidth=0)
    static, name = runs.static((0, SHORT))
    level = 100 * np.mean(list(static.values()))
    axes.axhline(0, color="#b33", linestyle="--", label=f"static {name}: {level:.0f} % right")
    axes.set_xlabel("messages so far")
    axes.set_ylabel("points ahead of the static classifier")
    axes.set_title("77 queues, three examples each; bands are the range over runs", fontsize=10)
    axes.set_xlim(0, SHORT)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left")
    figure.savefig(target, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main():
    runs = Runs(json.loads(RUNS.read_text(encoding="utf-8")))
    STORY.write_text(filled(STORY.read_text(encoding="utf-8"), runs), encoding="utf-8")
    draw(runs, PICTURE)
    print(f"{STORY} written")


if __name__ == "__main__":
    main()
