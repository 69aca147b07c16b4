"""A server of tools for tests: over standard input and output, or over HTTP when the first argument is `http`."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOLS = [
    {"name": "echo", "description": "says it again", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "where", "inputSchema": {"type": "object"}},
    {"name": "never", "inputSchema": {"type": "object"}},
    {"name": "linger", "inputSchema": {"type": "object"}},
    {"name": "leave", "inputSchema": {"type": "object"}},
]
cancelled, said = threading.Event(), []


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def call(name, given):
    if name == "echo":
        return text(given["text"])
    if name == "fail":
        return text("it went wrong", isError=True)
    if name == "where":
        if given.get("after_cancel"):
            cancelled.wait(30)
        return text(json.dumps({"cwd": os.getcwd(), "env": dict(os.environ), "said": said}))
    if name == "linger":
        code = (
            "import socket, time; "
            f"link = socket.create_connection(('127.0.0.1', {given['port']})); "
            "time.sleep(20); link.send(b'x')"
        )
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
        return text("started")
    if name == "leave":
        print("I have had enough", file=sys.stderr, flush=True)
        os._exit(3)


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "test", "version": "1"}
        return {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        page = int(params.get("cursor", "0"))
        more = {"nextCursor": str(page + 1)} if (page + 1) * 4 < len(TOOLS) else {}
        return {"tools": TOOLS[page * 4 : page * 4 + 4], **more}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}))


def respond(message):
    """None for what is not answered."""
    if message.get("method") == "notifications/cancelled":
        said.append(message["params"]["requestId"])
        cancelled.set()
    if "method" not in message:
        said.append(message)
    if "id" not in message or "method" not in message:
        return None
    if message["method"] == "tools/call" and message["params"]["name"] == "never":
        return None
    if message["method"] == "tools/call" and message["params"]["name"] not in [tool["name"] for tool in TOOLS]:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no such tool"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}


def stdio():
    print("Welcome to the server!", flush=True)
    print("x" * 200_000, file=sys.stderr, flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": "p1", "method": "ping"}), flush=True)
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}), flush=True)
    for line in sys.stdin:
        reply = respond(json.loads(line))
        if reply:
            print(json.dumps(reply), flush=True)


class Door(BaseHTTPRequestHandler):
    sessions = 0
    known = set()

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id")
        if message.get("method") == "initialize":
            Door.sessions += 1
            session = f"session-{Door.sessions}"
            Door.known.add(session)
        elif session not in Door.known or self.headers.get("mcp-protocol-version") != "2025-03-26":
            return self.give(404, "text/plain", b"no such session")
        name = message["params"]["name"] if message.get("method") == "tools/call" else None
        if name == "never":
            cancelled.wait(30)
            return self.give(200, "application/json", b"")
        if name == "leave" and Door.sessions == 1:
            Door.known.clear()
            return self.give(404, "text/plain", b"no such session")
        if name == "leave":
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": text(session)}
            return self.give(200, "application/json", json.dumps(reply).encode())
        reply = respond(message)
        if reply is None:
            return self.give(202, "text/plain", b"")
        body = json.dumps(reply)
        if message["method"] == "tools/call":
            ping = json.dumps({"jsonrpc": "2.0", "id": "p1", "method": "ping"})
            return self.give(200, "text/event-stream", f"event: message\ndata: {ping}\n\ndata: {body}\n\n".encode())
        self.give(200, "application/json", body.encode(), session)

    def give(self, status, kind, body, session=None):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if sys.argv[1:] == ["http"]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    print(server.server_port, flush=True)
    server.serve_forever()
else:
    stdio()
