"""The page in the process that runs the agents."""

from taciturn.service.api.asgi import App
from taciturn.service.api.keys import Keyring
from taciturn.service.core.service import Service
from taciturn.service.web.latency import Latencies, Stopwatch
from taciturn.service.web.pages import Page
from taciturn.service.web.views import Views


def add_page(app: App, service: Service, keyring: Keyring | None = None) -> None:
    """Add the page at `/` to an application of `create_app` with the same service and keys."""
    latencies = Latencies()
    page = Page(Views(service, latencies), app.handlers, keyring=keyring or Keyring(), limits=service.limits)
    app.router.routes.extend(page.routes())
    app.front = Stopwatch(app.front, latencies)
