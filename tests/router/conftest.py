"""A real browser for the router's page."""

import pytest

from browser_kit import chromium
from page_kit import Window


@pytest.fixture(scope="session")
def browser():
    """A driver, and with it a browser, for all tests of the page."""
    with chromium() as driver:
        yield driver


@pytest.fixture
def window(browser):
    """A window that has no errors in the end, and asks nobody but the router."""
    window = Window(browser)
    window.errors()
    yield window
    assert window.errors() == []
