"""Whether the questions that a model chooses tell more of a new user than questions at random.

    python tools/study_active.py [--users 40] [--seeds 4] [--answers 10]

Planted users like traits of how a text is written, each in a way of their own. A pref is trained on
others' choices; then new users sit through `palate study plan --collect`'s chooser, with the model
and without. Each is judged on all held-out pairs: the share on which the model, knowing their
answers, picks what the user would, by the user's true chances. Exits 1 unless the difference is
above 0 with its interval.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from palate.benchmarks import Dataset
from palate.embeddings import Features, build_features, plain_item
from palate.learning import train
from palate.learning.personal import PersonalModel
from palate.metrics import Clusters, Estimate, clustered_mean
from palate.records import Choice, Settings, user_key
from palate.reports import Form, Table, render
from palate.seeding import rng
from palate.session import Session
from palate.study import Study, StudyItem
from palate.study.collecting import CollectOptions, choose_next, plan_collection
from palate.study.store import GivenAnswer

Array = Any
QUESTIONS, TEST_SHARE = 380, 0.3
OTHERS, CHOICES_EACH = 240, 25
TASTES, STRENGTH = 4, 4.0
ARMS = ("random", "active")


class Planted(NamedTuple):
    """What users like of a text's style, and the scale of styles."""

    mean: Array
    spread: Array
    heads: Array
    """Of each user."""

    def chances(self, vectors: Array) -> Array:
        """Return each user's chance of the first answer of each pair (pairs × 2 × width)."""
        differences = (vectors[:, 0] - vectors[:, 1]) / np.maximum(self.spread, 1e-6)
        return expit(self.heads @ np.clip(differences, -4, 4).T)


def text_of(stream: np.random.Generator) -> str:
    """Return made-up sentences in a style of their own."""
    habits = stream.random(7)
    sentences = []
    for _ in range(1 + stream.poisson(1 + 6 * habits[0])):
        words = [f"w{chr(97 + c)}" * (1 + c % 3) for c in stream.integers(0, 24, 3 + stream.poisson(12 * habits[1]))]
        if habits[2] > 0.5:
            words.insert(0, "I")
        if habits[3] > 0.5:
            words.insert(len(words) // 2, "you")
        if stream.random() < habits[4]:
            words.append(str(stream.integers(1, 999)))
        sentence = (", " if stream.random() < habits[5] else " ").join(words)
        sentences.append(sentence.capitalize() + str(stream.choice([".", "!", "?"], p=_marks(habits[6]))))
    return (" " if habits[0] < 0.5 else "\n").join(sentences)


def _marks(habit: float) -> list[float]:
    return [1 - 0.8 * habit, 0.4 * habit, 0.4 * habit]


def questions(stream: np.random.Generator) -> Dataset:
    """Return questions with two answers each."""
    return Dataset.from_rows("planted", [
        {"id": f"q{k}", "question": f"Question {k}?", "responses": [text_of(stream), text_of(stream)]}
        for k in range(QUESTIONS)
    ])  # fmt: skip


def vectors_of(items: Sequence[StudyItem], features: Features) -> Array:
    """Return the styles of both answers (pairs × 2 × width)."""
    table = features.table([plain_item(i.question, text) for i in items for text in i.answers])
    return table.reshape(len(items), 2, -1).astype(np.float64)


def choice_of(item: StudyItem, first: bool) -> Choice:
    """Return what a user chose."""
    chosen, rejected = item.answers if first else item.answers[::-1]
    return Choice(question=item.question[-1].content, chosen=chosen, rejected=rejected)


def accuracies(seed: int, users: int, answers: int, folder: Path) -> dict[str, Array]:
    """Return each new user's accuracy over all held-out pairs, by how questions were chosen."""
    stream, session = rng("study_active", seed), Session()
    features = build_features(["style"], session, Settings())
    dataset = questions(stream)
    options = CollectOptions(
        raters=users, per_rater=answers, test_share=0, again=0, seed=seed
    )
    every = list(plan_collection(dataset, options, folder).items.values())
    held_out = [item for k, item in enumerate(every) if k % 10 < 10 * TEST_SHARE]
    learnt = [item for k, item in enumerate(every) if k % 10 >= 10 * TEST_SHARE]
    vectors = vectors_of(every, features)
    basis = stream.normal(size=(TASTES, vectors.shape[2])) / np.sqrt(vectors.shape[2])
    heads = STRENGTH * stream.normal(size=(OTHERS + users, TASTES)) @ basis / np.sqrt(TASTES)
    planted = Planted(vectors.mean((0, 1)), vectors.std((0, 1)), heads)
    chances = planted.chances(vectors_of(learnt, features))
    liked = stream.random(chances.shape) < chances
    past = [
        {"id": f"{u}-{k}", "user_id": f"other{u}", "question": learnt[k].question[-1].content,
         "chosen": learnt[k].answers[0 if liked[u, k] else 1],
         "rejected": learnt[k].answers[1 if liked[u, k] else 0]}
        for u in range(OTHERS) for k in stream.choice(len(learnt), CHOICES_EACH, replace=False)
    ]  # fmt: skip
    train("pref", Dataset.from_rows("past", past), folder / "pref", embedders="style",
          session=session)  # fmt: skip
    model = PersonalModel.load(folder / "pref")
    kept = {item.question[-1].content for item in learnt}
    asked_about = Dataset.from_rows(
        "learnt", [row.to_row() for row in dataset.rows if row.text in kept]
    )
    place = {item.id: k for k, item in enumerate(learnt)}
    test_vectors = vectors_of(held_out, features).astype(np.float32)
    truth = planted.chances(vectors_of(held_out, features))[OTHERS:]
    best = np.maximum(truth, 1 - truth).mean(axis=1)
    result = {"best": best}
    for arm in ARMS:
        chosen_by = options.model_copy(
            update={"model": str(folder / "pref") if arm == "active" else None}
        )
        study = plan_collection(asked_about, chosen_by, folder)
        histories = {
            user_key(f"new{u}"): sit_through(study, f"r{u}", liked[OTHERS + u], place, session)
            for u in range(users)
        }
        states = model.adapt(histories, features)
        scores = model.score_each(states.states, test_vectors, None)
        first = np.sign(scores[:, :, 0] - scores[:, :, 1])
        result[arm] = ((1 + first * (2 * truth - 1)) / 2).mean(axis=1)
    return result


def sit_through(
    study: Study, rater: str, liked: Array, place: dict[str, int], session: Session
) -> list[Choice]:
    """Return what a rater chose of all that the chooser asked."""
    chooser, asked = choose_next(study, session), []
    while (entry := chooser(rater, asked)) is not None:
        first = bool(liked[place[entry.item]])
        asked.append((entry, GivenAnswer(choice="first" if first else "second")))
    return [choice_of(study.items[e.item], given.choice == "first") for e, given in asked]
