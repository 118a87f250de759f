"""Shared by the tests of the page: a service on a port of this machine, and a window of a real browser."""

import json
import socket
import threading

import requests
import uvicorn

from taciturn.service import web
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key

KEYS = Keyring([Key(scope, digest(f"taciturn_{scope}"), scope) for scope in ("read", "write")])
WAIT = 30
ARMS = ["refund", "order", "<b>human</b>"]


def page_app(service, keyring=None):
    app = create_app(service, keyring)
    if not any(getattr(route, "path", "") == "/" for route in app.routes):
        web.add_page(app, service, keyring)
    return app


class Site:
    """A service with its page on a free port of this machine."""

    def __init__(self, journal, keyring=None, token=None):
        self._journal, self.service = journal, Service(journal)
        self._app = page_app(self.service, keyring)
        self.asking = requests.Session()
        if token is not None:
            self.asking.headers["authorization"] = f"Bearer {token}"
        self.port = 0
        self.start()

    def start(self):
        self._socket = socket.create_server(("127.0.0.1", self.port))  # requests from now on wait for the server
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(uvicorn.Config(self._app, log_config=None, access_log=False, lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()

    def stop(self):
        self.asking.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def close(self):
        self.stop()
        self.service.close()
        self._journal.close()

    def ask(self, method, path, content=None):
        answer = self.asking.request(method, self.url + path, json=content, timeout=WAIT)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def make(self, name="desk", kind="linucb", arms=ARMS, **params):
        self.ask("POST", "/v1/agents", {"name": name, "kind": kind, "arms": arms, "params": params})

    def decide(self, context, name="desk"):
        return self.ask("POST", f"/v1/agents/{name}/decisions", {"context": context})

    def reward(self, id, reward, name="desk"):
        self.ask("PUT", f"/v1/agents/{name}/decisions/{id}/reward", {"reward": reward})


class Window:
    """A window of the browser: user actions, and checks of its log and requests."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url, width=1200, height=900, *, dark=False):
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get(url)

    def command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script, *given):
        return self.driver.execute_script(script, *given)

    def find(self, css):
        return self.driver.find_element("css selector", css)

    def all(self, css):
        return self.driver.find_elements("css selector", css)

    def until(self, condition, what):
        from selenium.common.exceptions import (
            NoSuchElementException,
            StaleElementReferenceException,
            WebDriverException,
        )
        from selenium.webdriver.support.ui import WebDriverWait

        def holds(_):
            try:
                return condition()
            except WebDriverException as error:
                if "unhandled inspector error" in str(error.msg):  # of an element whose page goes at this moment
                    return False
                raise

        ignored = (NoSuchElementException, StaleElementReferenceException)
        return WebDriverWait(self.driver, WAIT, 0.05, ignored).until(holds, what)

    def until_text(self, css, text):
        self.until(lambda: text in self.find(css).text, f"{css} never showed {text!r}")

    def until_seen(self, css):
        return self.until(lambda: (found := self.find(css)).is_displayed() and found, f"{css} was never seen")

    def type(self, css, text):
        field = self.find(css)
        field.clear()
        field.send_keys(text)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, css):
        """Press Tab until an element has the focus; every stop must show its focus."""
        for _ in range(60):
            self.press("\ue004")
            at, ring = self.run("const a = document.activeElement; return [a.matches(arguments[0]), "
                                "a === document.body || getComputedStyle(a).outlineStyle !== 'none']", css)  # fmt: skip
            assert ring, "the focus is not visible"
            if at:
                return
        raise AssertionError(f"{css} cannot be reached by keyboard")

    def fits(self):
        """Whether the page is not wider than the window."""
        inner, outer = self.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        return inner <= outer

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requested(self):
        """The URLs of all requests since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
