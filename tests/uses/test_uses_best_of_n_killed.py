"""Best of n, killed in the middle and called again: nothing that was finished is computed anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pairs import scored as scored_by
from palate.answers import Sample, Samples, build_policy, draw_samples
from palate.benchmarks import Dataset
from palate.engines import language_model
from palate.evaluation import Work
from palate.execution import GROUPS_PER_BATCH
from palate.quality import Chrf, build_quality, rate_samples
from palate.records import Gold, PreferencePair, Settings
from palate.runs import load, load_all, located_lines
from palate.scorers.likelihood import Likelihood
from palate.session import default_session
from palate.uses.best_of_n import best_of_n

QUESTIONS, N, TOKENS = 8, 6, 6
ROWS = 3 * GROUPS_PER_BATCH // 2
"""Of which scoring makes two batches."""
SETTINGS = Settings(dtype="float32")
CHILD = """
import os, signal, sys
sys.path[:0] = {paths!r}
import test_uses_best_of_n_killed as here

def progress(done, total):
    if {after} <= done < total:
        os.kill(os.getpid(), signal.SIGKILL)

here.{what}({model!r}, here.Path({root!r}), progress)
"""


def rows(n: int) -> Dataset:
    return Dataset("teas", tuple(
        PreferencePair(id=f"r{k}", user_id=f"u{k}", text=f"Which tea at {k} ?", chosen="yes",
                       rejected="no", gold=Gold(reference=f"Hot green tea at {k}."))
        for k in range(n)
    ))  # fmt: skip


def scored(model, root, progress=None):
    """Likelihoods of two answers to each question."""
    texts = tuple((Sample(f"hot tea {k}"), Sample(f"cold tea {k}")) for k in range(ROWS))
    samples = Samples("file", tuple(pair.id for pair in rows(ROWS).pairs), texts)
    return scored_by(
        f"likelihood:{model}", samples, rows(ROWS), root=root, settings=SETTINGS,
        progress=progress,
    )  # fmt: skip


def picked(model, root, progress=None):
    """Best of two answers to each question, scored by likelihood and by length."""
    os.environ["PALATE_CACHE"] = str(root / "cache")
    texts = tuple((Sample(f"hot tea {k}"), Sample(f"cold tea {k}")) for k in range(ROWS))
    samples = Samples("file", tuple(pair.id for pair in rows(ROWS).pairs), texts)
    return best_of_n(
        rows(ROWS), samples, ["longest", f"likelihood:{model}"],
        qualities=[build_quality("overlap:chrf", default_session())], root=root, settings=SETTINGS,
        start=(lambda label: progress) if progress else None,
    )  # fmt: skip


def drawn(model, root, progress=None):
    """Six answers to each question, kept below `root`."""
    os.environ["PALATE_CACHE"] = str(root)
    policy = build_policy(f"{model}?max_tokens={TOKENS}", default_session(), SETTINGS)
    return draw_samples(policy, rows(QUESTIONS), N, default_session().store, progress=progress)


def rated(_, root, progress=None):
    """Overlaps of two answers to each question, kept below `root`."""
    os.environ["PALATE_CACHE"] = str(root)
    texts = tuple((Sample(f"hot tea {k}"), Sample(f"cold tea {k}")) for k in range(QUESTIONS))
    samples = Samples("file", tuple(pair.id for pair in rows(QUESTIONS).pairs), texts)
    return rate_samples(
        build_quality("overlap:chrf", default_session()),
        samples,
        rows(QUESTIONS),
        Work.of(start=lambda label: progress or (lambda done, total: None)),
    )


def kill(what: str, model: str, root: Path, after: int) -> None:
    """Run one of the two in a process of its own that is killed when so much is done."""
    paths = [str(Path(__file__).parent), *sys.path]
    code = CHILD.format(paths=paths, after=after, what=what, model=model, root=str(root))
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL, "it was to be killed before it was through"


pytestmark = pytest.mark.usefixtures("cache")


def test_killed_in_mid_scoring_goes_on_with_the_next_batch(tiny, tmp_path, monkeypatch):
    model = tiny.model()
    whole = scored(model, tmp_path / "whole")
    kill("scored", model, tmp_path / "killed", after=GROUPS_PER_BATCH + 1)
    (journal,) = (tmp_path / "killed").rglob("journal.jsonl")
    before, there = journal.read_bytes(), [line.id for _, line in located_lines(journal)]
    assert len(there) == GROUPS_PER_BATCH < ROWS

    asked: list[str] = []
    score = Likelihood.score_prepared

    def counted(self, prepared):
        asked.extend(text for read in prepared for text in read.slate.candidates)
        return score(self, prepared)

    monkeypatch.setattr(Likelihood, "score_prepared", counted)
    again = scored(model, tmp_path / "killed")
    assert len(asked) == len(set(asked)) == 2 * (ROWS - GROUPS_PER_BATCH)
    assert journal.read_bytes().startswith(before)
    ids = [line.id for _, line in located_lines(journal)]
    assert len(ids) == len(set(ids)) == ROWS
    np.testing.assert_array_equal(again.values, whole.values)
    (whole_journal,) = (tmp_path / "whole").rglob("journal.jsonl")
    assert journal.read_bytes() == whole_journal.read_bytes()


def test_killed_in_mid_best_of_n_gives_the_same_bytes(tiny, tmp_path):
    model = tiny.model()
    whole = picked(model, tmp_path / "whole").folder
    kill("picked", model, tmp_path / "killed", after=GROUPS_PER_BATCH + 1)
    assert not list((tmp_path / "killed").rglob("best-of-n"))
    again = picked(model, tmp_path / "killed")
    assert again.folder.name == whole.name
    for name in ("summary.json", "rows.jsonl"):
        assert (again.folder / name).read_bytes() == (whole / name).read_bytes()
    assert load(again.folder) == again
    assert picked(model, tmp_path / "killed") == again
    for scores in load_all(tmp_path / "killed", "scores"):
        other = tmp_path / "whole" / scores.folder.relative_to(tmp_path / "killed")
        assert (scores.folder / "rows.jsonl").read_bytes() == (other / "rows.jsonl").read_bytes()


def test_killed_in_mid_rating_rates_only_what_is_missing(tmp_path, monkeypatch):
    whole = rated(None, tmp_path / "whole")
    kill("rated", "", tmp_path / "killed", after=5)
    kept = {path.name for path in (tmp_path / "killed" / "qualities").glob("??/*")}
    assert len(kept) == 5 < 2 * QUESTIONS

    read: list[tuple[str, str]] = []
    value = Chrf.value

    def counted(self, response, reference):
        read.append((response, reference))
        return value(self, response, reference)

    monkeypatch.setattr(Chrf, "value", counted)
    again = rated(None, tmp_path / "killed")
    assert len(read) == len(set(read)) == 2 * QUESTIONS - 5
    np.testing.assert_array_equal(again.values, whole.values)
    assert np.isfinite(again.values).all()


def test_killed_in_mid_sampling_draws_only_what_is_missing(tiny, tmp_path, monkeypatch):
    model, total = tiny.model(), QUESTIONS * N
    whole = drawn(model, tmp_path / "whole")
    kill("drawn", model, tmp_path / "killed", after=2 * N + 2)
    kept = {path.name for path in (tmp_path / "killed" / "samples").glob("??/*")}
    assert len(kept) == 2 * N + 2, "in the middle of a question"

    numbers: list[int] = []
    sample = language_model.sample

    def counted(model, ids, n, *rest, **named):
        numbers.extend(named["numbers"])
        return sample(model, ids, n, *rest, **named)

    monkeypatch.setattr(language_model, "sample", counted)
    again = drawn(model, tmp_path / "killed")
    assert len(numbers) == total - len(kept)
    assert again == whole
    assert drawn(model, tmp_path / "killed") == whole
    assert len(numbers) == total - len(kept)
