"""Planted tastes: a tiny random Llama that is shown its users finds whom it judges for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import expit

import palate
from palate.comparison import findings_of
from palate.records import Post, PreferencePair
from palate.seeding import rng
from tiny import ENDS_WITH_EOS, Tiny

CPU = palate.Settings(dtype="float32", device="cpu")
LIVING, MADE = ("water", "child"), ("system", "data")
GOOD, BAD = ("good", "great"), ("bad", "problem")
HABITS = {1: ("people", "family"), -1: ("number", "value")}
"""What users of either kind write."""
QUESTIONS = ("What should they make?", "When will they work?", "Where is the water?",
             "Which people need help?")  # fmt: skip
SHARE = 0.9
"""Of the true rewards' accuracy above chance."""


class World(NamedTuple):
    data: palate.Dataset
    oracle: float
    """How often the true reward is right."""

    def under(self, kind: int) -> palate.Dataset:
        """Return the same rows, each under the posts of the next user of its kind or the other."""
        rows = self.data.pairs
        posts = {row.user_id: row.profile for row in rows}
        users = list(posts)
        step = 2 if kind == 1 else 1  # kinds take turns
        other = {user: users[(k + step) % len(users)] for k, user in enumerate(users)}
        moved = [row.model_copy(update={"profile": posts[other[row.user_id]]}) for row in rows]
        return palate.Dataset(f"{self.data.name}{kind}", tuple(moved)).select()


def world(name: str, users: int, rows: int = 40, *, personal: bool = True) -> World:
    """Half the users like words of living things, half of made ones; or all of living ones.

    Everybody likes good words: 1 each, a word of the own kind 1 more than one of the other. A
    choice is drawn from σ(difference).
    """
    stream, made, right = rng("shown world", name), list[PreferencePair](), []
    for k in range(users):
        kind = -1 if k % 2 else 1
        habits = [" ".join(stream.choice(HABITS[kind], 3)) for _ in range(6)]
        profile = tuple(Post(id=str(n), text=text) for n, text in enumerate(habits))
        while len(made) < (k + 1) * rows:
            both = [[*stream.choice(LIVING + MADE, 2), stream.choice(GOOD + BAD)] for _ in range(2)]
            worth = [
                (kind if personal else 1) * sum((w in LIVING) - (w in MADE) for w in words)
                + sum((w in GOOD) - (w in BAD) for w in words)
                for words in both
            ]
            apart = worth[0] - worth[1]
            if not apart:
                continue
            first = stream.random() < expit(apart)
            right.append(first == (apart > 0))
            one, other = (" ".join(words) for words in (both if first else both[::-1]))
            made.append(PreferencePair(
                id=f"{name}-{len(made)}", user_id=f"{name}-{k}", text=str(stream.choice(QUESTIONS)),
                chosen=one, rejected=other, profile=profile,
            ))  # fmt: skip
    return World(palate.Dataset(name, tuple(made)).select(), float(np.mean(right)))


def trained(tiny: Tiny, folder: Path, data: palate.Dataset, seed: int = 0, **how: Any) -> str:
    base = tiny.model(
        template=ENDS_WITH_EOS, hidden_size=64, intermediate_size=128, initializer_range=0.05,
        tie_word_embeddings=True, head_dim=16,
    )  # fmt: skip
    options = {"learning_rate": 2e-3, "batch_pairs": 24, "steps": how.pop("steps", 250)}
    palate.train(
        "classifier", data, folder, base=base, options=options,
        settings=CPU.model_copy(update={"seed": seed}), **how,
    )  # fmt: skip
    return f"classifier:{folder}"


def evaluated(data: palate.Dataset, spec: str, contexts: Any = None) -> Any:
    return palate.evaluate(data, [spec], contexts, root=None, settings=CPU)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def seen() -> World:
    return world("seen", 30)


@pytest.fixture(scope="module")
def shown(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory, seen: World) -> str:
    folder = tmp_path_factory.mktemp("shown") / "m"
    return trained(tiny, folder, seen.data, contexts="profile:3", shown_nothing=0.2)


def test_held_out_users_are_known_by_what_they_wrote(shown: str) -> None:
    new = world("new", 20)
    grid = evaluated(new.data, shown)
    assert [run.summary.context for run in grid.runs] == [
        "none", "profile:3", "profile:3?of=stranger",
    ]  # fmt: skip
    _, own, stranger = (run.accuracy for run in grid.runs)
    assert own - 0.5 >= SHARE * (new.oracle - 0.5), (own, new.oracle)
    assert own > stranger
    (finding,) = (f for f in findings_of(grid) if f.context == "profile:3")
    assert finding.word == "yes" and finding.identity is not None
    assert finding.identity.value is not None and finding.identity.value > 0
    alike, unlike = (
        evaluated(new.under(kind), shown, ["profile:3"]).runs[0].accuracy for kind in (1, -1)
    )
    assert alike >= own - 0.01, "a stranger of the same kind costs nothing"
    assert unlike < 0.5, "one of the other kind misleads"


def test_without_posts_it_is_as_good_as_a_model_that_never_saw_any(
    tiny: Tiny, tmp_path: Path, shown: str, seen: World
) -> None:
    new = world("new", 20)
    plain = trained(tiny, tmp_path / "m", seen.data)
    both = [evaluated(new.data, spec, ["none"]).runs[0].accuracy for spec in (shown, plain)]
    assert abs(both[0] - both[1]) <= 0.02 and min(both) > 0.6, both


def test_where_all_are_alike_no_gain_is_shown(tiny: Tiny, tmp_path: Path) -> None:
    words = []
    for seed in range(40):
        seen = world(f"alike {seed}", 6, 10, personal=False)
        new = world(f"alike, new {seed}", 12, 12, personal=False)
        how: dict[str, Any] = {"contexts": "profile:1", "shown_nothing": 0.2, "steps": 12}
        spec = trained(tiny, tmp_path / str(seed), seen.data, seed, **how)
        words += [f.word for f in findings_of(evaluated(new.data, spec)) if f.gain]
    assert len(words) == 40 and words.count("yes") <= 2, words
