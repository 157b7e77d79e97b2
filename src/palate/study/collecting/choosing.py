"""What a rater is asked next: a function of the plan, the rater, and the answers so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from palate.embeddings import plain_item
from palate.learning import next_question
from palate.learning.methods.pref import PReF
from palate.learning.personal import Choices
from palate.records import Settings
from palate.seeding import rng, unit
from palate.session import Session
from palate.study.collecting.planning import BETWEEN, load_pref, positions
from palate.study.folder import Study
from palate.study.records import ListEntry

if TYPE_CHECKING:
    from palate.study.store import Chooser, GivenAnswer

    Asked = Sequence[tuple[ListEntry, GivenAnswer | None]]


def choose_next(study: Study, session: Session) -> Chooser:
    """Return what chooses each rater's next entry; None of it where nothing is left to ask.

    Raises `UsageError` for a model that is gone, changed, or of another embedder.
    """
    plan = study.plan
    kinds = positions(plan.per_rater or 0, plan.test_share, plan.again)
    test = [entry.item for entry in plan.lists[0]]
    adapt = sorted(plan.items.keys() - set(test))
    told_most = _telling_most(study, adapt, session) if plan.model else lambda *_: None

    def choose(rater: str, asked: Asked) -> ListEntry | None:
        if len(asked) >= len(kinds):
            return None
        kind, stream = kinds[len(asked)], rng("collect", plan.seed, rater, len(asked))
        earlier = [entry for entry in _earlier(asked) if entry.item in study.items]
        if kind == "again" and earlier:
            before = earlier[int(stream.integers(len(earlier)))]
            return ListEntry(item=before.item, swapped=not before.swapped, again=True)
        met = {entry.item for entry, _ in asked}
        tests, others = (
            [item for item in items if item in study.items and item not in met]
            for items in (test, adapt)
        )
        if tests and (kind == "test" or not others):
            item = tests[0]
        elif others:
            item = told_most(asked, others) or others[int(stream.integers(len(others)))]
        else:
            return None
        # Of two new pairs in a row, one stands the other way round.
        block, second = divmod(sum(not entry.again for entry, _ in asked), 2)
        swapped = (unit("side", plan.seed, rater, block) < 0.5) != bool(second)
        return ListEntry(item=item, swapped=swapped)

    return choose


def _earlier(asked: Asked) -> list[ListEntry]:
    """Return what may come again: answered long ago, and only where all was skipped, skipped."""
    met_again = {entry.item for entry, _ in asked if entry.again}
    answered = [
        (entry, given.choice)
        for entry, given in asked[: max(0, len(asked) - BETWEEN)]
        if given is not None and entry.item not in met_again
    ]
    return [entry for entry, choice in answered if choice != "skip"] or [e for e, _ in answered]


def _telling_most(
    study: Study, items: Sequence[str], session: Session
) -> Callable[[Asked, Sequence[str]], str | None]:
    """Return what picks the pair whose answer tells most; None before any answer.

    Answers to test pairs teach it nothing, as the model will not learn from them either.
    """
    plan = study.plan
    trained = load_pref(str(plan.model), plan.model_hash)
    there = [study.items[item] for item in items if item in study.items]
    table = trained.features(session, Settings(seed=plan.seed)).table(
        [plain_item(item.question, text) for item in there for text in item.answers]
    )
    vectors = trained.scaling.apply(table).reshape(len(there), 2, -1)
    # A pair that is too long for the embedder is left to chance.
    place = {item.id: k for k, item in enumerate(there) if np.isfinite(vectors[k]).all()}

    def pick(asked: Asked, left: Sequence[str]) -> str | None:
        usable = [item for item in left if item in place]
        known = [
            (place[entry.item], given.choice == "second")
            for entry, given in asked
            if given and given.choice in ("first", "second") and entry.item in place
            if not entry.again
        ]
        if not usable or not known:
            return None
        places, second = np.array(known).T
        first_rows, table = 2 * np.arange(len(known)), vectors[places].reshape(2 * len(known), -1)
        user = np.zeros(len(known), np.int64)
        answered = Choices(table, user, first_rows + second, first_rows + 1 - second, users=1)
        candidates = vectors[[place[item] for item in usable]]
        return usable[int(next_question(cast(PReF, trained.model), answered, candidates)[0])]

    return pick
