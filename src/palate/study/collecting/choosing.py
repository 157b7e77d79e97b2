"""The next entry of a rater: a function of the plan, the rater, and the answers so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

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
from palate.study.store import Chooser, GivenAnswer

Entries = Sequence[tuple[ListEntry, GivenAnswer | None]]


def choose_next(study: Study, session: Session) -> Chooser:
    """Return what chooses each rater's next entry, None where nothing is left to ask.

    What was skipped is not asked again: a new pair takes its place. Raises `UsageError` for a model
    that is gone, changed, or of another embedder.
    """
    plan = study.plan
    kinds = positions(plan.per_rater or 0, plan.test_share, plan.again)
    test = [entry.item for entry in plan.lists[0]]
    adapt = sorted(plan.items.keys() - set(test))
    most_telling = _most_telling(study, adapt, session) if plan.model else lambda *_: None

    def choose(rater: str, entries: Entries) -> ListEntry | None:
        if len(entries) >= len(kinds):
            return None
        kind, stream = kinds[len(entries)], rng("collect", plan.seed, rater, len(entries))
        may_return = study.items.keys() - {entry.item for entry, _ in entries if entry.again}
        earlier = [
            entry
            for entry, given in entries[: max(0, len(entries) - BETWEEN)]
            if given and given.choice != "skip" and entry.item in may_return
        ]
        if kind == "again" and earlier:
            before = earlier[int(stream.integers(len(earlier)))]
            return ListEntry(item=before.item, swapped=not before.swapped, again=True)
        left = study.items.keys() - {entry.item for entry, _ in entries}
        tests, others = ([item for item in items if item in left] for items in (test, adapt))
        if tests and (kind == "test" or not others):
            item = tests[0]
        elif others:
            item = most_telling(entries, others) or others[int(stream.integers(len(others)))]
        else:
            return None
        # Of two new pairs in a row, one stands the other way round.
        block, second = divmod(sum(not entry.again for entry, _ in entries), 2)
        swapped = (unit("side", plan.seed, rater, block) < 0.5) != bool(second)
        return ListEntry(item=item, swapped=swapped)

    return choose


def _most_telling(
    study: Study, items: Sequence[str], session: Session
) -> Callable[[Entries, Sequence[str]], str | None]:
    """Return what picks the pair whose answer tells most; None before any answer.

    Answers to test pairs teach it nothing, as nothing will learn from them.
    """
    trained = load_pref(str(study.plan.model), study.plan.model_hash)
    there = [study.items[item] for item in items if item in study.items]
    table = trained.features(session, Settings(seed=study.plan.seed)).table(
        [plain_item(item.question, text) for item in there for text in item.answers]
    )
    vectors = trained.scaling.apply(table).reshape(len(there), 2, -1)
    # A pair that is too long for the embedder is left to chance.
    place = {item.id: k for k, item in enumerate(there) if np.isfinite(vectors[k]).all()}

    def pick(entries: Entries, left: Sequence[str]) -> str | None:
        usable = [item for item in left if item in place]
        known = [
            (place[entry.item], given.choice == "second")
            for entry, given in entries
            if given and given.choice in ("first", "second")
            if entry.item in place and not entry.again
        ]
        if not usable or not known:
            return None
        places, second = np.array(known).T
        rows, table = 2 * np.arange(len(known)), vectors[places].reshape(2 * len(known), -1)
        answered = Choices(table, 0 * rows, rows + second, rows + 1 - second, users=1)
        candidates = vectors[[place[item] for item in usable]]
        return usable[int(next_question(cast(PReF, trained.model), answered, candidates)[0])]

    return pick
