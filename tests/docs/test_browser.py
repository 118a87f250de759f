"""The site in a real browser: desktop, phone and dark, usable by everybody, without a request to another machine."""

import pytest

from page_kit import Window

NOTEBOOK = "gallery/01-five-lines"
PAGES = (
    "index",
    "start",
    "viewucb",
    "bakeoff",
    "running",
    "api/client",
    NOTEBOOK,
    "changelog",
    "search",
)
"""Each kind of page: front, code, formulas, wide tables, pictures, reference, a notebook, a long list, the search."""
WINDOWS = {
    "desktop": (1280, False, PAGES),
    "phone": (390, False, ("index", "start")),
    "dark": (1280, True, ("index", "start", "api/client", NOTEBOOK)),
}
"""The width, whether it is dark, and the pages that axe examines there: the scheme and width change little of them."""


@pytest.fixture
def window(browser):
    found = Window(browser)
    browser.get("about:blank")
    browser.set_script_timeout(120)  # axe takes seconds on a long page, and more on a busy machine
    found.errors()
    found.requested()
    return found


@pytest.mark.parametrize("kind", WINDOWS)
def test_pages_fit_the_window_load_nothing_from_elsewhere_and_have_no_serious_findings(window, address, axe, kind):
    width, dark, examined = WINDOWS[kind]
    findings, unfit = [], []
    for page in PAGES:
        window.open(f"{address}/{page}.html", width, dark=dark)
        if not window.fits():
            unfit.append(page)
        if page in examined:
            window.run(axe)
            findings += [f"{page}: {finding}" for finding in serious(window)]
    assert unfit == []
    assert findings == []
    assert window.errors() == []
    assert all(url.startswith((f"{address}/", "data:", "about:")) for url in window.requested())


def serious(window):
    """What axe finds, as far as it keeps people from using the page, with the first place of each."""
    script = "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then(r => done(r.violations))"
    found = window.driver.execute_async_script(script)
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])} places)"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("place", ["served", "file"])
def test_the_search_finds_silence_without_a_network(window, built_site, address, place):
    start = address if place == "served" else built_site.as_uri()
    window.open(f"{start}/start.html")
    window.type(".sidebar-search", "silence\n")
    window.until(lambda: len(window.all("#search-results .search li")) > 5, "the search never showed results")
    titles = [found.text.splitlines()[0] for found in window.all("#search-results .search li")]
    assert "Choosing a method" in titles
    window.find("#search-results .search a").click()
    window.until(lambda: "silence" in window.find("article").text.lower(), "the first result has no silence")
    assert window.errors() == []
    assert all(url.startswith((f"{start}/", "about:", "data:")) for url in window.requested())
