"""Pictures of the service's page, taken with chromium of agents at work on handwritten digits."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import taciturn

ARMS = [f"digit {k}" for k in range(10)]
AGENTS = {"digits": ("viewucb", 500), "digits-linear": ("linucb", 250), "digits-imputed": ("bilinucb-kmeans", 250)}
"""The agents by name: the kind, and how many decisions it makes."""
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


class Shot(NamedTuple):
    """A picture: its name, what of the service it shows, and the window; no height is that of the whole page."""

    name: str
    path: str
    width: int
    height: int | None = None
    dark: bool = False


SHOTS = (
    Shot("page-agents.png", "/", 1200, 620),
    Shot("page-agent.png", "/agents/digits", 1200),
    Shot("page-agent-dark.png", "/agents/digits-imputed", 1200, dark=True),
    Shot("page-phone.png", "/agents/digits", 390, 1400),
)


def browser() -> tuple[str, str] | None:
    """The programs chromium and chromedriver, or None where one is missing."""
    programs = (shutil.which("chromium"), shutil.which("chromedriver"))
    return None if None in programs else programs  # type: ignore[return-value]


def take(folder: Path) -> str:
    """Write all pictures into a folder and return a line that says so, or why those that are there stay."""
    programs = browser()
    if programs is None:
        return "pictures: those of docs/, since there is no chromium and chromedriver here to take new ones"
    with _service() as url:
        with taciturn.Client(url) as client:
            rng = np.random.default_rng(0)
            for name, (kind, steps) in AGENTS.items():
                _work(client.create(name, arms=ARMS, kind=kind, seed=0, epsilon=0.05), steps, rng)
        _photograph(url, folder, *programs)
    return f"pictures: {len(SHOTS)} taken of the service's page"


def store(folder: Path, docs: Path) -> None:
    """Copy the pictures from a folder to another."""
    for shot in SHOTS:
        shutil.copy(folder / shot.name, docs / shot.name)


@contextmanager
def _service() -> Iterator[str]:
    """The address of a service with an empty folder, on a free port of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "taciturn", "serve", "--port", "0", "--log-level", "warning"]
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as service:
            try:
                line = service.stdout.readline()  # type: ignore[union-attr]
                yield re.search(r"http://\S+:\d+", line)[0]  # type: ignore[index]
            finally:
                service.terminate()


def _work(agent: Any, steps: int, rng: np.random.Generator) -> None:
    """Let an agent read digits; three in ten answers do not come at once, half of which come late."""
    digits = taciturn.load_dataset("digits")
    late = {}
    for row in rng.permutation(len(digits.y))[:steps]:
        x = digits.X[row].toarray().ravel()
        decision = agent.decide(x / np.linalg.norm(x))
        right = int(decision.arm == ARMS[digits.y[row]])
        silent = rng.random() < 0.3
        agent.feedback(decision.id, None if silent else right)
        if silent:
            late[decision.id] = right
    agent.feedback_batch(dict(list(late.items())[::2]))


def _photograph(url: str, folder: Path, chromium: str, driver_program: str) -> None:
    """Take all pictures of a service, in 64 colors."""
    from PIL import Image
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(driver_program))
    try:
        for shot in SHOTS:
            scheme = {"name": "prefers-color-scheme", "value": "dark" if shot.dark else "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            _resize(driver, shot.width, shot.height or 900)
            driver.get(url + shot.path)
            drawn = ".card" if shot.path == "/" else "svg.plane circle"
            WebDriverWait(driver, 30, 0.05).until(lambda page, css=drawn: page.find_elements("css selector", css))
            if shot.height is None:
                _resize(driver, shot.width, driver.execute_script("return document.documentElement.scrollHeight"))
            picture = Image.open(BytesIO(driver.get_screenshot_as_png())).convert("RGB").quantize(64)
            picture.save(folder / shot.name, optimize=True)
    finally:
        driver.quit()


def _resize(driver: Any, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
