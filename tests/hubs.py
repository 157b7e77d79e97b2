"""A hub of data sets or models on this machine, and programs that read from it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = "fedcba9876543210fedcba9876543210fedcba98"


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, folder: Path, repository: str, kind: str = "datasets", down: bool = False
    ) -> None:
        self.folder, self.repository, self.kind, self.down = folder, repository, kind, down
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Routes)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Routes(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        revisions = {"main": COMMIT, "v1": OLDER, COMMIT: COMMIT, OLDER: OLDER}
        repository, folder = self.server.repository, self.server.folder
        within = f"/{self.server.kind}/{repository}"
        info, files = f"/api{within}/revision/", f"{within.removeprefix('/models')}/resolve/"
        path = self.path.split("?")[0]
        if self.server.down:
            self.answer(503, b"out to lunch")
        elif path.startswith(info) and path.removeprefix(info) in revisions:
            commit = revisions[path.removeprefix(info)]
            names = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()]
            siblings = [{"rfilename": name} for name in names]
            body = json.dumps({"id": repository, "sha": commit, "siblings": siblings}).encode()
            self.answer(200, body, Content_Type="application/json")
        elif path.startswith(f"/api{within}/tree/"):
            found = [p for p in folder.rglob("*") if p.is_file()]
            tree = [{"type": "file", "path": str(p.relative_to(folder)), "oid": p.name,
                     "size": p.stat().st_size} for p in found]  # fmt: skip
            self.answer(200, json.dumps(tree).encode(), Content_Type="application/json")
        elif path.startswith(files):
            commit, _, name = path.removeprefix(files).partition("/")
            file = folder / name
            if commit in (COMMIT, OLDER) and file.is_file():
                body = file.read_bytes()
                etag = f'"{hashlib.sha256(body).hexdigest()}"'
                self.answer(200, body, ETag=etag, X_Repo_Commit=commit)
            else:
                self.answer(404, b"", X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        else:
            self.answer(404, b"", X_Error_Code="RevisionNotFound")

    do_HEAD = do_GET  # noqa: N815


@contextmanager
def serving(folder: Path, repository: str, kind: str = "datasets") -> Iterator[Hub]:
    """Serve the files of a folder as a repository, at two commits."""
    server = Hub(folder, repository, kind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read_by(script: str, url: str, home: Path, *arguments: str | None, **env: str) -> list[Any]:
    """Run a script that is given arguments as JSON; return the lines of JSON that it prints."""
    # huggingface_hub reads HF_ENDPOINT when it is imported, so each look is a process of its own.
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("HF_", "HUGGING")) and "proxy" not in name.lower()
    }  # fmt: skip
    environment |= {
        "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1", **env,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(arguments)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
