"""A stand-in for llama-server that starts and answers like it, and echoes the prompt."""

from __future__ import annotations

import sys
from pathlib import Path

# Answers /health at the second attempt, then completions, like llama-server.
SERVER = """
import http.server, json, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    tries = 0
    def do_GET(self):
        Handler.tries += 1
        self.send_response(200 if Handler.tries > 1 else 503)
        self.end_headers()
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        for token in asked["prompt"][: asked["n_predict"]]:
            self.wfile.write(b"data: " + json.dumps({"tokens": [token], "stop": False}).encode() + b"\\n\\n")
            time.sleep(0.005)
        self.wfile.write(b'data: {"tokens": [], "stop": true, "timings": {"cache_n": 3}}\\n\\n')
    def log_message(self, *arguments): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def program(folder: Path, source: str) -> Path:
    """Writes a Python program that can be started like llama-server."""
    file = folder / "llama-server"
    file.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    file.chmod(0o755)
    return file
