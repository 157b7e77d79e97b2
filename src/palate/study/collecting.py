"""A collection's plan: pairs of responses to each question, those for testing in one order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np

from palate.benchmarks import Dataset
from palate.data import choice_key, choice_row, split_of
from palate.embeddings import plain_item
from palate.errors import RunError, UsageError
from palate.learning import Choices, PersonalModel, PReF, next_question
from palate.records import Question, Record, Settings, Slate, normal_form, user_key
from palate.records.arguments import grouped
from palate.seeding import rng, shuffled, unit
from palate.session import Session
from palate.study.answers import SIDES
from palate.study.database import Chooser, GivenAnswer
from palate.study.records import AnswerRow, ListEntry, Study, StudyItem, StudyPlan, Trait

BETWEEN = 20
"""Least entries between a pair and its return: memory makes people answer as they did."""
MOST_PAIRS = 15
"""Pairs of a question: all of up to six responses, of more a seeded draw."""
Entries = Sequence[tuple[ListEntry, GivenAnswer | None]]


class CollectOptions(Record):
    """How many are asked how much; `model` is the folder of a pref, None for chance."""

    raters: int
    per_rater: int = 30
    test_share: float = 0.3
    again: float = 0.1
    model: str | None = None
    consent: str = ""
    texts: Mapping[str, str] = {}
    traits: tuple[Trait, ...] = ()
    seed: int = 0


def plan_collection(dataset: Dataset, options: CollectOptions, folder: Path | str) -> Study:
    """Return the study in which users choose between responses to a data set's questions.

    Raises `UsageError` for a question without two `responses`, too few questions, shares that
    cannot be, and a model that is no pref.
    """
    kinds = positions(options.per_rater, options.test_share, options.again)
    rows = grouped(dataset.rows, lambda row: choice_key(row.text, row.turns))
    pairs = {key: _pairs_of(rows[key], dataset.name, options.seed, key) for key in sorted(rows)}
    test: dict[str, list[list[StudyItem]]] = defaultdict(list)
    for key, items in pairs.items():
        if split_of(key, test_share=options.test_share, seed=options.seed) == "test":
            test[items[0].category].append(items)
    of_category = [shuffled(test[name], "test", options.seed, name) for name in sorted(test)]
    in_order = _in_turn(_in_turn(of_category))
    every = {item.id: item for items in pairs.values() for item in items}
    for split, there in (("test", len(in_order)), ("adapt", len(every) - len(in_order))):
        if there < (wanted := kinds.count(split)):
            short = f"{there} pairs of split {split} for {wanted} that each rater is asked"
            raise UsageError(f"{dataset.name}: {short}; lower --per-rater or bring more questions")
    plan = StudyPlan(
        mode="collect",
        benchmark=dataset.name,
        content_hash=dataset.content_hash,
        contexts=(),
        per_pair=options.raters,
        margin=0.0,
        most_failed_checks=0,
        items={name: item.hash for name, item in every.items()},
        gold=(),
        checks=(),
        # Each rater's sides are the chooser's.
        lists=(tuple(ListEntry(item=item.id, swapped=False) for item in in_order),),
        model_hash=load_pref(options.model).fingerprint if options.model else None,
        **dict(options),
    )
    return Study(Path(folder), plan, every, ())


def positions(per_rater: int, test_share: float, again: float) -> list[str]:
    """Return what each position asks: `test`, `adapt` or `again`; raises `UsageError` without room.

    >>> positions(4, 0.5, 0)
    ['adapt', 'test', 'adapt', 'test']
    """
    n_again, n_test = round(again * per_rater), round(test_share * per_rater)
    new, later = per_rater - n_again, per_rater - BETWEEN
    if not (n_again >= 0 and 0 <= n_test <= new and 2 * n_again <= max(0, later)):
        shares = f"--per-rater {per_rater} --test-share {test_share:g} --again {again:g}"
        raise UsageError(f"{shares}: no room; a pair comes again {BETWEEN} later, among new ones")
    kinds = ["test" if k * n_test % new >= new - n_test else "adapt" for k in range(new)]
    for k in range(1, n_again + 1):
        kinds.insert(BETWEEN + k * later // n_again - 1, "again")
    return kinds


def load_pref(folder: str, fingerprint: str | None = None) -> PersonalModel:
    """Return a trained pref; raises `UsageError` where it is none, or not that of the plan."""
    trained = PersonalModel.load(Path(folder))
    if not isinstance(trained.model, PReF):
        raise UsageError(f"--model {folder}: a {trained.model.method} cannot choose; train a pref")
    if fingerprint not in (None, trained.fingerprint):
        raise RunError(f"{folder}: changed since the study was planned; put that model back")
    return trained


def _pairs_of(rows: Sequence[Question], name: str, seed: int, key: str) -> list[StudyItem]:
    texts = {normal_form(text): text for row in reversed(rows) for text in row.responses[::-1]}
    if len(texts) < 2:
        raise UsageError(f"{name}: row {rows[0].id!r} has no two `responses` to choose between")
    more = {"category": rows[0].category, "users": sorted({user_key(row.user_id) for row in rows})}
    drawn = shuffled(list(combinations(sorted(texts.values()), 2)), "pairs", seed, key)[:MOST_PAIRS]
    slates = (Slate(question=rows[0].messages, candidates=pair) for pair in drawn)
    return [StudyItem.of(slate, asks="prefers", **more) for slate in slates]


def _in_turn(columns: Sequence[Sequence[Any]]) -> list[Any]:
    return [entry for turn in zip_longest(*columns) for entry in turn if entry is not None]


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
        met = [it for it, given in entries[:-BETWEEN] if given and given.choice != "skip"]
        earlier = [entry for entry in met if entry.item in may_return]
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
    """Return what picks the most telling pair, from answers to no test pair; None before any."""
    trained = load_pref(str(study.plan.model), study.plan.model_hash)
    planned = [study.items[item] for item in items if item in study.items]
    table = trained.features(session, Settings(seed=study.plan.seed)).table(
        [plain_item(item.question, text) for item in planned for text in item.answers]
    )
    vectors = trained.scaling.apply(table).reshape(len(planned), 2, -1)
    # A pair that is too long for the embedder is left to chance.
    place = {item.id: k for k, item in enumerate(planned) if np.isfinite(vectors[k]).all()}

    def pick(entries: Entries, left: Sequence[str]) -> str | None:
        usable = [item for item in left if item in place]
        once = [(it, given) for it, given in entries if it.item in place and not it.again]
        sides = [(place[it.item], given.choice) for it, given in once if given]
        known = [(k, side == "second") for k, side in sides if side in SIDES]
        if not usable or not known:
            return None
        places, second = np.array(known).T
        rows, table = 2 * np.arange(len(known)), vectors[places].reshape(2 * len(known), -1)
        answered = Choices(table, 0 * rows, rows + second, rows + 1 - second, users=1)
        candidates = vectors[[place[item] for item in usable]]
        return usable[int(next_question(cast(PReF, trained.model), answered, candidates)[0])]

    return pick


def contract_rows(study: Study, answers: Iterable[AnswerRow]) -> Iterator[dict[str, Any]]:
    """Yield a row for each choice of a collection; a tie where no difference was seen.

    What is skipped or forgotten makes no row. A vote counts once: what is asked again stands in the
    row's `chosen_again`, where both answers name a side. A user is named after the plan too, so
    that the raters of two rounds are never taken for one. Raises `RunError` for a study that is no
    collection, and for an answer of another.
    """
    plan, items, answers = study.plan, study.items, list(answers)
    sides = (row for row in answers if row.choice in SIDES)
    second = {(row.rater, row.item): row.choice for row in sides if row.again}
    if plan.mode != "collect":
        raise RunError(f"{study.folder}: no collection, so its answers are not users' own choices")
    tested, responses = {entry.item for entry in plan.lists[0]}, defaultdict[object, set[str]](set)
    for item in items.values():
        responses[item.question].update(item.answers)
    for answer in answers:
        if answer.item not in plan.items:
            raise RunError(f"{study.folder}: item {answer.item} of {answer.rater} is not planned")
        if answer.again or answer.choice == "skip" or answer.item not in items:
            continue
        item, user = items[answer.item], f"{plan.hash[:8]}-{answer.rater}"
        *turns, last = item.question
        again = second.get((answer.rater, answer.item)) if answer.choice in SIDES else None
        yield choice_row(
            user,
            last.content,
            *(item.answers[::-1] if answer.choice == "second" else item.answers),
            split="test" if item.id in tested else "adapt",
            date=answer.date,
            id=f"{user}-{item.id}",
            turns=turns,
            category=item.category,
            traits=answer.traits,
            responses=sorted(responses[item.question]),
            tie=answer.choice == "same",
            chosen_again=again and item.answers[again == "second"],
        )
