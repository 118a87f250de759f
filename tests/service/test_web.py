"""The page in a real browser: its main paths by mouse and keyboard, without a request to any other machine."""

import re
import threading
from importlib.resources import files

import numpy as np
import pytest
import requests
import scipy.sparse as sp

from page_kit import ARMS, KEYS, WAIT, page_app
from service_kit import MemoryJournal, Web
from taciturn.service.core.operations import Create
from taciturn.service.core.service import Service
from taciturn.service.core.session import Session
from taciturn.service.journal.sqlite import SQLiteJournal
from taciturn.service.web import agent_view, overview, svg
from taciturn.service.web.latency import Latencies
from taciturn.service.web.rendering import number, percent
from taciturn.system import format_bytes


def fill_in(window, name, arms, params=""):
    window.type("#name", name)
    window.type("#arms", arms)
    window.type("#params", params)
    window.find("#create [type=submit]").click()


# In the browser.


def test_from_an_empty_service_to_an_explanation(window, new_site, tmp_path):
    journal = SQLiteJournal(tmp_path / "journal.db")
    site = new_site(journal)
    window.open(site.url)
    window.until_text(".empty", "No agent yet")
    assert f"curl {site.url}/v1/agents" in window.find("#shell pre").text
    assert window.find("#create").is_displayed()

    fill_in(window, "desk", "\n".join(ARMS), '{"seed": 1}')
    window.until(lambda: window.driver.current_url == f"{site.url}/agents/desk", "the new agent was never shown")
    window.until_text("[data-part=curves]", "No decision yet")
    window.until_text("[data-part=calibration]", "Nothing to compare yet")

    window.type("#context", "late = 1\nparcel=0.5")
    window.find("#try [type=submit]").click()
    window.until_text("#tried", "Decision 0:")
    window.until_text("#fact-pending", "1")
    window.find("#tried [data-feedback='1']").click()
    window.until_text("#tried .state", "rewarded")
    window.until_text("#fact-reward", "100 %")
    assert "taken" in window.find("#status").get_attribute("textContent"), "announced to screen readers"

    for i, reward in enumerate([1, 0, None, None, 0, 1, 1, 0]):  # over the API: the page updates itself
        site.reward(site.decide({"late": i % 2, "angry": i / 8})["id"], reward)
    window.until_text("#fact-decisions", "9")
    window.until_text("#fact-silence", "22 %")
    lines = window.all("svg.lines path:not(.grid)")
    assert [line.get_attribute("class") for line in lines] == ["s-reward", "s-silence", "s-imputed"]
    assert lines[0].size["width"] > 100
    assert len(window.all("svg.shares path:not(.grid)")) == 3
    assert len(window.all("svg.plane circle")) == 9
    window.until_text("[data-part=latency]", "p99")
    assert "<b>human</b>" in window.find("[data-part=curves]").text, "names are escaped"

    window.find("#why-8").click()
    dialog = window.until_seen("#why")
    window.until_text("#why", "Decision 8:")
    assert "Supporting neighbors" in dialog.text
    assert len(window.all("#why .scores tbody tr")) == 3
    window.find("#why .neighbors a").click()
    window.until(lambda: "Decision 8:" not in window.find("#why h3").text, "the neighbor was never shown")
    window.press("\ue00c")
    window.until(lambda: not dialog.is_displayed(), "the dialog never closed")

    window.find("#tried [data-feedback='withdraw']").click()
    window.until_text("#tried", "withdrawn")
    window.until(lambda: not window.all("#why-0"), "the decision was never removed")
    window.find(".brand").click()
    window.until_text(".card", "viewucb")
    assert window.find(".card .spark path.s-reward").get_attribute("d").startswith("M")
    assert window.errors() == []
    kinds = {record.kind for record in journal.read()}
    assert kinds - {"train"} == {"create", "decide", "reward", "withdraw"}


def test_errors_are_shown_next_to_their_field(window, site):
    site.make()
    window.open(site.url)
    window.until_seen(".card")
    window.find("#new summary").click()
    for name, arms, params, field, word in (
        ("", "a\nb", "", "name", "needed"),
        ("x", "a", "", "arms", "two"),
        ("x", "a\nb", "{", "params", "JSON"),
        ("No Such", "a\nb", "", "name", "match"),
        ("desk", "a\nb", "", "name", "there is an agent 'desk'"),
        ("x", "a\nb", '{"colour": 1}', "params", "colour"),
    ):
        fill_in(window, name, arms, params)
        window.until_text(f"#{field}-error", word)
        assert window.find(f"#{field}").get_attribute("aria-invalid") == "true"
        assert window.run("return document.activeElement.id") == field
        assert sum(bool(spot.text) for spot in window.all("#create .error")) == 1
    window.open(f"{site.url}/agents/desk")
    site.decide([1, 0])
    for context, word in (("", "needed"), ("late", "name=value"), ("[1,", "JSON"), ("1 2 3", "3 features")):
        window.type("#context", context)
        window.find("#try [type=submit]").click()
        window.until_text("#context-error", word)
    logged = window.errors()
    assert len(logged) == 4, "the browser logs answers other than 200, and nothing else"
    assert all("Failed to load resource" in one for one in logged)


def test_keyboard_only(window, site):
    window.open(site.url)
    window.until_seen(".empty")
    window.tab_to("#name")
    window.press("desk")
    window.tab_to("#arms")
    window.press("yes\nno")
    window.tab_to("#create [type=submit]")
    window.press("\ue007")
    window.until(lambda: window.driver.current_url.endswith("/agents/desk"), "the new agent was never shown")
    window.until_seen("#fact-decisions")
    window.tab_to("#context")
    window.press("a=1")
    window.tab_to("#try [type=submit]")
    window.press("\ue007")
    window.until_text("#tried", "Decision 0:")
    window.tab_to("#tried [data-feedback='0']")
    window.press("\ue007")
    window.until_text("#fact-reward", "0 %")
    window.until_text("#tried .state", "rewarded")
    assert window.run("return document.activeElement.dataset.feedback") == "0", "the focus is kept"
    window.tab_to("#why-0")
    window.press("\ue007")
    window.until_text("#why h3", "Decision 0:")
    assert window.run("return document.querySelector('#why').contains(document.activeElement)")
    window.press("\ue00c")
    window.until(lambda: window.run("return document.activeElement.id") == "why-0", "the focus did not come back")
    assert window.errors() == []


def test_page_needs_a_key_if_there_are_keys(window, new_site):
    site = new_site(keyring=KEYS, token="taciturn_write")  # noqa: S106
    site.make("secret", arms=["hushed", "whispered"])
    site.decide({"hidden": 1}, "secret")
    for path in ("/", "/agents/secret", "/agents/secret/decisions/0"):
        answer = requests.get(site.url + path, timeout=WAIT)
        assert answer.ok
        assert "hushed" not in answer.text
        assert path != "/" or "secret" not in answer.text
    for path in ("/web/agents.json", "/web/agents/secret/overview.json", "/web/agents/secret/decisions/0.json"):
        for headers in ({}, {"authorization": "Bearer taciturn_wrong"}):
            assert requests.get(site.url + path, headers=headers, timeout=WAIT).status_code == 401
    window.open(f"{site.url}/agents/No!")
    assert "no agent of this name" in window.find(".empty").text
    assert all("404" in one for one in window.errors())
    window.open(site.url)
    window.until_seen("#sign-in")
    assert not window.find("#content").is_displayed()
    assert window.errors() == [], "no request without a key"
    window.type("#key", "taciturn_wrong\n")
    window.until_text("#key-error", "not known")
    window.type("#key", "taciturn_read\n")
    window.until_text(".card", "secret")
    assert not window.find("#sign-in").is_displayed()
    assert window.run("return [sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
    window.find("#new summary").click()
    fill_in(window, "mine", "a\nb")
    window.until_text("#create [data-error='']", "may read, not write")
    window.find("#to-secret").click()
    window.until_text("#fact-decisions", "1")
    window.until_seen("#sign-out").click()
    window.until_seen("#sign-in")
    assert window.run("return sessionStorage.length") == 0
    assert all("401" in one or "403" in one for one in window.errors())


def test_outage_is_shown_until_the_service_answers_again(window, site):
    site.make()
    window.open(f"{site.url}/agents/desk")
    window.until_text("#fact-decisions", "0")
    site.stop()
    window.until_text("#banner", "does not answer")
    window.type("#context", "a=1")
    window.find("#try [type=submit]").click()
    window.until_text("#try [data-error='']", "does not answer")
    assert window.find("#fact-decisions").is_displayed(), "the old view stays"
    site.start()
    window.find("#retry").click()
    window.until(lambda: not window.find("#banner").is_displayed(), "the banner was never hidden")
    window.find("#try [type=submit]").click()
    window.until_text("#tried", "Decision 0:")
    assert all("ERR_CONNECTION" in one or "ERR_EMPTY_RESPONSE" in one for one in window.errors())


def test_hidden_page_sends_no_requests(window, site):
    site.make()
    watch = """
        window.waits = new Map();  // timers by number; they never fire
        window.setTimeout = (what, wait) => { const id = waits.size + 1; waits.set(id, [what, wait]); return id; };
        window.clearTimeout = (id) => { if (waits.has(id)) waits.get(id)[0] = null; };
        window.setVisible = (visible) => {
          Object.defineProperty(document, "hidden", { configurable: true, get: () => !visible });
          document.dispatchEvent(new Event("visibilitychange"));
        };
        window.due = () => [...waits.values()].filter(([what]) => what).map(([, wait]) => wait);
        const send = window.fetch;
        window.requests = 0;
        window.fetch = (...given) => { requests += 1; return send(...given); };"""
    script = window.command("Page.addScriptToEvaluateOnNewDocument", source=watch)["identifier"]
    window.open(f"{site.url}/agents/desk")
    window.until(lambda: window.run("return due()") == [2000], "it loads every two seconds")
    before = window.run("return requests")
    window.run("setVisible(false)")
    assert window.run("return [requests, due()]") == [before, []]
    site.decide({"a": 1})
    window.run("document.getElementById('retry').click()")  # as if a request was in progress when the page was hidden
    window.until_text("#fact-decisions", "1")
    assert window.run("return [requests, due()]") == [before + 1, []]
    site.decide({"a": 1})
    window.run("setVisible(true)")
    window.until_text("#fact-decisions", "2")
    window.until(lambda: window.run("return due()") == [2000], "it continues immediately")
    window.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    assert window.errors() == []


@pytest.mark.parametrize("dark", [False, True])
def test_page_fits_a_phone_in_light_and_dark(window, site, dark):
    site.make("n" * 64, arms=["a" * 150, "b" * 150])
    for i in range(5):
        site.reward(site.decide({"f" * 60: i / 4, "g": 1.0}, "n" * 64)["id"], i % 2, "n" * 64)
    for path in ("/", f"/agents/{'n' * 64}", f"/agents/{'n' * 64}/decisions/3", "/agents/none"):
        window.open(site.url + path, 360, dark=dark)
        window.until_seen(".card, .tiles, .decision, .empty")
        assert window.fits(), path
        paper = window.run("return getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", paper))) < 60) == dark
    window.open(f"{site.url}/agents/{'n' * 64}", 360, dark=dark)
    window.until_seen("#why-3").click()
    window.until_text("#why h3", "Decision 3:")
    assert window.fits()
    assert window.find("#why").size["width"] <= 360
    assert all("404" in one for one in window.errors())


def test_page_can_be_read_without_javascript(window, site):
    site.make()
    site.reward(site.decide({"a": 1})["id"], 1)
    window.command("Emulation.setScriptExecutionDisabled", value=True)
    window.open(site.url)
    window.find("#to-desk").click()
    assert window.find("#fact-reward").text == "100 %"
    assert not window.find("#try").is_displayed()
    window.find("#why-0").click()
    assert "Supporting neighbors" in window.find(".decision").text
    window.command("Emulation.setScriptExecutionDisabled", value=False)
    assert window.errors() == []


# Without a browser.


def colours():
    """The colours of the style sheet by name, for light and dark."""
    css = files("taciturn.service.web").joinpath("static", "page.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in css.split("@media", 2)[:2])
    assert light.keys() == dark.keys()
    return light, dark


def contrast(one, other):
    def luminance(colour):
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast_of_text_and_shapes(scheme):
    found = colours()[scheme]
    for ground in ("paper", "box"):
        for text in ("ink", "soft", "accent", "bad", "good"):
            assert contrast(found[text], found[ground]) >= 4.5, (text, ground)
        for shape in ("edge", "reward", "silence", "imputed", *(f"c{i}" for i in range(overview.COLOURS))):
            assert contrast(found[shape], found[ground]) >= 3, (shape, ground)
    assert contrast(found["on-accent"], found["accent"]) >= 4.5
    assert contrast(found["on-warn"], found["warn"]) >= 4.5


def test_pages_load_nothing_from_other_hosts_and_run_nothing_inline():
    for file in files("taciturn.service.web").joinpath("templates").iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r"<script(?! type=\"module\" src=\"/web/)|<style|\sstyle=|\son\w+=|https?://", text), file
    service = Service(MemoryJournal())
    with Web(page_app(service)) as ask:
        for path in ("/", "/agents/none"):
            policy = ask("GET", path).headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        for path, status in (("/agents/No!", 404), ("/agents/x/decisions/y", 404), ("/web/static/../views.py", 404)):
            assert ask("GET", path).status_code == status
        assert ask("GET", "/web/agents/none/overview.json").json()["detail"] == "there is no agent 'none'"
        assert ask("POST", "/web/agents.json").status_code == 405
        service.started.clear()
        ask("POST", "/v1/agents", json={"name": "x", "arms": 2})
        answer = ask("GET", "/agents/x")
        assert answer.status_code == 503
        assert "restoring" in answer.text
        service.started.set()
    service.close()


def test_view_is_rendered_again_only_after_new_entries(monkeypatch):
    captured = []
    capture = agent_view.capture
    monkeypatch.setattr(agent_view, "capture", lambda *given: captured.append(given) or capture(*given))
    service = Service(MemoryJournal())
    with Web(page_app(service)) as ask:
        ask("POST", "/v1/agents", json={"name": "x", "arms": 2, "kind": "linucb"})
        path = "/web/agents/x/overview.json"
        answers = ask.together([("GET", path, {})] * 5)
        assert len({answer.text for answer in answers}) == len(captured) == 1
        ask("POST", "/v1/agents/x/decisions", json={"context": [1.0]})
        assert ask("GET", path).text != answers[0].text
        assert len(captured) == 2
        ask("DELETE", "/v1/agents/x")
        assert "No agent yet" in ask("GET", "/").text
        assert ask("GET", "/agents/x").status_code == 404
    service.close()


@pytest.mark.parametrize(("arm_answered", "shown"), [(True, True), (False, False)])
def test_the_page_says_where_answers_depend_on_context_and_arm(arm_answered, shown):
    rng, service = np.random.default_rng(0), Service(MemoryJournal())
    with Web(page_app(service)) as ask:
        ask("POST", "/v1/agents", json={"name": "x", "arms": 2, "kind": "linucb"})

        def settle(session):
            for step in range(300):
                arm = int(rng.integers(2))
                id = session.agent.decide([1.0, step % 3], allowed=[arm]).id
                session.agent.feedback(id, 1 if (arm if arm_answered else rng.random() < 0.5) else None)

        service.call("x", settle)
        ask("POST", "/v1/agents/x/decisions", json={"context": [1.0, 2.0]})
        assert ("by context and arm" in ask("GET", "/agents/x").text) == shown
    service.close()


def test_busy_agent_does_not_delay_the_others(monkeypatch):
    service = Service(MemoryJournal())
    begun, done = threading.Event(), threading.Event()
    with Web(page_app(service)) as ask:
        ask("POST", "/v1/agents", json={"name": "idle", "arms": 2, "kind": "linucb"})
        ask("GET", "/")  # its card is rendered, and needs no time any more
        ask("POST", "/v1/agents", json={"name": "busy", "arms": 2, "kind": "linucb"})
        worker = threading.Thread(target=service.call, args=("busy", lambda _: begun.set() or done.wait(WAIT)))
        worker.start()
        assert begun.wait(WAIT)
        monkeypatch.setattr("taciturn.service.web.views.CARD_TIMEOUT", 0.0)
        text = ask("GET", "/").text
        done.set()
        worker.join()
    assert "busy; it is shown" in text
    assert "reward rate" in text
    service.close()


def some_view(arms=3, decisions=100, features=4, seed=0):
    rng = np.random.default_rng(seed)
    session = Session()
    session.apply(Create("x", arms, "linucb", {"silence": 0.5, "max_nodes": 90}))
    for _ in range(decisions):
        id = session.agent.decide(rng.normal(size=features)).id
        feedback = rng.integers(4)
        if feedback:
            session.agent.feedback(id, [None, 0, 1][feedback - 1])
    return agent_view.capture("x", session), session.agent


def test_curves_equal_counting():
    for decisions in (0, 1, 2, 19, 100):
        view, agent = some_view(decisions=decisions)
        log = agent.log()
        curves = overview.curves(view, overview.groups(view))
        assert len(curves.ids) == min(len(log["ids"]), overview.MAX_POINTS)
        for i, id in enumerate(curves.ids):
            end = log["ids"].tolist().index(id) + 1
            span = slice(max(0, end - curves.window), end)
            rewards = [r for r in log["rewards"][span] if not np.isnan(r)]
            states = log["states"][span].tolist()
            silent = states.count("silent")
            assert curves.reward[i] == (pytest.approx(np.mean(rewards)) if rewards else None)
            settled = silent + len(rewards)
            share = pytest.approx(silent / settled) if settled else None
            assert curves.silence[i] == curves.imputed[i] == share
            arms = log["arms"][span].tolist()
            assert [s[i] for s in curves.shares] == pytest.approx([arms.count(k) / len(arms) for k in range(3)])
    assert [one["id"] for one in overview.recent(view, 3)] == log["ids"][:-4:-1].tolist()


def test_many_arms_share_the_last_colour():
    view, _ = some_view(arms=14)
    grouped = overview.groups(view)
    assert grouped.labels[-1] == "5 others"
    assert np.bincount(grouped.of).tolist() == [1] * 9 + [5]
    times = np.bincount(view.chosen, minlength=14)
    assert times[grouped.of < 9].min() >= times[grouped.of == 9].max()
    assert np.sum(overview.curves(view, grouped).shares, axis=0) == pytest.approx(1.0)


def test_map_shows_the_first_two_principal_components():
    from dataclasses import replace

    from sklearn.decomposition import PCA

    view, _ = some_view(features=5)
    grouped = overview.groups(view)
    shown = overview.context_map(view, grouped)
    pca = PCA(2, svd_solver="full").fit(view.contexts.toarray())
    expected = pca.transform(view.contexts.toarray())
    points = np.array([point[:2] for point in shown.points])
    assert np.abs(np.corrcoef(points[:, 0], expected[:, 0])[0, 1]) == pytest.approx(1)
    assert np.abs(np.corrcoef(points[:, 1], expected[:, 1])[0, 1]) == pytest.approx(1)
    assert shown.explained == pytest.approx(pca.explained_variance_ratio_.sum())
    assert (points.min(), points.max()) == (0, 1)
    wide = sp.csr_matrix(sp.hstack([view.contexts, sp.csr_matrix((view.contexts.shape[0], 100))]))
    sparse = overview.context_map(replace(view, contexts=wide, features=105), grouped)
    assert np.allclose([p[:2] for p in sparse.points], points)
    alike = replace(view, contexts=sp.csr_matrix(np.ones(view.contexts.shape)))
    assert overview.context_map(alike, grouped) is None
    assert overview.context_map(replace(view, contexts=view.contexts[:2]), grouped) is None
    line = replace(view, contexts=sp.csr_matrix(np.outer(np.arange(len(points)), np.ones(5))))
    assert {point[1] for point in overview.context_map(line, grouped).points} == {0.5}


def test_entries_of_captured_contexts_are_bounded(monkeypatch):
    session = Session()
    session.apply(Create("x", 2, "linucb", {"scaling": "none"}))  # equal numbers on a common scale are all zero
    for _ in range(6):
        session.agent.decide(np.ones(100))
    monkeypatch.setattr(agent_view, "MAP_ENTRIES", 250)
    assert agent_view.capture("x", session).contexts.shape == (2, 100)


def test_latency_covers_the_last_requests():
    latencies = Latencies()
    assert latencies.of("x") is None
    for i in range(2000):
        latencies.note("x", i / 1000)
    found = latencies.of("x")
    assert found.count == sum(found.heights) == 1000
    assert (found.p50, found.longest) == (pytest.approx(1499.5), 1999)
    latencies.note("y", 0.0)
    assert sum(latencies.of("y").heights) == 1
    latencies.keep(["y"])
    assert latencies.of("x") is None


def test_svg_paths():
    assert svg.line([None, 0.0, 1.0, None, 0.5]) == "M25.0 100.0h0L50.0 0.0M100.0 50.0h0"
    assert svg.line([0.5]) == "M50.0 50.0h0"
    assert svg.stack([[0.25, 0.5], [0.75, 0.5]])[1] == "M0.0 0.0L100.0 0.0L100.0 50.0L0.0 75.0Z"
    assert svg.stack([]) == svg.stack([[]]) == []
    assert svg.stack([[1.0]]) == ["M0.0 0.0L100.0 0.0L100.0 100.0L0.0 100.0Z"]
    assert svg.bars([1, 2])[0] == ("0.00", "50.00", "42.50", "50.00")


def test_numbers_are_formatted_for_people():
    assert [percent(share) for share in (0.256, None, float("nan"))] == ["26 %", "–", "–"]
    assert [number(value) for value in (0.12345, None)] == ["0.123", "–"]
    sizes = [format_bytes(size) for size in (12, 34_000, 999_600, 5_600_000, 7_890_000_000)]
    assert sizes == ["12 B", "34 kB", "1 MB", "5.6 MB", "7.89 GB"]
