"""A collection's plan: pairs of responses to each question, those for testing in one order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any

from palate.benchmarks import Dataset
from palate.data import choice_key, split_of
from palate.errors import RunError, UsageError
from palate.learning.methods.pref import PReF
from palate.learning.personal import PersonalModel
from palate.records import Question, Record, Slate, normal_form, user_key
from palate.seeding import shuffled
from palate.study.folder import Study
from palate.study.records import ListEntry, StudyItem, StudyPlan, Trait

BETWEEN = 20
"""Least entries between a pair and its return: memory makes people answer as they did."""
MOST_PAIRS = 15
"""Pairs of a question: all of up to six responses, of more a seeded draw."""


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
    rows: dict[str, list[Question]] = defaultdict(list)
    for row in dataset.rows:
        rows[choice_key(row.text, row.turns)].append(row)
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
    """Return what is asked at each position: a new pair of `test` or `adapt`, or one `again`.

    Raises `UsageError` for shares that have no room.

    >>> positions(4, 0.5, 0)
    ['adapt', 'test', 'adapt', 'test']
    """
    n_again, n_test = round(again * per_rater), round(test_share * per_rater)
    new, later = per_rater - n_again, per_rater - BETWEEN
    if not (n_again >= 0 and 0 <= n_test <= new and 2 * n_again <= max(0, later)):
        given = f"--per-rater {per_rater} --test-share {test_share:g} --again {again:g}"
        raise UsageError(f"{given}: no room; a pair comes again {BETWEEN} later, among new ones")
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
    return [it for turn in zip_longest(*columns) for it in turn if it is not None]
