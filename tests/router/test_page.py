"""The page of a router in a real browser: a message, its arm and reasons, and thumbs; on a phone, by keyboard."""

import pytest

from router_kit import serving, shop
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.journal.base import Key

HOSTILE = "<img src=x onerror=alert(1)> where is my parcel"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    content = shop(refunds={"description": "Money <b>back</b>", "cost": 0.5})
    with serving(tmp_path_factory.mktemp("page"), content) as client:
        yield client


def test_a_message_is_routed_with_reasons_and_a_thumb_is_learned(client, window):
    window.open(client.url + "/router", width=360, height=740)
    window.until_text("[data-part=arms]", "Money <b>back</b> (3 examples)")
    window.type("#text", HOSTILE)
    window.find("#ask button").click()
    window.until_text("#arm", "delivery")
    reasons = [item.text for item in window.all("#routed li")]
    assert len(reasons) == 3
    assert any("“Where is my parcel?” an example of delivery" in reason for reason in reasons)
    assert window.fits()
    window.find("button[data-thumb=up]").click()
    window.until_text("#outcome", "is right, and that is learned")
    id = int(window.find("button[data-thumb=up]").get_attribute("data-id"))
    why = client.http.get(f"/v1/route/{id}").json()
    assert (why["text"], why["state"], why["reward"]) == (HOSTILE, "rewarded", 1)
    window.find("button[data-thumb=down]").click()
    window.until_text("#outcome", "is wrong, and that is learned")
    window.find("#ask button").click()
    window.until(lambda: window.all("#routed img") == [], "a text became HTML")


def test_it_works_with_a_keyboard_only(client, window):
    window.open(client.url + "/router")
    window.until_text("[data-part=arms]", "delivery")
    window.tab_to("#text")
    window.press("I forgot my password")
    window.tab_to("#ask button")
    window.press("\ue007")
    window.until_text("#arm", "account")
    window.tab_to("button[data-thumb=up]")
    window.press("\ue007")
    window.until_text("#outcome", "is right")


def test_an_empty_message_is_not_sent(client, window):
    window.open(client.url + "/router")
    window.find("#ask button").click()
    window.until_text("#text-error", "Write a message first.")


def test_with_keys_it_asks_for_one(tmp_path, window):
    keyring = Keyring([Key("w", digest("taciturn_w"), "write")])
    with serving(tmp_path, shop(), keyring) as client:
        page = client.http.get("/router").text
        assert "delivery" not in page
        assert client.http.get("/router/arms.json").status_code == 401
        window.open(client.url + "/router")
        window.until_seen("#key").send_keys("taciturn_w\ue007")
        window.until_text("[data-part=arms]", "delivery")
        window.type("#text", "Where is my parcel?")
        window.find("#ask button").click()
        window.until_text("#arm", "delivery")
        window.driver.get("about:blank")  # the page asks again and again, also when this router has stopped


def test_the_page_loads_nothing_from_elsewhere(client):
    answer = client.http.get("/router")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "//" not in answer.text.replace(client.url, "").replace("http://www.w3.org", "").replace("://127", "")
    assert client.http.get("/router/router.js").headers["content-type"].startswith("text/javascript")
