"""A real chromium for the tests, without requests of its own."""

import os
import shutil
from contextlib import contextmanager

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-quic",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium(*flags):
    """A driver whose console and network can be read; without a browser the test is skipped, or fails in CI."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        reason = "no chromium and chromedriver here (Debian: apt-get install chromium chromium-driver)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()
