"""The page on a phone, 390 × 844: no word is broken, cut or outside of the screen, whatever the names are."""

import pytest

PHONE = (390, 844)

# Words that are on two lines although they fit into one, elements whose content is wider than they are, and text that
# is outside of the window. A word is letters and digits; a sign that joins two of them may end a line. A word that is
# wider than its box has no other way than to be broken; but no box is so narrow that it breaks a word of half a line.
FAULTS = r"""
const faults = [], hidden = ".unseen, .skip, svg, option, datalist";
const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(hidden);
function box(e) {
  while (getComputedStyle(e).display === "inline") e = e.parentElement;
  const style = getComputedStyle(e);
  return e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
}
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const node = texts.currentNode;
  if (!shown(node.parentElement)) continue;
  for (const word of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const rects = [...range.getClientRects()].filter((r) => r.width > 0);
    const width = rects.reduce((sum, r) => sum + r.width, 0);
    const lines = new Set(rects.map((r) => Math.round(r.top))).size;
    const around = node.parentElement.closest(".box, .card, dialog, main, body");
    const room = Math.max(box(node.parentElement), box(around) / 2);
    if (lines > 1 && width <= room) faults.push(["broken", word[0]]);
    if (rects.some((r) => r.left < -0.5 || r.right > innerWidth + 0.5)) faults.push(["outside", word[0]]);
  }
}
for (const e of document.querySelectorAll("body, body *")) {
  if (!(e instanceof HTMLElement) || !shown(e) || getComputedStyle(e).display === "inline") continue;
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth) faults.push(["wide", e.outerHTML.slice(0, 200)]);
  const clipped = /hidden|clip/.test(getComputedStyle(e).overflowY);
  if (clipped && e.scrollHeight > e.clientHeight + 1) faults.push(["cut", e.outerHTML.slice(0, 200)]);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = getComputedStyle(e).font;
  const text = e.matches("select") ? e.selectedOptions[0]?.text : e.matches("input") ? e.placeholder : "";
  const line = (text ?? "").split("\n").reduce((most, one) => Math.max(most, pen.measureText(one).width), 0);
  if (line > box(e) - (e.matches("select") ? 20 : 0)) faults.push(["cut", text]);
}
return faults;
"""

NAMES = {
    "desk": ["refund", "order", "ask a human", "<b>é</b>"],
    "returns-and-refunds_of-the-shop-in-europe-by-parcel-and-by-mail1": [
        "send_the_reminder_with_a_discount_code_of_ten_percent",
        "shop/returns/europe/parcels/without-a-label",
        "Would you like to talk to one of our colleagues about your order?",
        "Donaudampfschifffahrtsgesellschaftskapitän",
    ],
    "n" * 64: ["a" * 150, "b c" * 50],
    "many": [f"arm number {i}" for i in range(120)],
}


def fill(site, name, arms):
    kind = "viewucb" if name == "desk" else "linucb"  # it imputes rewards
    site.make(name, kind, arms, **({"expire_after": 3600.0} if name == "many" else {}))
    features = {"late": 1.0, "customer_was_here_before_the_order": 0.5, "f" * 60: 0.25, "words in a row": -2.0}
    for i in range(12):
        context = {feature: value * (1 + i % 5) for feature, value in features.items()}
        made = site.decide(context, name)
        if i % 4:
            site.reward(made["id"], [None, 0, 1][i % 3], name)
    for id in (3, 9):  # silent ones, whose rewards are late: there is something to calibrate
        site.reward(id, 1, name)


@pytest.fixture(params=[*NAMES], ids=["short", "long", "endless", "many"])
def name(request, site):
    fill(site, request.param, NAMES[request.param])
    return request.param


def open_everything(window):
    window.run("for (const one of document.querySelectorAll('details')) one.open = true")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_word_is_broken_or_cut(window, site, name, dark):
    for path in ("/", f"/agents/{name}", f"/agents/{name}/decisions/3", f"/agents/{name}/decisions/99", "/agents/none"):
        window.open(site.url + path, *PHONE, dark=dark)
        window.until_seen(".card, #fact-decisions, .decision, .empty")
        open_everything(window)
        assert window.run(FAULTS) == [], path
    window.open(f"{site.url}/agents/{name}", *PHONE, dark=dark)
    window.until_seen("#why-3").click()
    window.until_text("#why h3", "Decision 3:")
    assert window.run(FAULTS) == []


def test_empty_states_and_errors_fit_too(window, site):
    window.open(site.url, *PHONE)
    window.until_seen(".empty")
    window.find("#create [type=submit]").click()
    window.until_text("#name-error", "needed")
    assert window.run(FAULTS) == []
    site.make("n" * 64)
    window.open(f"{site.url}/agents/{'n' * 64}", *PHONE)
    window.until_text("[data-part=recent]", "No decision yet")
    open_everything(window)
    window.type("#confirm", "something else\n")
    window.until_text("#confirm-error", "type its name")
    site.stop()
    window.until_text("#banner", "does not answer")
    assert window.run(FAULTS) == []
    site.start()


def test_the_check_finds_broken_cut_and_wide_text(window, site):
    window.open(site.url, *PHONE)
    window.until_seen(".empty")
    for style, text, fault in (
        ("width: 60px; word-break: break-all", "understandable words", "wide|broken"),
        ("width: 200px; word-break: break-all", "a few understandable words", "broken"),
        ("width: 60px; overflow: hidden; white-space: nowrap", "understandable", "wide"),
        ("margin-left: 380px; width: 200px", "outside", "outside"),
    ):
        faults = window.run(
            """const probe = document.createElement("p");
            probe.id = "probe"; probe.style.cssText = arguments[0]; probe.textContent = arguments[1];
            document.getElementById("probe")?.remove();
            document.getElementById("main").prepend(probe);"""
            + FAULTS,
            style,
            text,
        )
        assert {kind for kind, *_ in faults} & set(fault.split("|")), style


def test_every_control_can_be_reached_by_keyboard(window, site):
    fill(site, "desk", NAMES["desk"])
    window.open(f"{site.url}/agents/desk", *PHONE)
    window.until_seen("#fact-decisions")
    open_everything(window)
    script = """return [...document.querySelectorAll("a, button, input, select, textarea, summary")].filter(
        (e) => e.type !== "hidden" && e.checkVisibility({ visibilityProperty: true }))"""
    controls = window.run(script)
    reached = []
    for _ in range(2 * len(controls)):
        window.press("\ue004")
        reached.append(window.run("return document.activeElement"))
    assert len(controls) > 30
    assert not [one.get_attribute("outerHTML") for one in controls if one not in reached]
