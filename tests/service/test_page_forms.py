"""What the page can change: arms, and the agent as a whole; with and without JavaScript, keys and the right to."""

import re
from urllib.parse import urlencode

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

import taciturn
from page_kit import KEYS, WAIT, page_app
from service_kit import MemoryJournal, Web
from taciturn.service.core.service import Service
from taciturn.service.web.forms import FORM, MAX_BYTES, same_origin

FORMS = [("arms", {"arm": "new"}), ("arms/retire", {"arm": "b"}), ("delete", {"confirm": "desk"})]
OWN = {"sec-fetch-site": "same-origin"}
hosts = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,5})?(:[0-9]{1,5})?", fullmatch=True)


@pytest.fixture(params=[None, KEYS], ids=["no keys", "keys"])
def keyring(request):
    return request.param


@pytest.fixture
def ask(keyring):
    service = Service(MemoryJournal())
    with Web(page_app(service, keyring)) as ask:
        body = {"name": "desk", "kind": "linucb", "arms": ["a", "b", 3]}
        assert ask("POST", "/v1/agents", json=body, headers=bearer("write")).status_code == 201
        yield ask
    service.close()


def bearer(scope):
    return {"authorization": f"Bearer taciturn_{scope}"}


def post(ask, path, fields, headers, accept="text/html"):
    content = urlencode(fields) if isinstance(fields, dict) else fields
    headers = {"content-type": FORM, "accept": accept} | headers
    return ask("POST", f"/agents/desk/{path}", content=content, headers=headers)


def arms(ask):
    found = ask("GET", "/v1/agents/desk", headers=bearer("write"))
    return found.json()["active"] if found.status_code == 200 else None


# Without a browser.


@pytest.mark.parametrize("keyring", [None], indirect=True)
@pytest.mark.parametrize(("path", "fields"), FORMS)
def test_without_keys_only_forms_of_this_page_are_taken(ask, path, fields):
    before = arms(ask)
    for headers in (
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost"},
        {"sec-fetch-site": "none"},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:81"},
        {"referer": "http://localhost/"},
    ):
        refused = post(ask, path, fields, headers)
        assert (refused.status_code, arms(ask)) == (403, before)
        assert "forms are taken from the page of this service only" in refused.text
    for headers in ({"host": "evil.example"} | OWN, {"host": "evil.example", "origin": "http://evil.example"}):
        assert post(ask, path, fields, headers).status_code == 421
    assert post(ask, path, fields, {"origin": "http://localhost"}).status_code == 303
    assert arms(ask) != before


@pytest.mark.parametrize("keyring", [KEYS], indirect=True)
@pytest.mark.parametrize(("path", "fields"), FORMS)
def test_with_keys_a_form_needs_one_that_may_write(ask, path, fields):
    before = arms(ask)
    for headers, status in ((OWN, 401), (OWN | bearer("wrong"), 401), (OWN | bearer("read"), 403)):
        refused = post(ask, path, fields, headers)
        assert (refused.status_code, arms(ask)) == (status, before)
    assert post(ask, path, fields, bearer("write"), "application/json").status_code == 200
    assert arms(ask) != before


@given(host=hosts, other=hosts, scheme=st.sampled_from(["http", "https"]))
def test_same_origin_is_what_the_browser_says(host, other, scheme):
    assert same_origin(Headers({"host": host, "origin": f"{scheme}://{host}"}))
    assert same_origin(Headers({"host": host, "origin": f"{scheme}://{other}"})) == (host == other)
    assert not same_origin(Headers({"host": host}))
    assert not same_origin(Headers({"host": host, "origin": f"{scheme}://{host}", "sec-fetch-site": "cross-site"}))
    assert same_origin(Headers({"host": host, "sec-fetch-site": "same-origin"}))


@pytest.mark.parametrize("keyring", [None], indirect=True)
def test_arms_are_added_retired_and_brought_back(ask):
    for path, fields, expected in (
        ("arms", {"arm": " <b>& é "}, ["a", "b", 3, "<b>& é"]),
        ("arms/retire", {"arm": "3"}, ["a", "b", "<b>& é"]),
        ("arms", {"arm": "3"}, ["a", "b", 3, "<b>& é"]),  # the number, not the text
        ("arms", {"arm": "four", "like": "3"}, ["a", "b", 3, "<b>& é", "four"]),
        ("arms", {"arm": "..", "like": ""}, ["a", "b", 3, "<b>& é", "four", ".."]),
        ("arms/retire", {"arm": ".."}, ["a", "b", 3, "<b>& é", "four"]),
    ):
        answer = post(ask, path, fields, OWN)
        assert (answer.status_code, answer.headers["location"]) == (303, "/agents/desk#arms")
        assert arms(ask) == expected
    shown = ask("GET", "/agents/desk").text
    assert shown.count("Bring back") == 2  # its text and its label
    assert "&lt;b&gt;&amp; é" in shown
    assert "<b>& é" not in shown


@pytest.mark.parametrize("keyring", [None], indirect=True)
@pytest.mark.parametrize("accept", ["text/html", "application/json"])
@pytest.mark.parametrize(
    ("path", "fields", "status", "words"),
    [
        ("arms", {"arm": "a"}, 422, "there is an arm"),
        ("arms", {"arm": " "}, 422, "an arm needs a name"),
        ("arms", {"arm": "x" * 201}, 422, "length"),
        ("arms", {"arm": "new", "like": "z"}, 422, "unknown arm"),
        ("arms/retire", {"arm": "z"}, 404, "there is no arm"),
        ("arms/retire", {}, 404, "there is no arm"),
        ("delete", {"confirm": "des"}, 422, "type its name: desk"),
        ("delete", {}, 422, "type its name: desk"),
        ("delete", {"x": "y" * MAX_BYTES}, 413, "bytes"),
        ("delete", "&".join(f"a{i}=1" for i in range(20)), 422, "cannot be read"),
        ("delete", b"confirm=\xff", 422, "cannot be read"),
    ],
)
def test_a_refused_form_says_why_and_changes_nothing(ask, accept, path, fields, status, words):
    answer = post(ask, path, fields, OWN, accept)
    assert answer.status_code == status
    if accept == "application/json":
        assert words in answer.json()["detail"]
    else:
        (banner,) = re.findall(r'id="banner-text">(.*?)</p>', answer.text)
        assert words in banner
        assert "fact-decisions" in answer.text, "below it is the agent"
    assert arms(ask) == ["a", "b", 3]


@pytest.mark.parametrize("keyring", [None], indirect=True)
def test_forms_of_what_is_not_there(ask):
    assert post(ask, "arms/../../none/delete", {"confirm": "none"}, OWN).status_code == 404
    assert ask("POST", "/agents/desk/delete", json={"confirm": "desk"}, headers=OWN).status_code == 415
    assert ask("GET", "/agents/desk/delete").status_code == 405
    policy = ask("GET", "/agents/desk").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy


# In the browser.


def test_arms_and_delete_by_keyboard_only(window, site):
    site.make(arms=["yes", "no", 3])
    window.open(f"{site.url}/agents/desk")
    window.until_seen("#fact-decisions")
    window.tab_to("#arm-1")
    window.press("\ue007")
    window.until_text(".arms li:nth-child(2)", "retired")
    assert "no is retired" in window.find("#status").get_attribute("textContent")
    assert window.run("return document.activeElement.id") == "arm-1", "the focus is kept"
    window.press("\ue007")
    window.until(lambda: "retired" not in window.find(".arms").text, "the arm never came back")
    window.tab_to("#add-arm summary")
    window.press("\ue007")
    window.tab_to("#arm")
    window.press("maybe")
    window.tab_to("#like")
    window.press("3")
    window.tab_to("#add-arm [type=submit]")
    window.press("\ue007")
    window.until_text(".arms", "maybe")
    assert site.ask("GET", "/v1/agents/desk")["active"] == ["yes", "no", 3, "maybe"]
    window.tab_to("#export")
    window.tab_to("#delete-agent summary")
    window.press("\ue007")
    window.tab_to("#confirm")
    window.press("des\ue007")
    window.until_text("#confirm-error", "type its name: desk")
    assert window.run("return document.activeElement.id") == "confirm"
    window.press("k\ue007")
    window.until(lambda: window.driver.current_url == f"{site.url}/", "the list was never shown")
    window.until_text(".empty", "No agent yet")
    assert all("422" in one for one in window.errors())


def test_errors_of_actions_are_shown_in_words(window, site):
    site.make(arms=["yes", "no"])
    window.open(f"{site.url}/agents/desk")
    window.until_seen("#arm-0").click()
    window.until_text(".arms li:nth-child(1)", "retired")
    window.find("#arm-1").click()
    window.until_text("#arms > .error", "the last arm")
    window.find("#add-arm summary").click()
    window.type("#arm", "no")
    window.find("#add-arm [type=submit]").click()
    window.until_text("#add-arm", "there is an arm 'no' already")
    window.type("#arm", "new")
    window.type("#like", "unknown")
    window.find("#add-arm [type=submit]").click()
    window.until_text("#like-error", "unknown")
    site.ask("DELETE", "/v1/agents/desk")
    window.find("#export").click()
    window.until_text("#export-error", "there is no agent 'desk'")
    site.stop()
    window.find("#export").click()
    window.until_text("#export-error", "does not answer")
    site.start()


def test_with_keys_the_page_downloads_and_changes_an_agent(window, new_site, tmp_path):
    site = new_site(keyring=KEYS, token="taciturn_write")  # noqa: S106
    site.make(arms=["yes", "no", "maybe"])
    site.reward(site.decide({"late": 1.0})["id"], 1)
    window.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    window.open(f"{site.url}/agents/desk")
    window.until_seen("#key")
    window.type("#key", "taciturn_read\n")
    window.until_seen("#arm-0").click()
    window.until_text("#arms > .error", "may read, not write")
    window.find("#export").click()
    file = tmp_path / "desk.taciturn"
    window.until(file.exists, "the file was never there")
    assert taciturn.load(file).health().decisions == 1
    window.find("#sign-out").click()
    window.until_seen("#key")
    window.type("#key", "taciturn_write\n")
    window.until_seen("#arm-0").click()
    window.until_text(".arms li:nth-child(1)", "retired")
    window.find("#delete-agent summary").click()
    window.type("#confirm", "desk\n")
    window.until(lambda: site.ask("GET", "/v1/agents") == {"agents": []}, "the agent was never deleted")
    assert all("403" in one for one in window.errors())


def test_without_javascript(window, site, tmp_path):
    site.make(arms=["yes", "no"])
    window.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    window.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        window.open(f"{site.url}/agents/desk")
        window.find("#add-arm summary").click()
        window.find("#arm").send_keys("maybe")
        window.find("#add-arm [type=submit]").click()
        window.until_text(".arms", "maybe")
        window.find("#arm-0").click()
        window.until_text(".arms li:nth-child(1)", "retired")
        window.find("#arm-1").click()
        window.until_text(".arms li:nth-child(2)", "retired")
        window.find("#arm-2").click()
        window.until_text("#banner", "the last arm")
        assert window.find("#fact-decisions").is_displayed()
        assert not window.find("#retry").is_displayed()
        window.find("#export").click()
        window.until((tmp_path / "desk.taciturn").exists, "the file was never there")
        window.find("#delete-agent summary").click()
        window.find("#confirm").send_keys("desk\n")
        window.until(lambda: window.driver.current_url == f"{site.url}/", "the list was never shown")
        assert site.ask("GET", "/v1/agents") == {"agents": []}
    finally:
        window.command("Emulation.setScriptExecutionDisabled", value=False)
    assert all("422" in one for one in window.errors())


def test_a_form_of_another_site_is_refused_by_the_service(window, new_site):
    site, other = new_site(), new_site()
    site.make()
    window.open(f"{other.url}/docs")
    window.run(
        """const form = document.createElement("form");
        Object.assign(form, { method: "post", action: arguments[0] });
        form.innerHTML = '<input name="confirm" value="desk">';
        document.body.append(form);
        form.submit();""",
        f"{site.url}/agents/desk/delete",
    )
    window.until_text("#banner", "forms are taken from the page of this service only")
    assert site.ask("GET", "/v1/agents") == {"agents": [{"name": "desk"}]}
    assert requests.post(f"{site.url}/agents/desk/delete", data={"confirm": "desk"}, timeout=WAIT).status_code == 403
