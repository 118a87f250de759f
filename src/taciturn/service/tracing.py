"""Spans of OpenTelemetry: of requests, and within them of the operation on an agent and of its commit to the journal.

Only a service that is asked for spans imports this module, and is put together from the classes here. No span has a
context, a text, a key or the message of an error: those can hold what people have written.
"""

import asyncio
import os
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from taciturn import __version__
from taciturn.errors import TaciturnError, how_to_install
from taciturn.service.api.asgi import Resource, Scope, Send
from taciturn.service.api.bodies import Receive
from taciturn.service.core.jobs import Job, Query, Result
from taciturn.service.core.operations import NAME, OPERATIONS, Op
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Entry, Journal
from taciturn.service.journal.commit import Done, GroupCommit

try:
    from opentelemetry.context import Context, get_current
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION
    from opentelemetry.sdk.resources import Resource as Origin
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise TaciturnError(f"--otel needs OpenTelemetry: {how_to_install('otel')}") from error

TRACED = "/v1/"
"""The start of the routes whose requests have spans: not those that probes ask all the time."""

CLIENT_CLOSED = 499
KINDS: dict[type, str] = {operation: kind for kind, operation in OPERATIONS.items()}
W3C = TraceContextTextMapPropagator()


@contextmanager
def opened_tracer() -> Iterator[Tracer]:
    """A tracer whose spans go to the OTLP receiver that the OTEL_* variables name, the last ones at the end."""
    name = os.environ.get("OTEL_SERVICE_NAME", "taciturn")
    provider = TracerProvider(resource=Origin.create({SERVICE_NAME: name, SERVICE_VERSION: __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield provider.get_tracer("taciturn", __version__)
    finally:
        provider.shutdown()


class TracedResource:
    """A resource of the API, with a span for each request, which continues the trace that the request names."""

    def __init__(self, tracer: Tracer, path: str, resource: Resource) -> None:
        self._tracer, self._path, self._resource = tracer, path.replace(":path", ""), resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method = scope["method"] if scope["method"] in {*self._resource.methods, "HEAD"} else "_OTHER"
        status = CLIENT_CLOSED

        async def send_noting_status(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        with self._tracer.start_as_current_span(
            f"{method} {self._path}",
            context=_given_context(scope),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "http.route": self._path},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            await self._resource(scope, receive, send_noting_status)
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))


def _given_context(scope: Scope) -> Context:
    """The trace of the headers traceparent and tracestate; a new one where there is none, or none that is valid."""
    found = {
        name.decode(): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in (b"traceparent", b"tracestate")
    }
    return W3C.extract(found, Context())


class TracedFuture(asyncio.Future[Any]):
    """The result of a job, with the trace that it belongs to."""

    trace: Context


class TracedCommit(GroupCommit):
    """A group commit with a span for every result: from the submission of its entries until they are durable."""

    def __init__(self, tracer: Tracer, journal: Journal) -> None:
        self._tracer = tracer
        super().__init__(journal)

    def submit(self, entries: Sequence[Entry], done: Done) -> None:
        """Queue entries and return immediately."""
        if not isinstance(done, partial):  # of no worker: an agent is deleted that could not be restored
            super().submit(entries, done)
            return
        (batch,) = done.args  # of `Worker._appended`
        started = time.time_ns()

        def finished(error: Exception | None, position: int) -> object:
            self._record(batch.results, len(entries), started, error)
            return done(error, position)

        super().submit(entries, finished)

    def _record(self, results: list[Result], entries: int, started: int, error: Exception | None) -> None:
        for result in results:
            if isinstance(result.future, TracedFuture):
                attributes = {"taciturn.entries": entries}
                span = self._tracer.start_span("commit", result.future.trace, attributes=attributes, start_time=started)
                if error is not None:
                    span.set_attribute("error.type", type(error).__name__)
                    span.set_status(Status(StatusCode.ERROR))
                span.end()


class TracedService(Service):
    """A service with a span for every operation on an agent."""

    def __init__(self, tracer: Tracer, *arguments: Any, **options: Any) -> None:
        self._tracer = tracer
        super().__init__(*arguments, **options)

    def _make_commit(self, journal: Journal) -> GroupCommit:
        return TracedCommit(self._tracer, journal)

    async def call_async(self, name: str, what: Op | Query, raw: bytes | None = None) -> Any:
        """Run an operation or a query and await its result; without spans for the page, and in traces not sampled."""
        if not get_current_span().is_recording():
            return await super().call_async(name, what, raw)
        future = TracedFuture(loop=asyncio.get_running_loop())
        job = Job(what, future, raw)
        attributes: dict[str, str | int] = {"taciturn.batch_size": job.size}
        if NAME.fullmatch(name):  # what is no name can be anything
            attributes["taciturn.agent"] = name
        with self._tracer.start_as_current_span(
            KINDS.get(type(what), "query"), attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            future.trace = get_current()
            try:
                self.put(name, job)
                return await future
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                raise
