"""Verdicts as columns give back the rows they were made of."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.records import Outcome
from palate.runs import RatedPair, VerdictRow, Verdicts
from palate.runs import verdicts as packing
from palate.runs.result import each_row

HASH = VerdictRow.hash_of("Tea?")
words = st.sampled_from(["a", "b", "é\u2028", "", "long name " * 9])
margins = st.one_of(st.none(), st.floats(-9, 9))
numbers = st.tuples(margins, margins)
ratings = st.builds(
    RatedPair,
    ratings=numbers,
    scale=st.sampled_from([None, (1.0, 5.0), (0.0, 1.0)]),
    scores=numbers,
    response_hashes=st.tuples(st.sampled_from(["0f" * 8, "x"]), st.sampled_from(["1f" * 8, "y"])),
)
rows = st.builds(
    VerdictRow,
    id=words,
    content_hash=st.sampled_from(["0f" * 8, "x", "y" * 40]),
    question_hash=words.map(VerdictRow.hash_of),
    response_hashes=st.tuples(words, words).map(lambda pair: tuple(map(VerdictRow.hash_of, pair))),
    user=words,
    subset=words,
    mirror_of=st.one_of(st.none(), words),
    outcome=st.sampled_from(Outcome),
    margin=margins,
    share=st.one_of(st.none(), st.floats(0, 1)),
    orders=st.one_of(st.just(()), st.tuples(margins), st.tuples(margins, margins)),
    chosen_first=st.booleans(),
    reason=st.one_of(st.none(), words),
    own_words=st.integers(0, 10**6),
    lengths=st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)),
    category=words,
    traits=st.dictionaries(words, words, max_size=2),
    date=st.sampled_from([None, "2026-03", "Fri, 13 Nov 2015 22:10:00 -0500", "２０１５"]),
    ratings=st.one_of(st.none(), ratings),
)
many = st.lists(rows, max_size=30)


@given(many, st.integers(1, 7))
def test_columns_give_back_the_rows(given_rows: list[VerdictRow], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "CHUNK", chunk)
        verdicts = Verdicts(iter(given_rows))
    assert list(verdicts.rows) == given_rows
    assert verdicts.rows[:3] == given_rows[:3]
    assert verdicts.keys == [(row.id, row.content_hash) for row in given_rows]
    assert verdicts.users.tolist() == [row.user for row in given_rows]
    assert list(verdicts.by_id().rows) == sorted(given_rows, key=lambda row: row.id)
    credits = [row.outcome.credit if row.share is None else row.share for row in given_rows]
    np.testing.assert_array_equal(verdicts.values, np.array(credits, dtype=float))
    assert {name: list(part.rows) for name, part in verdicts.of_subsets()} == {
        name: [row for row in given_rows if row.subset == name]
        for name in dict.fromkeys(row.subset for row in given_rows)
    }
    reasons = [row.reason for row in given_rows if row.outcome is Outcome.UNSCORED]
    told = ["unknown" if reason is None else reason for reason in reasons]
    assert verdicts.unscored_reasons == {name: told.count(name) for name in sorted(set(told))}
    both = [row for row in given_rows if len(row.orders) == 2]
    assert verdicts.orders.shape == (len(both), 2)
    expected = [[np.nan if o is None else o for o in row.orders] for row in both]
    np.testing.assert_array_equal(verdicts.orders, np.array(expected).reshape(-1, 2))
    assert verdicts.chosen_first.tolist() == [row.chosen_first for row in both]


@given(st.lists(rows, min_size=1, max_size=30))
def test_months_are_those_of_the_moment_in_utc(given_rows: list[VerdictRow]) -> None:
    months = {"2026-03": "2026-03", "Fri, 13 Nov 2015 22:10:00 -0500": "2015-11", None: "",
              "２０１５": "2015-01"}  # fmt: skip
    codes, names = Verdicts(given_rows).by_id().month_codes
    ordered = sorted(given_rows, key=lambda row: row.id)
    assert [names[code] for code in codes] == [months[row.date] for row in ordered]


def test_months_of_a_million_moments_are_read_from_few_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {
        "2024-03-31T23:30:00-02:00": "2024-04", "2024-04-01T01:00+02:00": "2024-03",
        "2024-03-31T23:30:00Z": "2024-03", "2024-02-29T10:00:00.5+00:00": "2024-02",
        "2024-03-31 22:00:00+00:00": "2024-03", "1711922400": "2024-03", "2024-05": "2024-05",
    }  # fmt: skip
    moments = [f"2026-01-01T10:00:00.{k:03d}Z" for k in range(490)]
    given_rows = [
        VerdictRow(
            id=f"{k}", content_hash="x", question_hash=HASH, response_hashes=(HASH, HASH),
            user="u", subset="", mirror_of=None, outcome=Outcome.CHOSEN, margin=None,
            lengths=(1, 1), date=text,
        )
        for k, text in enumerate([*texts, *moments])
    ]  # fmt: skip
    reading = Mock(wraps=packing.instant_of)
    monkeypatch.setattr(packing, "instant_of", reading)
    codes, names = Verdicts(given_rows).month_codes
    assert [names[code] for code in codes] == [*texts.values(), *["2026-01"] * 490]
    assert reading.call_count <= len(texts) + 1


@given(many)
def test_couples_are_rows_that_name_each_other(given_rows: list[VerdictRow]) -> None:
    numbered = [row.model_copy(update={"id": f"{k}"}) for k, row in enumerate(given_rows)]
    for k in range(0, len(numbered) - 1, 3):
        numbered[k] = numbered[k].model_copy(update={"mirror_of": f"{k + 1}"})
        numbered[k + 1] = numbered[k + 1].model_copy(update={"mirror_of": f"{k}"})
    position = {row.id: k for k, row in enumerate(numbered)}
    expected = [
        [k, position[row.mirror_of]]
        for k, row in enumerate(numbered)
        if row.mirror_of in position
        and k < position[row.mirror_of]
        and numbered[position[row.mirror_of]].mirror_of == row.id
    ]
    assert Verdicts(numbered).couples.tolist() == expected


@given(many)
def test_what_was_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, given_rows: list[VerdictRow]
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "rows.jsonl"
    verdicts = Verdicts(given_rows)
    path.write_text("".join(f"{row.line()}\n" for row in verdicts.rows), encoding="utf-8")
    read = Verdicts(each_row(path.parent, VerdictRow))
    assert list(read.rows) == given_rows
    assert verdicts.same_rows(read)
    changed = [row.model_copy(update={"content_hash": "other"}) for row in given_rows]
    assert verdicts.same_rows(Verdicts(changed)) == (not given_rows)


def test_labels_and_ratings_are_written_only_where_a_row_has_them(tmp_path: Path) -> None:
    bare = VerdictRow(
        id="1", content_hash="x", question_hash=HASH, response_hashes=(HASH, HASH),
        user="u", subset="all",
        mirror_of=None, outcome=Outcome.CHOSEN, margin=1.0, lengths=(2, 1),
    )  # fmt: skip
    line = (
        '{"id":"1","content_hash":"x","question_hash":"df02346fb8e15013",'
        '"response_hashes":["df02346fb8e15013","df02346fb8e15013"],"user":"u","subset":"all",'
        '"mirror_of":null,"outcome":"chosen","margin":1.0,"orders":[],"chosen_first":true,'
        '"reason":null,"own_words":0,"lengths":[2,1]}'
    )
    assert bare.line() == line, "no field that this row does not have"
    (tmp_path / "rows.jsonl").write_text(line + "\n")
    assert list(Verdicts(each_row(tmp_path, VerdictRow)).rows) == [bare]
    rated = RatedPair(ratings=(5.0, None), scores=(0.5, 0.25), response_hashes=("a", "b"))
    full = bare.model_copy(update={"category": "tea", "traits": {"age": "9"}, "ratings": rated})
    assert list(Verdicts([bare, full, bare]).rows) == [bare, full, bare]
    places, columns = Verdicts([bare, full, bare]).rated
    assert (places.tolist(), columns.ratings.shape) == ([-1, 0, -1], (1, 2))


def row(k: int, user: str, question: str, responses: tuple[str, str], mirror: int | None = None):
    return VerdictRow(
        id=f"{k}", content_hash="c", question_hash=VerdictRow.hash_of(question),
        response_hashes=tuple(map(VerdictRow.hash_of, responses)), user=user, subset="all",
        mirror_of=None if mirror is None else f"{mirror}", outcome=Outcome.CHOSEN, margin=1.0,
        lengths=(2, 1),
    )  # fmt: skip


def test_clusters_are_users_questions_and_both_responses() -> None:
    some = Verdicts(
        [
            row(0, "ann", "q", ("x", "y"), 1),
            row(1, "bob", "q", ("y", "x"), 0),
            row(2, "ann", "r", ("z", "y"), 3),
            row(3, "cy", "r", ("y", "z"), 2),
        ]
    )
    rows, couples = some.clusters, some.couple_clusters
    assert [side.tolist() for side in rows.users] == [[0, 1, 0, 2]]
    assert same_partition(rows.questions, [0, 0, 1, 1])
    assert same_partition(np.concatenate(rows.texts), [0, 1, 2, 1, 1, 0, 1, 2])
    assert rows.by == "user and question"
    assert [side.tolist() for side in couples.users] == [[0, 0], [1, 2]]
    assert same_partition(couples.questions, [0, 1])
    assert couples.by == "user", "no question is asked of two couples"
    assert some.take([0, 2]).clusters.by == "user"


def same_partition(codes, expected) -> bool:
    pairs = set(zip(list(codes), expected, strict=True))
    return len(pairs) == len(set(codes)) == len(set(expected))
