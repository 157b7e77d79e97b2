"""The command line as a person uses it: its output, its exit code; some in a real process."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from command_line import palate, palate_process
from palate.cli import app, main

RUN = {
    "benchmark", "scorer", "context", "n_pairs", "n_users", "accuracy", "strict_accuracy", "bounds",
    "ties", "unscored", "mirrored_accuracy", "concordance", "subsets",
}  # fmt: skip
GAIN = {"kind", "against", "value", "low", "high", "n", "n_users", "n_left_out", "p", "p_holm"}


def rows(path: Path, n: int = 12) -> Path:
    texts = ["short", "rather longer"]
    with path.open("w", encoding="utf-8") as file:
        for k in range(n):
            row = {
                "id": k, "user_id": f"u{k % 4}", "question": f"Which, {k // 2}?",
                **dict(zip(("chosen", "rejected"), texts[:: 1 if k % 2 else -1], strict=True)),
                "profile": [{"id": "p", "text": f"I wrote this, {k % 4}."}],
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")
    return path


def test_evaluate_prints_a_table_and_exits_0(tmp_path: Path) -> None:
    done = palate_process(
        "evaluate", "-b", "tasting", "-s", "longest",
        "-c", "none", "-c", "profile:5", "-c", "stranger:5", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "48 mirrored couples of 32 users" in done.stdout
    assert "longest  profile:5    0.500  0.500       0.500" in done.stdout
    assert "blind: the same for every user." in done.stdout
    assert done.stderr.startswith("plan: 3 runs, 1 scorer under none, profile:5, stranger:5")
    run = next((tmp_path / "runs/tasting/longest").iterdir())
    assert sorted(path.name for path in run.iterdir()) == [
        "journal.jsonl", "manifest.json", "rows.jsonl", "summary.json", "sums.json",
    ]  # fmt: skip


def test_json_is_one_document_without_nan_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    done = palate(
        "evaluate", "-b", str(rows(tmp_path / "mine.jsonl")), "-s", "longest", "-s", "random",
        "-c", "none", "-c", "profile:1", "-c", "stranger:1", "--format", "json", cwd=tmp_path,
    )  # fmt: skip

    def refuse(text: str) -> None:
        raise AssertionError(text)

    document = json.loads(done.stdout, parse_constant=refuse)
    keys = ["schema", "kind", "runs", "gains", "groups", "ratings", "kinds", "costs"]
    assert list(document) == keys
    assert (document["schema"], document["kind"]) == (4, "evaluation")
    assert len(document["runs"]) == 6
    assert {run["benchmark"] for run in document["runs"]} == {"mine"}
    for run in document["runs"]:
        assert set(run) >= RUN
    for gain in document["gains"]:
        assert set(gain) >= GAIN


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("evaluate -b nowhere -s longest", "unknown benchmark 'nowhere'"),
        ("evaluate -b tastin -s longest", "did you mean tasting?"),
        ("evaluate -b tasting -s longst", "did you mean longest?"),
        ("evaluate -b tasting -s longest -c profil:5", "did you mean profile?"),
        ("evaluate -b tasting -s longest -c profile", "profile:5"),
        ("evaluate -b tasting -s longest:x", "takes no reference"),
        ("evaluate -b tasting -s judge:api:m", "base_url"),
        ("evaluate -b ./none.jsonl -s longest", "no such file"),
        ("evaluate -b :apple:.jsonl -s longest", ":apple:.jsonl"),
        ("evaluate -b tasting -s longest --split train", "no split 'train'"),
        ("evaluate -b tasting -s longest --map x=y", "--map x=y"),
        ("evaluate -b tasting -s longest --limit 0", "--limit 0"),
        ("evaluate -b tasting?subset=Cooking -s longest", "no subset 'Cooking'"),
        ("evaluate -b tasting -s longest --dtype foo", "--dtype foo"),
        ("evaluate -b tasting -s longest --seed -5", "--seed -5"),
        ("evaluate -b tasting -s longest --template-date soon", "--template-date soon"),
        (
            "show -b tasting -s longest --chat-template none.jinja",
            "--chat-template none.jinja: no such file",
        ),
        ("compare nowhere", "no such folder"),
        ("show -b tasting -s longest --pair x", "no pair 'x'"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(tmp_path: Path, words: str, says: str) -> None:
    done = palate(*words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists(), "nothing is left behind"


def test_an_unwritable_output_folder_is_exit_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = palate_process("evaluate", "-b", "tasting", "-s", "longest", "-o", "file", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_an_endpoint_that_is_not_there_leaves_every_row_unscored_and_is_exit_3(
    tmp_path: Path,
) -> None:
    judge = "judge:api:m?base_url=http://127.0.0.1:9&retries=0"
    words = ("evaluate", "-b", "tasting", "-s", judge, "--limit", "2", "-c", "none")
    done = palate_process(*words, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "none: 4 rows unscored (judge)" in done.stdout
    assert "nothing was scored" in done.stderr.strip().splitlines()[-1]


def test_dry_run_prints_plan_and_prompt_and_leaves_nothing(tmp_path: Path) -> None:
    judge = "judge:api:m?base_url=http://127.0.0.1:9"
    done = palate(
        "evaluate", "-b", "tasting", "-s", judge, "-c", "profile:2", "--dry-run", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "96 rows" in done.stdout
    assert "Verdict: A" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_counts_draws(tmp_path: Path) -> None:
    done = palate(
        "evaluate", "-b", "tasting", "-s", "longest", "-c", "profile:2", "-c", "stranger:2?draws=3",
        "--dry-run", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    own, stranger = done.stdout.splitlines()[:2]
    assert own.endswith("96 rows")
    assert stranger.endswith("96 rows × 3 draws")


def test_compare_reads_what_evaluate_wrote(tmp_path: Path) -> None:
    file = rows(tmp_path / "mine.jsonl")
    words = ("-b", str(file), "-s", "longest", "-s", "random", "-c", "none")
    palate("evaluate", *words, cwd=tmp_path)
    done = palate("compare", "runs", "--format", "markdown", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine, none: 2 scorers, 12 common rows" in done.stdout
    assert "| longest | " in done.stdout
    assert done.stdout.count("| baseline |") == 2


def test_mirrors_only_and_columns_by_other_names(tmp_path: Path) -> None:
    file = rows(tmp_path / "mine.jsonl")
    text = file.read_text().replace('"chosen"', '"better"')
    file.write_text(text)
    words = ("-b", str(file), "-s", "longest", "--map", "chosen=better", "--mirrors", "only")
    done = palate("evaluate", *words, "--details", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "6 mirrored couples of 4 users" in done.stdout
    assert "0.500 [0.500, 0.500]" in done.stdout


def test_list_names_the_benchmark(tmp_path: Path) -> None:
    assert "tasting" in palate("list", cwd=tmp_path).stdout


def test_version_and_help() -> None:
    invoke = partial(CliRunner().invoke, app)
    assert invoke("--version").stdout.startswith("palate 0.")
    commands = get_command(app).list_commands(None)
    assert {"evaluate", "compare", "show", "list", "train", "serve"} < {*commands}
    for command in commands:
        assert command in invoke("--help").stdout
        assert invoke([command, "--help"]).exit_code == 0


def test_keys_never_reach_disk_or_output(tmp_path: Path) -> None:
    judge = "judge:api:m?base_url=http://127.0.0.1:9&retries=0"
    words = ("evaluate", "-b", "tasting", "-s", judge, "--limit", "1")
    done = palate_process(*words, cwd=tmp_path, PALATE_API_KEY="s3cr3t-key")
    kept = "".join(p.read_text() for p in (tmp_path / "runs").rglob("*") if p.is_file())
    assert "s3cr3t" not in done.stdout + done.stderr + kept


def test_a_planner_is_not_trained_on_people_of_the_benchmark(tmp_path: Path) -> None:
    done = palate(
        "train", "planner", "--base", "./none", "--data", "tasting", "--disjoint-from", "tasting",
        "-o", "planner", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()[-1:]
    assert "is in tasting too" in line
    assert not (tmp_path / "planner").exists()


def test_a_folder_of_an_older_format_is_refused_in_one_line(tmp_path: Path) -> None:
    file = rows(tmp_path / "mine.jsonl")
    palate("evaluate", "-b", str(file), "-s", "longest", "-c", "none", cwd=tmp_path)
    manifest = next((tmp_path / "runs/mine/longest").rglob("manifest.json"))
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**document, "schema": 1}))
    done = palate("compare", "runs", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "an older version of palate (schema 1, this one reads 4)" in done.stderr
    assert "run the command that made it again" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "evaluate -b tasting -s longest",
        "decode -b tasting -s longest -p x -q y --method args",
        "policy-accuracy -b tasting -p x",
    ],
)
def test_an_interrupt_is_one_line(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palate.cli.options.load_benchmark", interrupted)
    monkeypatch.setattr(sys, "argv", ["palate", *words.split()])
    with pytest.raises(SystemExit, match="130"):
        main()
    assert capsys.readouterr().err == "palate: stopped; run the same command again to go on\n"
    monkeypatch.setitem(main.__globals__, "app", interrupted)
    monkeypatch.setattr(sys, "argv", ["palate", "train", "classifier"])
    with pytest.raises(SystemExit, match="130"):
        main()
    assert capsys.readouterr().err == "palate: stopped\n"
