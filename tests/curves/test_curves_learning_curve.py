"""Learning curves: one set of users, choices that only add up, and the figures of evaluate."""

from __future__ import annotations

import numpy as np
import pytest

from palate.benchmarks import PairSet
from palate.curves import learning_curve
from palate.errors import UsageError
from palate.evaluation import evaluate
from palate.personal import Trained, fit
from palate.records import Choice, PreferencePair, Settings

USERS = [f"u{k}" for k in range(16)]


def rows(seed: int = 0) -> tuple[PreferencePair, ...]:
    """Half the users like exclamation marks, half long words; test rows are mirrored couples."""
    stream = np.random.default_rng(seed)
    found = []
    for n in range(24):
        loud = " ".join(["Go!"] * int(stream.integers(3, 9)))
        calm = " ".join(["contemplation"] * int(stream.integers(3, 9)))
        split = "adapt" if n < 16 else "test"
        for k, user in enumerate(USERS):
            first = (k % 2 == 0) == (stream.random() < 0.9)
            partner = USERS[k + 1 if k % 2 == 0 else k - 1]
            found.append(
                PreferencePair(
                    id=f"{n}-{user}", user_id=user, question=f"Day {n}, couple {k // 2}?",
                    chosen=loud if first else calm, rejected=calm if first else loud, split=split,
                    mirror_of=f"{n}-{partner}",
                )
            )  # fmt: skip
    return tuple(found)


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    return PairSet("moods", rows()).select()


@pytest.fixture(scope="module")
def trained(pairs) -> Trained:
    history: dict[str, list[Choice]] = {}
    for pair in pairs.history:
        if pair.user_id not in USERS[:4]:
            choice = Choice(question=pair.question, chosen=pair.chosen, rejected=pair.rejected)
            history.setdefault(pair.user_id, []).append(choice)
    return fit("user-heads", history, ["style"], Settings(), options={"variance": 3.0})


@pytest.fixture(scope="module")
def points(pairs, trained):
    return learning_curve(
        {"heads": trained}, pairs, counts=(0, 2, 16), repeats=3, fixed=16, settings=Settings()
    ).points


def test_each_count_has_a_point_for_all_seen_and_unseen_users(points):
    told = [(one.group, one.choices, one.n_users) for one in points]
    assert told == [
        (group, count, n)
        for count in (0, 2, 16, "all")
        for group, n in (("all", 16), ("seen", 12), ("unseen", 4))
    ]


def test_the_whole_history_gives_what_evaluate_gives(pairs, trained, points, tmp_path):
    trained.save(tmp_path)
    run = evaluate(f"personal:{tmp_path}", pairs, "none", root=None)
    whole = next(one for one in points if one.group == "all" and one.choices == "all")
    assert whole.n_pairs == run.summary.n_pairs
    assert whole.accuracy.value == pytest.approx(float(np.mean(run.verdicts.values)))
    if run.summary.shift is not None:
        assert whole.shift is not None
        assert whole.shift.value == pytest.approx(run.summary.shift.value)
    sixteen = next(one for one in points if one.group == "all" and one.choices == 16)
    assert sixteen.accuracy.value == pytest.approx(whole.accuracy.value), "all have sixteen"


def test_no_choices_is_the_prior_and_more_help_here(points):
    first, *_, last = [one for one in points if one.group == "all"]
    assert first.gain is None
    assert first.accuracy.value == pytest.approx(0.5, abs=0.1)
    assert last.gain is not None
    assert last.gain.value > 0.2
    assert last.p is not None
    assert last.p < 0.05


def test_nobody_with_as_many_choices_is_said(pairs, trained):
    with pytest.raises(UsageError, match="no user with 99 choices"):
        learning_curve({"heads": trained}, pairs, fixed=99)
