"""Scores of samples: those of evaluate's passes, ties and gaps told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pairs import register, scored
from palate.answers import Sample, Samples
from palate.answers.scores import plan_cells
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.errors import EndpointError, UsageError
from palate.evaluation import Work
from palate.learning import fit
from palate.records import (
    Choice,
    Judgement,
    Message,
    Post,
    PreferencePair,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    user_key,
)
from palate.runs import load
from palate.scorers import build_scorer
from palate.session import default_session


def rows(n: int = 2, *, posts: bool = False) -> Dataset:
    return Dataset("teas", tuple(
        PreferencePair(id=f"r{k}", user_id=f"u{k}", text=f"Tea {k}?", chosen="yes",
                       rejected="no", profile=(Post(id=f"r{k}", text="post"),) * posts)
        for k in range(n)
    ))  # fmt: skip


def of(*texts: tuple[str, ...]) -> Samples:
    ids = tuple(f"r{k}" for k in range(len(texts)))
    return Samples("p", ids, tuple(tuple(Sample(one) for one in own) for own in texts))


class Lengths:
    """Scores by length; remembers how many slates and candidates it was asked for."""

    info = ScorerInfo(fingerprint="lengths")

    def __init__(self):
        self.asked: list[int] = []

    def score(self, slates):
        for k, slate in enumerate(slates):
            self.asked.append(len(slate.candidates))
            values = tuple(None if "?" in text else float(len(text)) for text in slate.candidates)
            reasons = tuple("asks back" if value is None else None for value in values)
            yield k, Scores(values=values, reasons=reasons if None in values else ())


class Longer:
    """A judge that likes length, and cannot tell where a text begins with x, or some couples."""

    info = ScorerInfo(fingerprint="longer")

    def __init__(self, *couples: str) -> None:
        self.couples = {frozenset(couple) for couple in couples}

    def judge(self, slates):
        for k, slate in enumerate(slates):
            first, second = slate.candidates
            begin = frozenset((first[0], second[0]))
            if "x" in begin or begin in self.couples:
                yield k, Judgement(margin=None, orders=(None, None), reason="unreadable")
            else:
                margin = float(len(first) - len(second))
                yield k, Judgement(margin=margin, orders=(margin, margin))


@pytest.fixture
def made(monkeypatch):
    scorer, judge = Lengths(), Longer()
    register(monkeypatch, lengths=scorer, longer=judge)
    return scorer, judge


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_every_sample_has_its_own_score_and_a_slate_is_read_whole(made, n):
    texts = tuple("y" * (k + 1) for k in range(n))
    found = scored("lengths", of(texts, texts[::-1]), rows())
    np.testing.assert_array_equal(found.values, [np.arange(1, n + 1), np.arange(n, 0, -1)])
    assert made[0].asked == [n, n], "one slate a row, each text once"


def test_repeated_texts_share_a_score_empties_are_last_and_gaps_are_told(made):
    found = scored("lengths", of(("aa", "", "aa", "why?"), ("b", "ccc", " ", "dd")), rows())
    np.testing.assert_array_equal(found.values[0], [2, 2 - 2, 2, np.nan])
    assert found.values[1, 2] < 1
    assert found.summary.unscored_reasons == {"asks back": 1}


def test_a_judge_compares_every_two_and_what_it_cannot_read_has_no_score(made):
    found = scored("longer", of(("a", "bbb", "ccccc"), ("a", "bb", "x")), rows())
    np.testing.assert_allclose(found.values[0], [-3.0, 0.0, 3.0])
    np.testing.assert_allclose(found.values[1], [-1.0, 1.0, np.nan])
    assert found.summary.unscored_reasons == {"unreadable": 1}


def test_one_text_alone_ties_with_itself_and_empties_need_another_to_be_below(made):
    found = scored("longer", of(("a", "a", ""), ("x", "xx", "")), rows())
    np.testing.assert_allclose(found.values[0], [0.0, 0.0, -1.0])
    assert np.isnan(found.values[1]).all()
    assert sum(found.summary.unscored_reasons.values()) == 3


@pytest.mark.parametrize(
    ("unread", "kept"),
    [
        # Of both texts of a couple either may be the reason: neither has a score.
        (("ab",), "cde"),
        (("ab", "cd"), ""),  # e alone has nobody to be compared with
        # One text that is read with no other costs the others nothing.
        (("ab", "ac", "ad", "ae"), "bcde"),
        # First the worst, then those that are still not read with each other.
        (("ab", "ac", "de"), "bc"),
        ((), "abcde"),
    ],
)
def test_every_answer_with_a_score_was_compared_to_the_same_others(monkeypatch, unread, kept):
    register(monkeypatch, unread=Longer(*unread))
    texts = ("a", "bb", "cccc", "dddddd", "e" * 12)
    found = scored("unread", of((*texts, "")), rows(1))
    there = [text[0] in kept for text in texts]
    lengths = np.array([len(text) for text in texts], dtype=float)
    others = lengths[there]
    for k, text in enumerate(texts):
        if text[0] not in kept:
            assert np.isnan(found.values[0, k])
        else:
            expected = (lengths[k] * len(others) - others.sum()) / (len(others) - 1)
            assert found.values[0, k] == pytest.approx(expected)
    lost = there.count(False)
    assert sum(found.summary.unscored_reasons.values()) == lost + (lost == 5)
    mirrored = scored("unread", of((*texts[::-1], "")), rows(1))
    np.testing.assert_array_equal(mirrored.values[0, :5], found.values[0, 4::-1])


def test_a_row_of_empty_answers_is_a_tie_for_every_scorer(made):
    for scorer in ("lengths", "longer"):
        found = scored(scorer, of(("", " ", ""), ("a", "bb", "")), rows())
        np.testing.assert_array_equal(found.values[0], [0.0, 0.0, 0.0])
        assert found.summary.unscored_reasons == {}


class Down(Lengths):
    """An endpoint that is gone."""

    def score(self, slates):
        for k, slate in enumerate(slates):
            yield k, Scores.unscored(len(slate.candidates), "no answer", outage=True)


def test_an_outage_is_an_error_and_no_thinner_table(monkeypatch):
    register(monkeypatch, down=Down())
    with pytest.raises(EndpointError, match=r"answers were not scored .* run the same command"):
        scored("down", of(("a", "b"), ("c", "d")), rows())


def test_all_answers_are_scored_after_the_same_text(tiny):
    # A window of 1,024 tokens: beside the long answer fewer posts fit than beside the short ones.
    posts = tuple(Post(id=str(k), text=f"hot tea {k} " + "good coffee " * 20) for k in range(40))
    pair = rows(1).pairs[0].model_copy(update={"profile": posts})
    pairs = Dataset("teas", (pair,))
    texts = ("tea", "coffee", "cold tea", "cold " * 300)
    settings = Settings(dtype="float32")
    scorer = f"likelihood:{tiny.model()}"
    whole = scored(scorer, of(texts), pairs, "profile:40", settings=settings)
    other = scored(
        scorer, of((texts[3], texts[0], texts[2], texts[1])), pairs,
        "profile:40", settings=settings,
    )  # fmt: skip
    np.testing.assert_allclose(whole.values[0], other.values[0][[1, 3, 2, 0]], atol=1e-4)


def test_a_second_call_computes_nothing(made, tmp_path):
    samples = of(("a", "bb", "ccc"), ("d", "ee", "ffff"))
    first = scored("lengths", samples, rows(), root=tmp_path)
    asked = list(made[0].asked)
    again = scored("lengths", samples, rows(), root=tmp_path)
    assert made[0].asked == asked
    np.testing.assert_array_equal(first.values, again.values)
    assert first == again == load(first.folder)
    rows_of = (first.folder / "rows.jsonl").read_text()
    assert len(rows_of.splitlines()) == 2
    assert "ffff" not in rows_of.replace(again.rows[1].sample_hashes[2], "")
    # A run of the same row is paired with it by id and content.
    verdict = evaluate(rows(), "longest", "none", root=None).verdicts.rows[1]
    mine = again.rows[1]
    assert (mine.id, mine.content_hash, mine.question_hash, mine.user) == (
        verdict.id, verdict.content_hash, verdict.question_hash, verdict.user
    )  # fmt: skip


def test_third_users_compare_every_two_answers(tmp_path):
    texts = ("Go!! Now!! Run!", "Rest a while, in peace.", "Perhaps, I think so.", "NEVER! Go.")
    history = {
        f"h{k}": [Choice(question="?", chosen=texts[k % 3], rejected=texts[(k % 3 + 1 + j % 3) % 4])
                  for j in range(6)]
        for k in range(5)
    }  # fmt: skip
    fit(
        "user-heads", history, ["style"], default_session(), Settings(), options={"variance": 1.0}
    ).save(tmp_path)
    own = build_scorer(f"personal:{tmp_path}", default_session()).adapted(history)
    own.users.save(tmp_path / "users.safetensors")
    spec = f"personal:{tmp_path}?state=stranger&users={tmp_path / 'users.safetensors'}"
    pairs = replace(rows(1), rows=(rows(1).pairs[0].model_copy(update={"user_id": "h0"}),))
    found = scored(spec, of(texts), pairs)
    question = (Message(role="user", content=pairs.pairs[0].text),)
    wide = Slate(question=question, candidates=texts)
    each = np.array([
        scores.values for user in list(history)[1:]
        for _, scores in own.score([wide.replace(user=user_key(user))])
    ], np.float32)  # fmt: skip
    beaten = np.sign(each[:, :, None] - each[:, None, :]).mean(axis=0)
    assert found.values[0] == pytest.approx(beaten.sum(axis=1) / 3, abs=1e-6)
    assert np.ptp(found.values) > 0


def test_draws_are_refused_since_scores_are_never_averaged():
    pairs = rows(2, posts=True)
    with pytest.raises(UsageError, match="no draws") as caught:
        plan_cells(["longest"], ["none", "stranger:1?draws=2"], pairs, Work.of())
    assert "\n" not in str(caught.value)
    assert plan_cells(["longest"], ["stranger:1"], pairs, Work.of())


def test_answers_of_a_row_without_a_stranger_have_no_score():
    found = scored("longest", of(("a", "bb")), rows(1, posts=True), "stranger:1")
    assert np.isnan(found.values).all()
    assert found.summary.unscored_reasons == {"no stranger": 2}


def test_samples_of_other_rows_are_refused(made):
    with pytest.raises(UsageError, match="samples of other rows than those of teas"):
        scored("lengths", of(("a", "b")), rows(2))


def test_a_real_scorer_gives_what_each_text_alone_gets(tiny):
    texts = ("hot tea", "cold coffee is good", "a cat")
    scorer = f"likelihood:{tiny.model()}"
    settings = Settings(dtype="float32")
    whole = scored(scorer, of(texts, texts), rows(), settings=settings)
    for k, text in enumerate(texts):
        alone = scored(scorer, of((text,), (text,)), rows(), settings=settings)
        np.testing.assert_allclose(whole.values[:, k], alone.values[:, 0], atol=1e-4)
