"""A run killed anywhere and called again ends with the same bytes."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from palate.benchmarks import Dataset, load_benchmark
from palate.errors import RunError
from palate.evaluation import evaluate
from palate.records import Component, Judgement, ScorerInfo, Scores, Slate
from palate.runs import Journal, located_lines
from palate.scorers.lift import Lift
from palate.seeding import unit

TASTING = load_benchmark("tasting")


class Neighbourly:
    """Scores that depend on what else is in the call, as a padded batch's last bits do."""

    def __init__(self) -> None:
        self.info = ScorerInfo(fingerprint="neighbourly")
        self.calls = 0

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        self.calls += 1
        mates = sorted(slate.id for slate in slates)
        for k, slate in reversed(list(enumerate(slates))):
            shown = [part.text for part in slate.shown]
            values = tuple(unit(mates, k, shown, text) for text in slate.candidates)
            yield k, Scores(values=values)


class Flaky:
    """An exact judge: the first call fails for some pairs, and a few replies are unreadable."""

    def __init__(self, failing: bool) -> None:
        self.info = ScorerInfo(fingerprint="flaky", exact=True, pairs_only=True)
        self.failing, self.asked = failing, 0

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        for k, slate in enumerate(slates):
            self.asked += 1
            draw = unit("flaky", slate.id)
            if draw < 0.2 and self.failing:
                yield k, Judgement(margin=None, orders=(None, None), reason="HTTP 503", outage=True)
            elif draw > 0.9:
                yield (
                    k,
                    Judgement(margin=None, orders=(1.0, None), reason="unreadable", raw=("B", "?")),
                )
            else:
                yield k, Judgement(margin=draw - 0.5, orders=(draw - 0.5, draw - 0.5))


def run(root: Path, scorer: object, pairs: Dataset = TASTING, **options: object) -> bytes:
    made = evaluate(
        pairs,  # type: ignore[arg-type]
        scorer,
        "profile:2",
        root=root,
        name="mine",
        **options,  # type: ignore[arg-type]
    )
    assert made.folder is not None
    return (made.folder / "summary.json").read_bytes() + (made.folder / "rows.jsonl").read_bytes()


class Lifted(Lift):
    """`lift` over a scripted likelihood: two passes, the second without context."""

    def __init__(self) -> None:
        self.likelihood = Neighbourly()  # type: ignore[assignment]
        self.info = self.likelihood.info.model_copy(update={"needs_shown": True})
        self.components = (
            Component(self.likelihood),
            Component(self.likelihood, without_context=True),
        )

    def notes(self) -> tuple[str, ...]:
        return ()


def calls(scorer: object) -> int:
    if isinstance(scorer, Flaky):
        return scorer.asked
    assert isinstance(scorer, Neighbourly | Lifted)
    return scorer.likelihood.calls if isinstance(scorer, Lifted) else scorer.calls  # type: ignore[attr-defined]


SCORERS = {"one pass": Neighbourly, "lift": Lifted, "exact judge": lambda: Flaky(failing=False)}


def test_the_same_run_in_two_places_gives_the_same_bytes(tmp_path: Path) -> None:
    assert run(tmp_path / "a", Neighbourly()) == run(tmp_path / "b", Neighbourly())


def test_a_finished_run_costs_no_call(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    again = Neighbourly()
    run(tmp_path, again)
    assert again.calls == 0


def test_garbage_after_the_last_whole_batch_is_cut(tmp_path: Path) -> None:
    expected = run(tmp_path, Neighbourly())
    journal = next(tmp_path.rglob("journal.jsonl"))
    content = journal.read_bytes()
    journal.write_bytes(content + b'{"id": "half a li')
    assert run(tmp_path, Neighbourly()) == expected
    assert journal.read_bytes() == content


def test_an_outage_is_asked_again_and_nothing_else_is(tmp_path: Path) -> None:
    first, second = Flaky(failing=True), Flaky(failing=False)
    run(tmp_path, first)
    run(tmp_path, second)
    assert 0 < second.asked < first.asked
    fresh = tmp_path / "fresh"
    assert run(tmp_path, Flaky(failing=False)) == run(fresh, Flaky(failing=False))
    lines = [line for _, line in located_lines(next(tmp_path.glob("tasting/**/journal.jsonl")))]
    assert len({line.id for line in lines}) == 96
    assert any(line.outage for line in lines), "what failed stays in the journal"


def test_unreadable_replies_are_asked_again_only_when_told(tmp_path: Path) -> None:
    run(tmp_path, Flaky(failing=False))
    plain, told = Flaky(failing=False), Flaky(failing=False)
    run(tmp_path, plain)
    run(tmp_path, told, retry_unscored=True)
    unread = sum(unit("flaky", key) > 2 for key in "ab")
    assert plain.asked == unread == 0
    assert told.asked > 0


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    journal = next(tmp_path.rglob("journal.jsonl"))
    with Journal(journal), pytest.raises(RunError, match="another process"):
        run(tmp_path, Neighbourly())


def test_another_runs_folder_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    manifest = next(tmp_path.rglob("manifest.json"))
    changed = json.loads(manifest.read_text())
    changed["identity"]["seed"] = 7
    manifest.write_text(json.dumps(changed))
    with pytest.raises(RunError, match="another result"):
        run(tmp_path, Neighbourly())


def test_a_file_where_the_folder_should_be_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(RunError, match="cannot be written"):
        run(tmp_path / "runs", Neighbourly())
