"""Runs forged with palate's own code, so that their files agree: each is refused or named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palate.benchmarks import LoadOptions, load_benchmark
from palate.comparison import evaluate
from palate.evaluation import Work, run_or_shard, summarise
from palate.records import Outcome, Settings
from palate.runs import Noise, Run, VerdictRow, Verdicts, load, noise_of, read_manifest
from palate.session import default_session
from palate.verification import DataOfRuns, Rescoring, verify_run

Rows = list[VerdictRow]
KEPT = {
    "benchmark", "scorer", "context", "oracle", "models", "undecided_rows", "bad_rows",
    "parts_dropped", "leaks_dropped", "shortfall_words", "searches_unmatched", "split_texts",
    "notes", "alarms",
}  # fmt: skip


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rated votes of two users, of two splits and years, in couples and not."""
    path = tmp_path_factory.mktemp("data") / "votes.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for k in range(48):
            texts = ["tea " * (1 + k % 5), "milk " * (3 - k % 3)]
            texts = texts if k % 2 else [f"{texts[1]}.", f"{texts[0]}!"]
            chosen, rejected = texts
            row = {
                "id": k, "user_id": f"u{k % 2}", "question": f"Which, {k // 2}?", "chosen": chosen,
                "rejected": rejected, "chosen_rating": 4, "rejected_rating": 2,
                "date": f"{2023 + k // 24}", "split": "ab"[k // 2 % 2], "subset": "xy"[k // 4 % 2],
                "profile": [{"text": f"I like {texts[k % 2]}.", "date": "2022"}],
            }  # fmt: skip
            file.write(f"{json.dumps(row)}\n")
    return path


def run_of(votes: Path, root: Path, *, seed: int = 0, how: Any = None, **reading: Any) -> Run:
    pairs = load_benchmark(str(votes), seed=seed, options=LoadOptions(**(how or {})), **reading)
    return evaluate(pairs, "random", "profile:1", root=root, settings=Settings(seed=seed))


def afresh(rows: int) -> Rescoring:
    return Rescoring(rows, default_session(), Settings(), lambda label: lambda done, total: None)


def checked(folder: Path, votes: Path) -> tuple[str, ...]:
    """Return what is refused, or not checked, where all rows are scored afresh."""
    data = DataOfRuns([load_benchmark(str(votes), split="all")])
    run = verify_run(folder, data, afresh(48))
    return ("another kind",) if run is None else (*run.problems, *run.unseen)


def rewrite(
    run: Run,
    rows: Callable[[Rows], Rows] = lambda rows: rows,
    identity: dict[str, Any] | None = None,
    written: dict[str, Any] | None = None,
    **facts: Any,
) -> Path:
    """Write a run again with other rows, facts and manifest, under the name that follows."""
    verdicts = Verdicts(rows(list(run.verdicts.rows)))
    manifest = read_manifest(run.folder)
    manifest = manifest.model_copy(
        update={"identity": {**manifest.identity, **(identity or {})}, **(written or {})}
    )
    folder = manifest.folder(run.folder.parents[2])
    if folder != run.folder:
        folder.parent.mkdir(parents=True, exist_ok=True)
        run.folder.rename(folder)
    (folder / "manifest.json").unlink()
    manifest.write(folder)
    kept = run.summary.model_dump(include=KEPT)
    named = {name: manifest.identity[name] for name in ("benchmark", "scorer", "context")}
    summary = summarise(verdicts, **{**kept, **named, **facts})
    Run(summary, verdicts, folder, again=run.again).save()
    return folder


def changed(**fields: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [row.model_copy(update=fields) for row in rows]


def each(change: Callable[[VerdictRow], dict[str, Any]]) -> Callable[[Rows], Rows]:
    return lambda rows: [row.model_copy(update=change(row)) for row in rows]


def flattered(row: VerdictRow) -> dict[str, Any]:
    ratings = row.ratings
    low, high = sorted(it or 0.0 for it in ratings.scores)
    turned = ratings.model_copy(update={"scores": (high, low)})
    return {"outcome": Outcome.CHOSEN, "margin": abs(row.margin or 0.0), "ratings": turned}


def shifted(row: VerdictRow) -> dict[str, Any]:
    scores = tuple((it or 0.0) + 3 * row.ratings.ratings[0] for it in row.ratings.scores)
    return {"ratings": row.ratings.model_copy(update={"scores": scores})}


def lost(row: VerdictRow) -> dict[str, Any]:
    if row.outcome is Outcome.CHOSEN:
        return {}
    none = row.ratings.model_copy(update={"scores": (None, None)})
    return {"outcome": Outcome.UNSCORED, "margin": None, "reason": "too long", "ratings": none}


def telling(**facts: Any) -> Callable[[Run], Path]:
    return lambda run: rewrite(run, **facts)


def named(**fields: Any) -> Callable[[Run], Path]:
    return telling(identity=fields)


def without_journal(run: Run) -> Run:
    (run.folder / "journal.jsonl").unlink()
    return run


NOISE = {"rows": 0, "sd": 9.0}
FORGED: dict[str, Callable[[Run], Path]] = {
    "every row chosen": lambda run: rewrite(without_journal(run), each(flattered)),
    "lost rows are left out": lambda run: rewrite(without_journal(run), each(lost)),
    "other scores, margins kept": lambda run: rewrite(run, each(shifted)),
    "nothing shown": telling(rows=changed(own_words=0)),
    "a share for a margin": lambda run: rewrite(
        run, changed(share=0.9, margin=None, outcome=Outcome.CHOSEN, ratings=None)),
    "the order of the responses": telling(rows=changed(chosen_first=True)),
    "other users": telling(rows=changed(user="u0")),
    "other ratings": telling(rows=changed(ratings=None)),
    "no couples": telling(rows=changed(mirror_of=None, subset="z")),
    "other lengths": telling(rows=changed(lengths=(9, 9))),
    "other dates": telling(rows=changed(date="1999")),
    "the best half of the rows": lambda run: rewrite(
        run, lambda rows: [row for row in rows if row.outcome is Outcome.CHOSEN]),
    "a noise of replies": lambda run: rewrite(
        run, noise=Noise(kind="asking again", **NOISE)),
    "a noise of rounding": lambda run: rewrite(
        run, noise=Noise(kind="rounding", dtype="bfloat16", **NOISE)),
    "a note more": telling(notes=("measured twice",)),
    "an oracle": telling(oracle=True),
    "a model": telling(models=("gpt-9",)),
    "parts dropped": telling(parts_dropped=3),
    "leaks dropped": telling(leaks_dropped=3),
    "words missing": telling(shortfall_words=3),
    "searches unmatched": telling(searches_unmatched=3),
    "texts split": telling(split_texts=3),
    "bad rows": telling(bad_rows=3),
    "undecided rows": telling(undecided_rows=3),
    "a calibration": telling(log_odds=True),
    "another kind": lambda run: rewrite(
        run, written={"kind": "validity"}, identity={"name": "mine"}),
    "versions": lambda run: rewrite(run, written={"versions": {"palate": "9"}}),
    "details": lambda run: rewrite(run, written={"details": ({"model": "mine"},)}),
    "passes": lambda run: rewrite(without_journal(run), written={"passes": ("0" * 64,)}),
    "inputs": lambda run: rewrite(run, written={"inputs": {"rows": "0" * 64}}),
    "another scorer's name": named(scorer="longest"),
    "another context's name": named(context="none"),
    "another benchmark's name": named(benchmark="wine"),
    "another protocol": named(protocol="paper"),
    "another context": named(context_fingerprint="0" * 64),
    "another code": named(fingerprints=["0" * 64]),
    "another precision": named(dtype="bfloat16"),
    "a revision": named(revision="0" * 40),
    "other rows": named(rows="0" * 64),
}  # fmt: skip
CHOSEN: dict[str, dict[str, Any]] = {
    "a split": {"split": "a"},
    "a draw": {"limit": 9},
    "the best draw of many": {"limit": 9, "seed": 7},
    "a seed": {"seed": 7},
    "early days": {"until": "2024"},
    "late days": {"since": "2024"},
    "columns": {"how": {"columns": {"chosen": "rejected", "rejected": "chosen"}}},
    "the file's order": {"how": {"order_as_in_file": True}},
}


def test_an_honest_run_is_checked_in_all(votes: Path, tmp_path: Path) -> None:
    run = run_of(votes, tmp_path, split="all")
    assert checked(run.folder, votes) == ()
    assert checked(rewrite(run), votes) == ()


@pytest.mark.parametrize("what", FORGED)
def test_what_agrees_with_itself_is_refused_or_named(what, votes, tmp_path):
    assert checked(FORGED[what](run_of(votes, tmp_path, split="all")), votes)


@pytest.mark.parametrize("what", CHOSEN)
def test_rows_that_a_run_chose_for_itself_are_refused(what, votes, tmp_path):
    run = run_of(votes, tmp_path, **{"split": "all", **CHOSEN[what]})
    (problem,) = checked(run.folder, votes)
    assert "reads its data by" in problem


@pytest.mark.parametrize("what", ["true", "no noise", "a noise of its own"])
def test_the_noise_of_half_precision_is_measured_afresh(what, votes, tmp_path, tiny):
    pairs = load_benchmark(str(votes), split="all")
    settings = Settings(dtype="bfloat16")
    run = evaluate(pairs, f"likelihood:{tiny.model()}", "none", root=tmp_path, settings=settings)
    if what == "no noise":
        (run.folder / "again.jsonl").unlink()
        Run(run.summary.model_copy(update={"noise": None}), run.verdicts, run.folder).save()
    elif what == "a noise of its own":
        again = Verdicts(
            row.model_copy(update={"margin": -5.0 * (row.margin or 0.0)}) for row in run.again.rows
        )
        verdicts = Verdicts(each(flattered)(run.verdicts.rows))
        noise = noise_of(verdicts, again, "rounding", "bfloat16")
        facts = run.summary.model_dump(include=KEPT)
        Run(summarise(verdicts, noise=noise, **facts), verdicts, run.folder, again=again).save()
        (run.folder / "journal.jsonl").unlink()
        assert load(run.folder).accuracy == 1.0
    checked_run = verify_run(run.folder, DataOfRuns([pairs]), afresh(9))
    assert bool(checked_run.problems) == (what != "true"), checked_run.problems
    assert what != "true" or checked(run.folder, votes) == ()


@pytest.mark.parametrize("forged", [False, True])
def test_scores_of_undecided_rows_are_scored_afresh_too(forged, votes, tmp_path):
    rows = [json.loads(line) for line in votes.read_text(encoding="utf-8").splitlines()]
    for row in rows[::6]:
        row |= {"tie": True, "chosen_rating": 3, "rejected_rating": 3}
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    pairs = load_benchmark(str(path), split="all")
    work = Work.of(default_session(), Settings(), tmp_path)
    run = run_or_shard("random", pairs, "none", work, rate_undecided=True)
    assert len(run.undecided) == 8
    if forged:
        undecided = Verdicts(row.model_copy(update=shifted(row)) for row in run.undecided.rows)
        replace(run, undecided=undecided).save()
    wrong = checked(run.folder, path)
    assert len(wrong) == 8 * forged, wrong
    assert all("undecided.jsonl:" in problem for problem in wrong)
