"""Checks of texts and dates, each by a planted fault and a harmless neighbour of it."""

from __future__ import annotations

import pytest
from checked_rows import NUMBERS, aspect, checked, post, row, words

from palate.benchmarks import load_benchmark
from palate.construction.audit import CheckOptions, check_rows
from palate.construction.text_checks import format_fault
from palate.evaluation import Work

FAULTS = {
    "": "is empty",
    " \n…": "is empty",
    "I can't help with that.": "is a refusal",
    "I’m sorry, but I can’t assist with that request.": "is a refusal",
    "Sorry, I am unable to fulfill this request": "is a refusal",
    "Unfortunately, I cannot comply with your request.": "is a refusal",
    "As an AI language model, I have no taste.": "names its model",
    "Well. As an AI, I do not drink.": "names its model",
    "I'm sorry, but as an AI assistant my taste is poor.": "names its model",
    "I'm unable to assist with that request.": "is a refusal",
    "I cannot provide that information.": "is a refusal",
    "As an AI developed by OpenAI, I cannot taste.": "names its model",
    "As an artificial intelligence, I never sleep.": "names its model",
    "As a large language model I never sleep.": "names its model",
    "Hello! I'm ChatGPT, made for this.": "names its model",
    "I am an AI assistant and love tea.": "names its model",
    "I am Qwen2.5, so let us see.": "names its model",
    "I'm Claude, an AI assistant made by Anthropic.": "names its model",
    "I was trained by Google on many texts.": "names its model",
    "My knowledge cutoff is 2023.": "names its model",
    "I am an AI, so I do not have personal preferences": "names its model",
    "I'm just an AI, and teas are beyond me.": "names its model",
    "This is Gemini, a model by Google": "names its model",
    "Hi! I'm Kimi, a large language model from Mistral.": "names its model",
    "I won't be able to help with that": "is a refusal",
    "I must decline to answer": "is a refusal",
    "I do not feel comfortable answering": "is a refusal",
    "I'm sorry to hear it, but I'm not able to help you with this.": "is a refusal",
    "My apologies, but I will not be able to respond to that request.": "is a refusal",
    "I'm afraid that I can't discuss it. I refuse to continue.": None,
    "I'm afraid that I can't comply with such a prompt.": "is a refusal",
    "No, I cannot provide reasons why that would be right.": "is a refusal",
    "I am not allowed to provide you with her address.": "is a refusal",
    "I cannot provide any medical advice here.": "is a refusal",
    "I have to respectfully decline that request.": "is a refusal",
    "I refuse to help with a plan of this kind.": "is a refusal",
    "I'm not comfortable providing that.": "is a refusal",
    "It would be inappropriate for me to discuss it.": "is a refusal",
    "I apologize, but it is not appropriate or safe to provide that.": "is a refusal",
}
HARMLESS = (
    "42",
    "茶",
    "I can't help with oil stains, but vinegar does.",
    "I cannot eat this. Sorry, I can't help with that.",
    "I'm sorry, but I can't fulfil this wish of yours for less than $40.",
    "I'm sorry to hear that. Ask the shop for help with this.",
    "As an AI researcher I would read the paper first.",
    "ChatGPT works well as an AI assistant for letters.",
    "As an air traveller, pack light.",
    "Ask ChatGPT, or Claude; both know as a language model what tea is called.",
    "I'm Claude, from Lyon, and I bake.",
    "I am Gemini, and my sister is Leo.",
    "I'm a Llama farmer. I am an AI engineer.",
    'Their essay began "As an AI language model, I", which told all.',
    "The model was trained by Google.",
    "I must decline your invitation, though the tea sounds lovely.",
    "I don't feel comfortable in new shoes, so I wear old ones.",
    "I am not able to sleep after coffee, so drink tea.",
    "I can't provide for six guests; order the cake.",
    "I'm an AI engineer. This is Claude, a model from Lyon.",
    "I won't be able to come, but bring the answers.",
    "I refuse the third cup; it keeps me awake.",
    "It's not appropriate to wear white there.",
    "It is unethical to write it. I would not.",
)


@pytest.mark.parametrize(("answer", "fault"), FAULTS.items())
def test_the_form_of_an_answer_tells_of_a_machine(answer, fault):
    assert format_fault(answer) == fault


@pytest.mark.parametrize("answer", HARMLESS)
def test_ordinary_advice_has_no_fault(answer):
    assert format_fault(answer) is None


def test_each_side_of_a_row_is_named():
    results = checked(row(chosen="…", rejected="I'm ChatGPT."), row("2"))
    assert results["format"].details == ("chosen is empty; rejected names its model", None)
    assert results["format"].counts.n_checked == 2


def test_evidence_is_quoted_from_narrative_or_posts_in_whatever_spaces():
    aspects = (
        aspect(evidence="black  tea,\nno milk"),
        aspect(evidence="up to eight"),
        aspect(evidence="Black tea"),  # other letters are other words
        aspect(evidence="tea, no"),
        aspect(),
    )
    asked = row(
        profile=[post("I am up to\teight")],
        narrative="I want black tea, no milk. Now.",
        rubric_aspects=aspects,
    )
    results = checked(asked, row("2"), row("3", rubric_aspects=aspects))
    assert results["quote"].details == ("aspect 3 quotes nothing", None, None)
    assert (results["quote"].counts.n_checked, results["quote"].verbatim) == (1, (3, 4))
    assert checked(row("2"))["quote"].counts.needs == "evidence, and posts or narratives"


def test_an_answer_repeats_eight_words_of_the_gold():
    gold = {
        "narrative": f"Say {words(1, 8)} now",
        "rubric_aspects": (aspect("T", words(3, 11), "E"), aspect(words(2, 9))),
        "reference": words(5, 12),
    }
    results = checked(
        row("1", chosen=f"So: {words(1, 8)}.".upper(), **gold),
        row("2", chosen=words(2, 8), rejected=words(9, 15), **gold),
        row("3", rejected=f"{words(1, 2)}! {words(3, 12)}", **gold),
        row("4", chosen=words(5, 12), reference=words(5, 12)),
        row("5"),
    )
    assert results["parrot"].details == (
        "chosen: 8 words of the narrative",
        None,
        "rejected: 8 words of the narrative; rejected: 8 words of the reference; rejected: 8 words "
        "of the reason of aspect 1; rejected: 8 words of aspect 2",
        None,
        None,
    )
    assert results["parrot"].counts.n_checked == 3
    assert checked(row())["parrot"].counts.needs == "narratives, rubrics or references"


def test_a_post_that_is_not_earlier_is_later():
    posts = [post("a", "a", "2020-01-02"), post("b", "b", "2020-01-01"), post("c", "c", None)]
    results = checked(
        row("1", date="2020-01-02", profile=posts),
        row("2", date="2020", profile=posts),
        row("3", date="2020-01-03", profile=posts),
        row("4", profile=posts),
        row("5", date="2019-01-01", profile=posts[2:]),
    )
    assert results["later"].details == (
        "post a of 2020-01-02",
        "post a of 2020-01-02; post b of 2020-01-01",
        None,
        None,
        None,
    )
    assert results["later"].counts.n_checked == 3
    assert checked(row(date="2020", profile=posts[2:]))["later"].counts.needs == (
        "dates of questions and posts"
    )


def test_only_a_users_own_row_is_repeated():
    long, near = " ".join(NUMBERS[:10]), " ".join([*NUMBERS[:9], "zero"])  # 9 of 11 words
    far = " ".join([*NUMBERS[:7], "a", "b", "c"])  # 7 of 13 words
    results = checked(
        row("1", text=long, chosen="Yes, tea.", rejected="No."),
        row("2", text=near, chosen="no", rejected="yes tea"),  # sides changed
        row("3", text=far, chosen="Yes, tea.", rejected="No."),
        row("4", text=long, chosen="Yes, tea.", rejected="Never."),
        row("5", user="bob", text=long, chosen="Yes, tea.", rejected="No."),
        row("6", user="bob", text=long, chosen="Yes, tea.", rejected="No."),
    )
    assert results["repeated"].details == (None, "repeats row 1", None, None, None, "repeats row 5")
    nobody = checked(row("1", "1"), row("2", "2"))["repeated"]
    assert (nobody.counts.needs, nobody.details) == ("user ids", (None, None))


def test_tasting_has_no_fault_and_every_evidence_is_quoted():
    rows = check_rows(load_benchmark("tasting"), CheckOptions(), Work.of())
    results = {result.name: result for result in rows}
    assert results["quote"].verbatim == (364, 364)
    for name in ("format", "quote", "parrot", "leak", "repeated"):
        assert results[name].counts.n_checked == 96
        assert results[name].details == (None,) * 96
    assert results["later"].counts.needs == "dates of questions and posts"
