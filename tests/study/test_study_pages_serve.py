"""The command: links on the first start, an end at SIGTERM, one line where it cannot serve."""

from __future__ import annotations

import builtins
import csv
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from page_studies import page_study, served

from command_line import palate
from palate.errors import ResourceError
from palate.study import read_study
from palate.study.pages import serve_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return page_study(tmp_path / "study").folder


def started(folder: Path, *words: str) -> tuple[subprocess.Popen[str], int, str]:
    process = subprocess.Popen(
        (sys.executable, "-m", "palate", "study", "serve", str(folder), "--port", "0", *words),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    line = process.stderr.readline()
    return process, int(re.search(r"http://127\.0\.0\.1:(\d+)", line)[1]), line  # type: ignore[index]


def ask(port: int, path: str, body: str | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("GET" if body is None else "POST", path, body, kind)
    reply = connection.getresponse()
    reply.read()
    return reply


def test_the_first_start_writes_links_and_a_new_one_finds_everything(study):
    process, port, line = started(study)
    assert line.strip().endswith(f"links in {study / 'links.csv'}")
    assert (study / "links.csv").stat().st_mode & 0o777 == 0o600
    rows = list(csv.DictReader((study / "links.csv").read_text().splitlines()))
    assert [row["rater"] for row in rows] == ["r01", "r02", "r03"]
    path = rows[1]["link"].removeprefix(f"http://127.0.0.1:{port}")
    assert ask(port, path).status == 303
    reply = ask(port, f"{path}/consent", "")
    assert reply.status == 303 and reply.getheader("Server") is None
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out, said) == (0, "", "")
    before = (study / "links.csv").read_bytes()
    address, links = stopped(study)
    assert links.encode() == before
    with served(read_study(study)) as again:
        assert again.client.get(path).headers["Location"] == f"{path}/about"
    assert path not in line and path not in address


def stopped(folder: Path, **more: Any) -> tuple[str, str]:
    """Serve until it listens, and return the address and what the links are."""
    seen: list[str] = []

    def listening(address: str, links: Path | None) -> None:
        seen.extend((address, links.read_text() if links else ""))
        signal.raise_signal(signal.SIGTERM)

    serve_study(folder, port=0, listening=listening, **more)
    return seen[0], seen[1]


def test_who_comes_from_a_platform_needs_no_links(study):
    _, links = stopped(study, arrive="PROLIFIC_PID", onward="https://example.org?a=1")
    assert links == "" and not (study / "links.csv").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--url", "ftp://example.org"), "--url ftp://example.org: expected an address as"),
        (("--return", "javascript:alert(1)"), "--return javascript:alert(1): expected"),
        (("--return", "https://"), "--return https://: expected"),
        (("--host", "0.0.0.0"), "--host 0.0.0.0: say with --url"),
        (("--arrive", ""), "--arrive: expected the name of a parameter"),
        (("--host", "192.0.2.1"), "cannot listen there"),
    ],
)
def test_what_cannot_be_served_is_one_line(study, words, says, tmp_path):
    done = palate("study", "serve", str(study), *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr
    assert not (study / "links.csv").exists()


def test_a_busy_port_is_one_line_and_issues_no_links(study, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = palate("study", "serve", str(study), "--port", str(port), cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"--port {port}: cannot listen there" in done.stderr
    assert not (study / "answers.sqlite").exists()


def test_no_study_and_a_changed_one_are_one_line(study, tmp_path):
    done = palate("study", "serve", str(tmp_path / "none"), cwd=tmp_path)
    assert done.returncode == 2 and "no study" in done.stderr
    plan = (study / "plan.json").read_text()
    (study / "plan.json").write_text(plan.replace("0.25", "0.5"))
    done = palate("study", "serve", str(study), cwd=tmp_path)
    assert done.returncode == 2 and "changed since it was planned" in done.stderr


SERVER = "palate.serve.server"


@pytest.mark.parametrize("module", ["fastapi", "markdown_it", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(study, tmp_path, monkeypatch, module):
    for name in [*sys.modules]:
        if name.startswith(
            ("palate.study.page_", "palate.study.steps", "palate.serve.server", module)
        ):
            monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def missing(name: str, *more: Any, **named: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    done = palate("study", "serve", str(study), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("palate: palate study serve needs pip install 'palate[study]'")
    assert module in done.stderr


def test_links_that_cannot_be_written_are_issued_at_the_next_start(study):
    (study / "links.csv").mkdir()
    with pytest.raises(ResourceError, match=r"links\.csv: cannot be written"):
        stopped(study)
    (study / "links.csv").rmdir()
    assert stopped(study)[1].count("/s/") == 3


def test_the_address_that_raters_see_stands_in_the_links_and_the_keys_stay(study):
    _, before = stopped(study)
    given = "https://people.example.org/tasting/"
    address, after = stopped(study, url=given, host="0.0.0.0")
    assert address == given.rstrip("/")
    assert after.count(f",{given}s/") == 3
    assert re.findall(r"/s/(.+)", after) == re.findall(r"/s/(.+)", before)
    assert (study / "links.csv").stat().st_mode & 0o777 == 0o600


def test_who_serves_arrivals_hears_that_links_hold_the_places(study):
    stopped(study)
    process, _, line = started(study, "--arrive", "ID")
    assert process.stderr is not None
    said = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert "/?ID=" in line and "a place of links.csv is free once palate study close" in said
