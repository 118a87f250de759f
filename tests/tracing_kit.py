"""A receiver of spans, as OpenTelemetry sends them."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver(BaseHTTPRequestHandler):
    """An OTLP receiver, which keeps what it gets."""

    def do_POST(self):
        content = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, ExportTraceServiceRequest.FromString(content)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def receiving():
    """The address of a receiver, and the list of the paths and requests that it gets."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        receiver.received = []
        threading.Thread(target=receiver.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{receiver.server_port}", receiver.received
        finally:
            receiver.shutdown()


def spans_of(received):
    """The spans in what a receiver got."""
    sources = [source for _, request in received for source in request.resource_spans]
    return [span for source in sources for scope in source.scope_spans for span in scope.spans]
