"""`--shard` on the command line: what is printed, what is refused, where it may stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import palate
from palate.runs import load_runs

WORDS = ("evaluate", "-b", "tasting", "-s", "longest", "-s", "random", "-c", "profile:1")


def test_shards_say_what_is_done_and_the_last_command_that_nothing_was_left(tmp_path: Path) -> None:
    # Both read no posts, so that 96 rows are 48 prompts of two responses: 32 prompts and 16.
    for k, batches, requests in ((1, 1, 64), (2, 1, 32), (3, 0, 0)):
        told = palate(*WORDS, "--shard", f"{k}/3", cwd=tmp_path)
        assert (told.returncode, told.stdout) == (0, "")
        *_, longest, random, last = told.stderr.splitlines()
        place = f"runs/shards/{k}-of-3/tasting"
        for line, name in ((longest, "longest"), (random, "random")):
            assert line.startswith(f"{place}/{name}/profile-1-"), line
            done = f": {batches} of 2 batches: {requests} requests computed here, 0 recalled"
            assert line.endswith(done)
        assert last == "once all shards are done, the same command without --shard writes the runs"
    told = palate(*WORDS, cwd=tmp_path)
    assert told.returncode == 0
    assert "shards: 0 requests computed here, 192 recalled" in told.stderr.splitlines()
    palate(*WORDS, "-o", "whole", cwd=tmp_path)
    for run in load_runs(tmp_path / "whole"):
        assert run.folder is not None
        for name in ("summary.json", "rows.jsonl"):
            twin = tmp_path / "runs" / run.folder.relative_to(tmp_path / "whole") / name
            assert twin.read_bytes() == (run.folder / name).read_bytes()
    compared = palate("compare", "runs", cwd=tmp_path)
    assert compared.stdout.count("longest") == 1
    verified = palate("verify", "runs", cwd=tmp_path)
    assert (verified.returncode, "2 passed, 0 refused" in verified.stdout) == (0, True)
    part = palate("verify", "runs/shards", cwd=tmp_path)
    assert (part.returncode, "not finished" in part.stdout) == (1, True)


def test_more_shards_than_batches_say_that_nothing_is_to_do(tmp_path: Path) -> None:
    told = palate(*WORDS, "--shard", "7/9", cwd=tmp_path)
    assert told.returncode == 0
    assert told.stderr.count(": 0 of 2 batches: 0 requests computed here, 0 recalled") == 2


def test_a_recipe_may_hold_the_shard(tmp_path: Path) -> None:
    (tmp_path / "palate.toml").write_text('[evaluate]\nshard = "2/3"\n')
    told = palate(*WORDS, cwd=tmp_path)
    assert told.returncode == 0
    assert (tmp_path / "runs" / "shards" / "2-of-3").is_dir()
    assert not list(tmp_path.rglob("summary.json"))


@pytest.mark.parametrize("text", ["0/4", "9/8", "x", "1/0"])
def test_what_is_no_shard_is_one_line_before_anything_is_read(text: str, tmp_path: Path) -> None:
    told = palate(
        "evaluate", "-b", "nothing.jsonl", "-s", "longest", f"--shard={text}", cwd=tmp_path
    )
    assert told.returncode == 2
    expected = f"palate: --shard {text}: expected I/N with I from 1 to N, such as 1/8"
    assert told.stderr.splitlines() == [expected]


def test_a_dry_run_names_the_shards_folder(tmp_path: Path) -> None:
    told = palate(*WORDS, "--shard", "1/2", "--dry-run", cwd=tmp_path)
    assert "runs go under runs/shards/1-of-2/" in told.stdout
    assert not (tmp_path / "runs").exists()


def test_a_shard_whose_endpoint_is_down_ends_with_3(tmp_path: Path) -> None:
    scorer = "rating:api:m?base_url=http://127.0.0.1:9/v1&retries=0"
    words = ("evaluate", "-b", "tasting", "-c", "none", "-s", scorer, "--limit", "4")
    told = palate(*words, "--shard", "1/1", cwd=tmp_path)
    assert told.returncode == 3
    assert told.stderr.splitlines()[-1] == (
        "palate: 8 rows were not answered; run the same command again"
    )


def test_unreadable_replies_are_left_to_the_last_command(tmp_path: Path) -> None:
    told = palate(*WORDS, "--shard", "1/2", "--retry-unscored", cwd=tmp_path)
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert "--shard: leave out --retry-unscored" in told.stderr
