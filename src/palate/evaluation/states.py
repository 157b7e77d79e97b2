"""Personal scorers: whose choices they learn from, and whose state a row is scored with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset, EvaluatedVotes
from palate.contexts import kinds_of, need_same
from palate.contexts.rows import ContextRows, UserKeys, UserKeysFn, no_user_keys, own_user_keys
from palate.errors import BenchmarkError, UsageError
from palate.records import (
    Choice,
    Judge,
    Question,
    Scorer,
    ScorerInfo,
    Slate,
    UserPool,
    choices_of,
    mirror_users_of,
    third_users,
    user_key,
)
from palate.records.arguments import ObjectName
from palate.scorers import with_state
from palate.scorers.personal import Personal
from palate.seeding import digest, shuffled
from palate.specs import Spec
from palate.stores import Store

PERSONAL = "personal"


@runtime_checkable
class HasStates(Protocol):
    """A scorer with one state per user that `evaluate` can give the users' choices to.

    One that scores a row with third users' states, one after another, says how many as `draws`.
    """

    @property
    def state(self) -> str:
        """`own`, `stranger` or `prior`."""

    @property
    def wants_choices(self) -> bool:
        """True until it knows any user's state."""

    def adapted(self, history: Mapping[str, Sequence[Choice]]) -> Scorer | Judge:
        """Return the scorer with a state for each user (id → their earlier choices)."""

    def join(self, choices: Mapping[str, Sequence[Choice]]) -> Scorer | Judge:
        """Return the scorer with these users added; those present keep their states."""

    @property
    def known(self) -> Sequence[str]:
        """Keys of the users with a state who may be third users, sorted."""


def adapt_to(scorer: Scorer | Judge, pairs: Dataset, spec: str) -> Scorer | Judge:
    """Adapt a personal scorer to earlier choices; raises as `need_choices` and `history_of` do."""
    if not isinstance(scorer, HasStates) or not scorer.wants_choices:
        return scorer
    need_choices(scorer, pairs, spec)
    return scorer.adapted(history_of(pairs))


def with_states_of(
    scorer: Scorer | Judge, other: Scorer | Judge, pairs: Dataset, spec: str
) -> Scorer | Judge:
    """Return a scorer with the states of another; one without `like` learns anew, others pass."""
    like = getattr(scorer, "like", None)
    return adapt_to(scorer, pairs, spec) if like is None else cast(Scorer | Judge, like(other))


def need_choices(scorer: Scorer | Judge, pairs: Dataset, spec: str) -> None:
    """Raise `UsageError` for a scorer that wants choices where the benchmark holds none."""
    learns = getattr(scorer, "learns", False)
    wants = learns or (isinstance(scorer, HasStates) and scorer.wants_choices)
    other = "name a file that palate adapt made, as in ?users=users.safetensors"
    if wants and not pairs.history:
        raise UsageError(
            f"{spec}: {pairs.name} holds no earlier choices (rows with split adapt); "
            f"{'write weights = […] into the file' if learns else other}, or give --choices FILE"
        )


def history_of(pairs: Dataset) -> dict[str, list[Choice]]:
    """Return each user's earlier choices, in the order of the data.

    Raises `BenchmarkError` for one that is among the evaluated pairs (the same user's vote on the
    same question and responses, whichever way it went), or was asked with a response of one.
    """
    evaluated = EvaluatedVotes(pairs.rows)
    ids = {row.id for row in pairs.rows}
    for pair in pairs.history:
        if pair.id in ids or evaluated.told_by(pair):
            raise BenchmarkError(
                f"{pairs.name}: row {pair.id!r} is among the choices to learn from, and among the "
                "pairs to evaluate or asked with a response of theirs; a test pair is never learnt "
                "from"
            )
    return choices_of(pairs.history)


def user_keys_fn(scorer: Scorer | Judge, info: ScorerInfo, pairs: Dataset, seed: int) -> UserKeysFn:
    """Return whose keys a slate carries: nobody's, the user's own, or what tells third users.

    A stranger's state is that of a third user: neither the row's own nor, in a mirrored couple, its
    mirror user. A judge that lets all of them vote is told who is none; any other scorer is given
    one, drawn for the row uniformly among the users it knows.

    Raises `UsageError` for a scorer with a stranger's state that does not say whom it knows.
    """
    state = getattr(scorer, "state", "own") if info.needs_user else "prior"
    if state in ("prior", "own"):
        return no_user_keys if state == "prior" else own_user_keys
    if not isinstance(scorer, HasStates):
        raise UsageError(
            f"{type(scorer).__name__} has state={state!r} and does not say whose states it "
            "knows; give it `known`, `wants_choices` and `adapted`"
        )
    mirror_users = mirror_users_of(pairs.gathered)
    votes, known = info.votes, scorer.known
    same = getattr(scorer, "same", "")
    need_same(pairs, same)
    users = UserPool.of((*pairs.gathered, *pairs.history) if same else ()).users
    kinds = {user_key(name): kind for name, kind in kinds_of(users, same).items()}

    def third(question: Question, draw: int) -> UserKeys:
        pair = {question.user_id, mirror_users.get(question.id, question.user_id)}
        kind = kinds.get(user_key(question.user_id), None if same else "")
        others = (key for key in known if kinds.get(key, "") != kind)
        excluded = tuple(sorted({*map(user_key, pair), *others}))
        if votes:
            return UserKeys(excluded=excluded)
        drawn = third_users(known, excluded, draw + 1, "states", seed, question.id)
        return UserKeys(drawn[draw]) if len(drawn) > draw else UserKeys(no_stranger=True)

    return third


def with_states(text: str, scorer: Any, same: str | None = None) -> list[str]:
    """Return what stands for a personal scorer in a grid: own, prior, stranger, and of the kind."""
    if isinstance(text, ObjectName) or not isinstance(scorer, HasStates) or scorer.state != "own":
        return [text]
    states = [with_state(text, state) for state in ("own", "prior", "stranger")]
    return [*states, with_state(text, "stranger", same)] if same else states


def with_shots(scorers: Sequence[str], shots: Sequence[int], repeats: int) -> list[str]:
    """Return the specs with every personal scorer once for each number of shots and repeat.

    >>> with_shots(["longest", "personal:./m"], [5], 2)
    ['longest', 'personal:./m?shots=5', 'personal:./m?repeat=1&shots=5']
    """
    specs = []
    for text in scorers:
        spec = Spec.parse(text)
        if not shots or spec.kind != PERSONAL or "shots" in spec.options:
            specs.append(text)
            continue
        for k in shots:
            own = spec.having(shots=str(k))
            specs += [str(own.having(repeat=str(r)) if r else own) for r in range(repeats)]
    return specs


COMMON_PAIRS = 200
"""Pairs, the same for all users, on which a user's confidence is measured."""


def state_scales(scorer: Scorer, rows: ContextRows, seed: int, store: Store) -> NDArray[np.float64]:
    """Return, of each row, the root mean square margin of the state it is scored with.

    It is taken over a seeded set of 200 rows' pairs, the same for all states.

    1 where it is 0 or nothing was scored. A scorer to which a user's pairs are costly may say
    `scale_pairs`, as any set that all users share takes confidence out; what it gives is kept in
    the store, so that a finished run needs no model.
    """
    common = _common(rows, seed, getattr(scorer, "scale_pairs", COMMON_PAIRS))
    keys = [rows.user_keys(question, 0).user or "" for question in rows.questions]
    roots = root_margins(scorer, common, sorted(set(keys)), store)
    return np.array([roots[key] for key in keys])


def root_margins(
    scorer: Scorer, common: Sequence[Slate], keys: Sequence[str], store: Store | None = None
) -> Mapping[str, float]:
    """Return the root mean square margin of each user's state on these pairs."""
    info = getattr(scorer, "info", None)
    if store is None or not hasattr(scorer, "scale_pairs") or not isinstance(info, ScorerInfo):
        return dict(zip(keys, map(_root, _scores(scorer, common, keys)), strict=True))
    name = digest("scales", info.fingerprint, [slate.id for slate in common], keys)
    roots: Mapping[str, float] | None = store.documents("scales").get_json(name)
    if roots is None:
        roots = root_margins(scorer, common, keys)
        store.documents("scales").put_json(name, roots)
    return roots


def _scores(
    scorer: Scorer, common: Sequence[Slate], keys: Sequence[str]
) -> Iterator[NDArray[np.float64]]:
    # Of each user, pairs × 2; NaN for what is not scored.
    read = scorer.vectors(common, 2) if isinstance(scorer, Personal) else None
    for key in keys:
        if isinstance(scorer, Personal) and read is not None:
            yield scorer.scores(read, [key or None] * len(common))
        else:
            slates = [slate.replace(user=key or None) for slate in common]
            yield np.array([scores.values for _, scores in scorer.score(slates)], np.float64)


def _root(scores: NDArray[np.float64]) -> float:
    margins = scores[:, 0] - scores[:, 1]
    margins = margins[~np.isnan(margins)]
    root = float(np.sqrt(np.mean(np.square(margins)))) if len(margins) else 0.0
    return root if root > 0 else 1.0


def _common(rows: ContextRows, seed: int, n: int) -> list[Slate]:
    # By content: which pairs are drawn must not depend on the file's order.
    ids = np.array([rows.bare(k).id for k in range(0, len(rows), rows.draws)], dtype="S64")
    names, first = np.unique(ids, return_index=True)
    drawn = shuffled(range(len(names)), "scale", seed)[:n]
    return [rows.bare(int(first[k]) * rows.draws) for k in sorted(drawn)]
