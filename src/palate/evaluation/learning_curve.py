"""What more choices are worth: accuracy and shift of personal models against choices per user.

All points of a curve are taken on the same users and the same pairs; a user's k choices are the
first k of one seeded order per repeat, so that more choices only add to fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.benchmarks import PairSet
from palate.embeddings import plain_item
from palate.errors import DataError, UsageError
from palate.evaluation.states import history_of
from palate.metrics import Estimate
from palate.personal import Choices, Trained, gather, take
from palate.records import Choice, Settings, user_key
from palate.seeding import shuffled

COUNTS = (0, 1, 2, 5, 10, 20, 50)
REPEATS = 5
FIXED = 20
"""Users with at least this many choices are on every curve; larger counts have fewer users."""
Progress = Callable[[int, int], None]
Doubles = NDArray[np.float64]


class Point(NamedTuple):
    """One model at one number of choices on one group of users."""

    model: str
    group: str
    """`all`, or `seen` and `unseen` where the model was trained on some of the users only."""
    choices: int | None
    """Per user; None where every choice a user has is used."""
    n_users: int
    n_pairs: int
    accuracy: Estimate
    """On every pair of the group's users, each repeat's outcome averaged first."""
    mirrored: Estimate | None
    """On couples of two such users."""
    shift: Estimate | None
    particular: Estimate | None
    """On couples, of the score minus the prior's: what this user likes more than people do."""
    gain: Estimate | None
    """Over 0 choices, paired."""
    p: float | None
    """Of no gain: sign flips by user."""


@dataclass(frozen=True)
class _Curve:
    trained: Trained
    name: str
    history: Mapping[str, Sequence[Choice]]
    adapt: Choices
    items: NDArray[np.float32]
    prompts: NDArray[np.float32] | None


def learning_curve(
    models: Mapping[str, Trained],
    pairs: PairSet,
    *,
    counts: Sequence[int] = COUNTS,
    repeats: int = REPEATS,
    fixed: int = FIXED,
    whole: bool = True,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> list[Point]:
    """Return the points of every model: each count, and with `whole` all choices a user has.

    `pairs` holds the pairs to be judged right or wrong, and the users' earlier choices in
    `pairs.history`. A personal method is adapted anew for every count and repeat.

    Raises:
        UsageError: where no user has as many choices as asked.
        DataError: where a response is too long for a model's embedder.
    """
    if repeats < 1:
        raise UsageError(f"learning curve: {repeats} repeats; expected 1 or more")
    settings = settings or Settings()
    history = history_of(pairs)
    judged = {pair.user_id for pair in pairs.pairs}
    able = {user for user, listed in history.items() if len(listed) >= fixed} & judged
    users = sorted(able)
    rows = [k for k, pair in enumerate(pairs.pairs) if pair.user_id in able]
    if not rows:
        raise UsageError(f"{pairs.name}: no user with {fixed} choices or more has a pair to judge")
    found: list[Point] = []
    asked = [*sorted(set(counts)), *([None] if whole else [])]
    done, total = 0, len(models) * len(asked)
    for name, trained in models.items():
        curve = _prepare(name, trained, pairs, rows, users, history, settings)
        sets = _Sets(pairs, rows, users, trained)
        base = _scored(curve, pairs, rows, users, 0, 1, settings)
        for count in asked:
            enough = [k for k, user in enumerate(users) if len(history[user]) >= (count or 0)]
            draws = 1 if count is None else repeats
            scored = base
            if count != 0:
                scored = _scored(curve, pairs, rows, users, count, draws, settings)
            found += _points(name, sets, scored, base, count, np.array(enough, np.int64))
            done += 1
            if progress is not None:
                progress(done, total)
    return found


class _Scored(NamedTuple):
    values: Doubles
    """Credit of each row (1, ½, 0), averaged over repeats."""
    margins: Doubles
    """Of chosen over rejected (repeats × rows)."""
    confidence: Doubles
    """Root mean square margin of each row's user on one set of pairs (repeats × rows)."""


class _Sets:
    """Rows, users and couples of the whole, the seen and the unseen."""

    def __init__(
        self, pairs: PairSet, rows: Sequence[int], users: Sequence[str], trained: Trained
    ) -> None:
        code = {user: k for k, user in enumerate(users)}
        self.user = np.array([code[pairs.pairs[k].user_id] for k in rows], np.int64)
        place = {row: k for k, row in enumerate(rows)}
        both = [(place[a], place[b]) for a, b in pairs.couples if a in place and b in place]
        self.couples = np.array(both, np.int64).reshape(-1, 2)
        seen = np.array([user_key(user) in trained.trained_on for user in users])
        self.groups = {"all": np.ones(len(users), bool)}
        if seen.any() and not seen.all():
            self.groups |= {"seen": seen, "unseen": ~seen}


def _prepare(
    name: str,
    trained: Trained,
    pairs: PairSet,
    rows: Sequence[int],
    users: Sequence[str],
    history: Mapping[str, Sequence[Choice]],
    settings: Settings,
) -> _Curve:
    features, needs = trained.features(settings), trained.model.needs_prompts
    gathered = gather(features, [history[user] for user in users], prompts=needs)
    judged = [pairs.pairs[k] for k in rows]
    items = [plain_item(p.question, text) for p in judged for text in (p.chosen, p.rejected)]
    table = features.table(items).reshape(len(rows), 2, features.width)
    if gathered.n_too_long or not np.isfinite(table).all():
        raise DataError(f"{pairs.name}: some responses are too long for {trained.embedders}")
    asked = features.prompts(items[::2]) if needs else None
    adapt = trained.scaling.of_choices(gathered.choices)
    return _Curve(trained, name, history, adapt, table, asked)


def _scored(
    curve: _Curve,
    pairs: PairSet,
    rows: Sequence[int],
    users: Sequence[str],
    count: int | None,
    draws: int,
    settings: Settings,
) -> _Scored:
    code = {user: k for k, user in enumerate(users)}
    user = np.array([code[pairs.pairs[k].user_id] for k in rows], np.int64)
    margins, confidence = [], []
    for repeat in range(draws):
        drawn = curve.adapt.take(
            np.array(list(_first(curve.adapt, users, count, repeat, settings.seed)), np.int64)
        )
        states = curve.trained.model.adapt(drawn)
        scores = curve.trained.score(take(states, user), curve.items, curve.prompts)
        scores = scores.astype(np.float32)
        margins.append(scores[:, 0].astype(np.float64) - scores[:, 1])
        confidence.append(_confidence(curve, states, user, settings.seed))
    return _Scored(_credit(np.array(margins)), np.array(margins), np.array(confidence))


def _credit(margins: Doubles) -> Doubles:
    return np.asarray(np.mean((np.sign(margins) + 1) / 2, axis=0))


def _first(
    choices: Choices, users: Sequence[str], count: int | None, repeat: int, seed: int
) -> Iterator[int]:
    for user, own in zip(users, choices.rows_by_user(), strict=True):
        if count is None:
            yield from own.tolist()
            continue
        order = shuffled(range(len(own)), "shots", seed, repeat, user_key(user))
        yield from (int(own[k]) for k in sorted(order[:count]))


COMMON = 200


def _confidence(
    curve: _Curve, states: Mapping[str, NDArray[np.float32]], user: NDArray[np.int64], seed: int
) -> Doubles:
    # Root mean square margin of each user's state on one set of pairs, the same for all users.
    drawn = np.sort(np.array(shuffled(range(len(user)), "scale", seed)[:COMMON]))
    items = curve.items[drawn]
    asked = None if curve.prompts is None else curve.prompts[drawn]
    n_users = len(next(iter(states.values())))
    roots = np.empty(n_users)
    for k in range(n_users):
        same = take(states, np.full(len(drawn), k))
        scores = curve.trained.score(same, items, asked)
        roots[k] = np.sqrt(np.mean((scores[:, 0] - scores[:, 1]) ** 2))
    return np.where(roots > 0, roots, 1.0)[user]


def _points(
    name: str,
    sets: _Sets,
    scored: _Scored,
    base: _Scored,
    count: int | None,
    able: NDArray[np.int64],
) -> Iterator[Point]:
    for group, members in sets.groups.items():
        inside = np.zeros(len(members), bool)
        inside[able] = True
        inside &= members
        kept = inside[sets.user]
        if not kept.any():
            continue
        values, users = scored.values[kept], sets.user[kept].astype(np.int32)
        difference = values - base.values[kept]
        a, b = sets.couples[inside[sets.user[sets.couples]].all(axis=1)].T
        ours, theirs = sets.user[a].astype(np.int32), sets.user[b].astype(np.int32)
        mirrored = shift = particular = None
        if len(a):
            both = (scored.values[a] + scored.values[b]) / 2
            mirrored = metrics.couple_mean(both, ours, theirs)
            scaled = scored.margins / scored.confidence
            moved = [metrics.shift_values(m[a], -m[b]) for m in scaled]
            shift = metrics.couple_mean(np.mean(moved, axis=0), ours, theirs)
            own = _credit(scored.margins - base.margins)
            particular = metrics.couple_mean((own[a] + own[b]) / 2, ours, theirs)
        yield Point(
            model=name, group=group, choices=count, n_users=int(inside.sum()),
            n_pairs=int(kept.sum()), accuracy=metrics.user_mean(values, users),
            mirrored=mirrored, shift=shift, particular=particular,
            gain=None if scored is base else metrics.paired_difference(
                values, base.values[kept], users
            ),
            p=None if scored is base else metrics.sign_flip_test(difference, users),
        )  # fmt: skip
