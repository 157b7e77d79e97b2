"""Whether the pairs that a model chooses tell more of a new user than pairs at random.

    python tools/study_active.py [--users 40] [--seeds 4] [--answers 10]

Planted users like some ways of writing, each in a mixture of their own. A pref is trained on what
others chose; then new users sit through a collection, with the model and without. Each is judged on
all held-out pairs: the chance that the model, adapted to their answers, picks what they would.
Exits 1 unless active less random is above 0 with its interval.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from palate.benchmarks import Dataset
from palate.embeddings import Features, build_features, plain_item
from palate.learning import PersonalModel, train
from palate.metrics import Estimate, clustered_mean
from palate.records import Choice, Settings
from palate.reports import Form, Table, render
from palate.seeding import rng
from palate.session import Session
from palate.study import ListEntry, Study, StudyItem
from palate.study.collecting import CollectOptions, choose_next, plan_collection
from palate.study.database import GivenAnswer

Array = Any
QUESTIONS, HELD_OUT = 380, 114
OTHERS, CHOICES_EACH = 240, 25
TASTES, STRENGTH = 4, 2.0
ARMS = ("random", "active")


def text_of(stream: np.random.Generator) -> str:
    """Return made-up sentences in a style of their own."""
    long, wordy, self_, other, number, comma, loud = stream.random(7)
    sentences = []
    for _ in range(1 + stream.poisson(1 + 6 * long)):
        letters = stream.integers(0, 24, 3 + stream.poisson(12 * wordy))
        words = [f"w{chr(97 + c)}" * (1 + int(c) % 3) for c in letters]
        words += ["I"] * int(self_ > 0.5) + ["you"] * int(other > 0.5)
        words += [str(stream.integers(1, 999))] * int(stream.random() < number)
        marks = [1 - 0.8 * loud, 0.4 * loud, 0.4 * loud]
        joint = ", " if stream.random() < comma else " "
        sentences.append(joint.join(words) + str(stream.choice([".", "!", "?"], p=marks)))
    return ("\n" if long > 0.5 else " ").join(sentences)


def row_of(item: StudyItem, **columns: object) -> dict[str, Any]:
    """Return a row on an item's question."""
    return {"question": item.question[-1].content, **columns}


def sides_of(item: StudyItem, first: bool) -> dict[str, str]:
    """Return what was chosen, and what was not."""
    chosen, rejected = item.answers if first else item.answers[::-1]
    return {"chosen": chosen, "rejected": rejected}


def vectors_of(items: Sequence[StudyItem], features: Features) -> Array:
    """Return the styles of both answers (pairs × 2 × 16)."""
    table = features.table([plain_item(i.question, text) for i in items for text in i.answers])
    return table.reshape(len(items), 2, -1)


def sit_through(study: Study, session: Session, liked: Mapping[str, Array]) -> list[list[Choice]]:
    """Return what each rater chose of all that they were asked; `liked` has them by item."""
    chooser, chosen = choose_next(study, session), []
    for rater in range(study.plan.raters):
        asked: list[tuple[ListEntry, GivenAnswer | None]] = []
        choices = []
        while (entry := chooser(f"r{rater}", asked)) is not None:
            first, item = bool(liked[entry.item][rater]), study.items[entry.item]
            asked.append((entry, GivenAnswer(choice="first" if first else "second")))
            choices.append(Choice(**row_of(item, **sides_of(item, first))))
        chosen.append(choices)
    return chosen


def accuracies(seed: int, users: int, answers: int, folder: Path) -> dict[str, Array]:
    """Return each new user's accuracy over all held-out pairs, by how they were asked."""
    stream, session = rng("study_active", seed), Session()
    features = build_features(["style"], session, Settings())
    dataset = Dataset.from_rows("learnt", [
        {"id": k, "question": f"Question {k}?", "responses": [text_of(stream) for _ in "ab"]}
        for k in range(QUESTIONS)
    ])  # fmt: skip
    options = CollectOptions(raters=users, per_rater=answers, test_share=0, again=0, seed=seed)
    items = list(plan_collection(dataset, options, folder).items.values())
    vectors = vectors_of(items, features)
    differences = (vectors[:, 0] - vectors[:, 1]) / np.maximum(vectors.std((0, 1)), 1e-6)
    tastes = stream.normal(size=(OTHERS + users, TASTES)) @ stream.normal(size=(TASTES, 16))
    chances = expit(STRENGTH / np.sqrt(16 * TASTES) * tastes @ differences.T)
    liked = stream.random(chances.shape) < chances
    rest, truth = items[HELD_OUT:], chances[OTHERS:, :HELD_OUT]
    past = [
        row_of(items[k], id=f"{u}-{k}", user_id=f"other{u}", **sides_of(items[k], liked[u, k]))
        for u in range(OTHERS)
        for k in HELD_OUT + stream.choice(len(rest), CHOICES_EACH, replace=False)
    ]
    train("pref", Dataset.from_rows("past", past), folder, embedders="style", session=session)
    model = PersonalModel.load(folder)
    asked = Dataset.from_rows(
        "rest", [row_of(item, id=item.id, responses=list(item.answers)) for item in rest]
    )
    found: dict[str, Array] = {"best": np.maximum(truth, 1 - truth).mean(axis=1)}
    of_item = {item.id: liked[OTHERS:, HELD_OUT + k] for k, item in enumerate(rest)}
    for arm in ARMS:
        named = options.model_copy(update={"model": str(folder) if arm == "active" else None})
        chosen = sit_through(plan_collection(asked, named, folder), session, of_item)
        states = model.adapt({str(u): own for u, own in enumerate(chosen)}, features)
        scores = model.score_each(states.states, vectors[:HELD_OUT], None)
        sign = np.sign(scores[:, :, 0] - scores[:, :, 1])
        found[arm] = ((1 + sign * (2 * truth - 1)) / 2).mean(axis=1)
    return found


def main() -> int:
    """Print the table; return 1 where the model's pairs do not tell more."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("users", 40), ("seeds", 4), ("answers", 10)):
        options.add_argument(f"--{name}", type=int, default=default)
    given = options.parse_args()
    lines, gains, names = [], [], []
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            found = accuracies(seed, given.users, given.answers, Path(folder) / "pref")
        users = [f"{seed}-{u}" for u in range(given.users)]
        gain = found["active"] - found["random"]
        gains.append(gain)
        names += users
        means = [f"{found[arm].mean():.3f}" for arm in (*ARMS, "best")]
        lines.append([str(seed), *means, shown(difference(gain, users))])
    whole = difference(np.concatenate(gains), names)
    lines.append(["all", "", "", "", shown(whole)])
    columns = ["seed", *ARMS, "best", "active less random"]
    title = f"accuracy of {given.users} new users after {given.answers} answers"
    sys.stdout.write(render([Table(title, columns, lines)], Form.MARKDOWN))
    return int(whole.low is None or whole.low <= 0)


def difference(gain: Array, users: Sequence[str]) -> Estimate:
    """Return the mean over users, with its interval."""
    return clustered_mean(gain, users, null=0.0, bounds=(-1.0, 1.0))


def shown(estimate: Estimate) -> str:
    """Return an estimate as a table shows it."""
    return f"{estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"


if __name__ == "__main__":
    sys.exit(main())
