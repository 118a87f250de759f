"""A stand-in for a server of models: it answers every chat with the name of the model that was asked for.

python stand_in.py [PORT]
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StandIn(BaseHTTPRequestHandler):
    """Answers POST /v1/chat/completions."""

    def do_POST(self):
        """Answer a chat."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = f"This is {request['model']}. You said: {request['messages'][-1]['content']}"
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {"id": "chatcmpl-0", "object": "chat.completion", "model": request["model"], "choices": [choice]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Stay quiet."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8500
    server = ThreadingHTTPServer(("127.0.0.1", port), StandIn)
    print(f"a stand-in for models listens at http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
