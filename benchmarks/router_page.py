"""Write the tables and the picture of docs/router-story.md from what router.py has measured.

python benchmarks/router_page.py

What stands between the marks of a block in the page is written anew; the rest of the page is as it was.
"""

import json
import re
from pathlib import Path

import numpy as np
from router import BLOCK, LONG, OTHERS, ROUTER, SHORT, STATIC, Case
from scipy import stats

DOCS = Path(__file__).parent.parent / "docs"
STORY, RUNS, PICTURE = DOCS / "router-story.md", DOCS / "router-story.json", DOCS / "router-story.png"
RATES = (0.5, 0.9, 0.95, 0.99)
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
    if len(values) < 2:
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
    whole, last = (0, SHORT), (SHORT * 2 // 3, SHORT)
    rows = [["thumbs in 3000 messages", *[thumbs(runs, silent=rate, examples=examples) for rate in RATES]]]
    for window, label in ((whole, ""), (last, ", last 1000")):
        rows.append(
            [f"**router**{label}", *[percent(runs.right(window, silent=r, examples=examples).values()) for r in RATES]]
        )
        static, name = runs.static(window, examples=examples)
        rows.append([f"static{label} ({name})", *[percent(static.values())] * len(RATES)])
        differences = [difference(runs.right(window, silent=r, examples=examples), static) for r in RATES]
        rows.append([f"difference{label}", *differences])
    for method in ("linucb", "knn"):
        shares = [percent(runs.right(whole, method, silent=rate, examples=examples).values()) for rate in RATES]
        rows += [[f"`{method}`", *shares]] if any(shares) else []
    return table([f"{examples} examples a queue, silent", *[f"{rate:.0%}".replace("%", " %") for rate in RATES]], rows)


def thumbs(runs, upto=SHORT, **setting):
    """Return how many thumbs came in so many messages, on average over the seeds, rounded."""
    found = [(one["up"] + one["down"]) * min(upto / one["messages"], 1.0) for one in runs.of(**setting).values()]
    return f"{np.mean(found):.0f}" if found else ""


def buys(runs):
    """What one thumb in a hundred messages is worth after so many of them."""
    rows = []
    for window in WINDOWS:
        ours, (static, _) = runs.right(window, silent=0.99, messages=LONG), runs.static(window)
        seen = thumbs(runs, window[1], silent=0.99, messages=LONG)
        own = {seed: static[seed] for seed in ours}
        rows.append(
            [
                f"{window[0] + 1} to {window[1]}",
                seen,
                percent(ours.values()),
                percent(own.values()),
                difference(ours, static),
            ]
        )
    return table(["messages", "thumbs by then", "router", "static", "difference"], rows)


def pays(runs):
    """From which message, and which number of thumbs, on the router is better in every block of 500 messages."""
    rows = []
    for rate in RATES:
        longest = LONG if rate == 0.99 else SHORT
        windows = [(first, first + 2 * BLOCK) for first in range(0, longest, 2 * BLOCK)]
        gains = []
        for window in windows:
            ours, (static, _) = runs.right(window, silent=rate, messages=longest), runs.static(window)
            gains.append(np.mean([ours[seed] - static[seed] for seed in ours]))
        behind = [place for place, gain in enumerate(gains) if gain <= 0]
        first = behind[-1] + 1 if behind else 0
        if first == len(gains):
            rows.append([f"{rate:.0%}".replace("%", " %"), f"not within {longest}", ""])
        else:
            since = first * 2 * BLOCK
            rows.append([f"{rate:.0%}".replace("%", " %"), str(since), f"{since * (1 - rate):.0f}"])
    return table(["silent", "ahead from message", "thumbs by then"], rows)


def who(runs):
    """At 95 % silence, by who answers."""
    rows = []
    for answers, name in WHO.items():
        found = runs.of(silent=0.95, answers=answers)
        counts = [f"{np.mean([one[kind] for one in found.values()]):.0f}" for kind in ("up", "down")]
        windows = (0, SHORT), (SHORT * 2 // 3, SHORT)
        few = [{s: v for s, v in runs.right(w, silent=0.95, answers=answers).items() if s < 3} for w in windows]
        rows.append([name, *counts, *[percent(shares.values()) for shares in few]])
    return table(["who answers", "thumbs up", "thumbs down", "router", "last 1000"], rows)


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
    return table(["", "messages", "static", "router, 90 % silent", "router, 99 % silent"], rows)


def speed(runs):
    """Milliseconds of a decision, and how many runs there were."""
    found = [one["milliseconds"] for case, one in runs.runs if case.method == ROUTER and case.data == "banking77"]
    time = f"A decision takes {np.median(found):.0f} ms of one processor, embedding included"
    return f"{time} (median of {len(found)} runs on a busy machine)."


BLOCKS = {
    "three": lambda runs: accuracy(runs, 3),
    "five": lambda runs: accuracy(runs, 5),
    "buys": buys,
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
        page = marks.sub(lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}", page)
    return page


def draw(runs, target):
    """Draw the share of right decisions by message for each rate, with the classifier that never learns."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    colors = plt.get_cmap("viridis")(np.linspace(0.0, 0.8, len(RATES)))
    for rate, color in zip(RATES, colors, strict=True):
        longest = LONG if rate == 0.99 else SHORT
        seeds = runs.of(silent=rate, messages=longest)
        every = 500 if longest == SHORT else 1000
        windows = [(first, first + every) for first in range(0, longest, every)]
        shares = 100 * np.array([[share(one["right"], window) for window in windows] for one in seeds.values()])
        middle = [np.mean(window) for window in windows]
        label = f"router, {1 - rate:.0%} of messages get a thumb"
        axes.plot(middle, shares.mean(axis=0), marker="o", markersize=3, color=color, label=label)
        axes.fill_between(middle, shares.min(axis=0), shares.max(axis=0), color=color, alpha=0.18, linewidth=0)
    static, name = runs.static((0, LONG))
    level = 100 * np.array(list(static.values()))
    axes.axhline(level.mean(), color="#b33", linestyle="--", label=f"static {name}, never learns")
    axes.axhspan(level.min(), level.max(), color="#b33", alpha=0.1, linewidth=0)
    axes.set_xlabel("messages so far")
    axes.set_ylabel("sent to the right queue, %")
    axes.set_title("77 queues, three examples each; bands are the range over seeds", fontsize=10)
    axes.set_xlim(0, LONG)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(target, dpi=110, metadata={"Software": None})


def main():
    runs = Runs(json.loads(RUNS.read_text(encoding="utf-8")))
    STORY.write_text(filled(STORY.read_text(encoding="utf-8"), runs), encoding="utf-8")
    draw(runs, PICTURE)
    print(f"{STORY} written")


if __name__ == "__main__":
    main()
