"""An HTTP server on loopback that answers as a test says."""

from http.server import BaseHTTPRequestHandler


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requested.append(self.path)
        behave = self.server.paths.get(self.path, lambda handler: handler.send_error(404))
        behave(self)

    def log_message(self, *_):
        pass


def send(content, kind="application/octet-stream", promised=None):
    """Return a handler that sends content, with its true length or `promised` as Content-Length."""

    def behave(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(promised or len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return behave
