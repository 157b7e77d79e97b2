"""The response in a query of OpenRLHF, against a search by hand."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.serve.formats import LEAST, overlap, response_in, without_end

ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<eos>", "</s>", "<pad>", "[PAD]")

letters = st.text(st.sampled_from("ab"), max_size=12)


@given(letters, letters)
def test_the_overlap_is_the_longest(prompt, query):
    lengths = range(min(len(prompt), len(query)), -1, -1)
    longest = next(n for n in lengths if prompt.endswith(query[:n]))
    assert overlap(prompt, query) == longest


prose = st.text(st.characters(exclude_characters="<>[]|", exclude_categories=("Cs",)))


@given(prose, prose, st.sampled_from(["", "<s>", "<|begin_of_text|>", "[CLS]"]),
       st.lists(st.sampled_from(ENDS), max_size=3))  # fmt: skip
def test_a_whole_prompt_is_stripped_whatever_stands_around(prompt, response, bos, ends):
    prompt = f"user: {prompt} <bot>"
    assert response_in(f"{bos}{prompt}{response}{''.join(ends)}", prompt) == response


@given(prose, st.integers(0, 40))
def test_a_prompt_that_is_cut_on_the_left_is_found_by_its_end(response, cut):
    prompt = "Once there was a long question: what is it that people drink? <bot>"
    assert response_in(prompt[cut:] + response, prompt) == response


def test_an_end_of_few_characters_may_be_the_responses_own():
    prompt = "x" * 40 + "0123456789abcdef"
    assert response_in(prompt[-LEAST:] + "!", prompt) == "!"
    assert response_in(prompt[-LEAST + 1 :] + "!", prompt) is None
    assert response_in("a word Tea? Yes", "Tea?") is None, "a word is no token"


def test_only_the_end_is_cut():
    assert without_end("a </s> b </s></s>\n") == "a </s> b "
    assert without_end("a <|mine|>", ("<|mine|>",)) == "a "
    assert without_end("a ") == "a "


def test_no_text_takes_more_than_linear_time():
    # Eight times the text: 8 where time is linear, 64 where it is quadratic.
    assert seconds_of(2**17) / seconds_of(2**14) < 16


def seconds_of(length: int) -> float:
    """Return the least time of three runs."""
    long = "a" * length
    times = []
    for _ in range(3):
        started = time.process_time()
        response_in("b" + long, long)
        response_in(f"{long}c", f"{long}b{long}")
        times.append(time.process_time() - started)
    return min(times)


def test_a_cut_prompt_behind_a_first_token_is_found_and_padding_takes_no_time():
    prompt = "Tea or not, that is the question.<bot>"
    assert response_in("<s>that is the question.<bot>Yes.", prompt) == "Yes."
    assert without_end("Yes." + "<pad>" * 300_000) == "Yes."


CHAT = "<|user|>Tea or not, that is the question.<|bot|>"


@pytest.mark.parametrize("end", [
    "<|sep|><|blank|>", "<｜end▁of▁sentence｜>", "<|eot|><|finetune_right_pad|>", "[|endofturn|]\n",
    "<|END_OF_TURN_TOKEN|><PAD><PAD>", "<|user|>", "<seed:eos><seed:pad>", "<turn|>\n", "<eoa>",
    "<|finetune_right_pad_id|>" * 9, "[e~[\n", "<SPECIAL_12>", "<reserved_106>", "<extra_id_1>",
])  # fmt: skip
def test_whatever_looks_like_the_end_of_a_turn_is_left_out(end):
    assert response_in(f"{CHAT}Green tea.{end}", CHAT) == "Green tea."
    assert without_end(f"Use <b>tea</b>{end}") == "Use <b>tea</b>"


@pytest.mark.parametrize("text", ["<b>Tea</b>", "Tea [1]", "if a[i]", "Tea<br>", "[END]", "5 > 3"])
def test_brackets_of_ordinary_text_are_no_ends(text):
    assert response_in(f"{CHAT}{text}", CHAT) == text


@pytest.mark.parametrize(("query", "prompt", "response"), [
    ("<s> <|user|>Tea?\n<|bot|> Yes, please.", "<s><|user|>Tea?\n<|bot|>", " Yes, please."),
    ("<s> [INST] Tea? [/INST] Yes.</s>", "<s>[INST] Tea? [/INST]", " Yes."),
    ("<s>[INST] Tea ? [/INST]Yes.", "<s>[INST] Tea?[/INST]", "Yes."),
    ("<s> [INST] Tea?[/INST]\nYes.", "<s>[INST] Tea? [/INST]\n", "Yes."),
    ("not, that is the question. <|bot|>Yes.", CHAT, "Yes."),
    ("<s> not, that is the question. <|bot|>\u00a0Yes.", CHAT, "\u00a0Yes."),
])  # fmt: skip
def test_white_space_of_the_decoder_hides_no_prompt(query, prompt, response):
    assert response_in(query, prompt) == response


def test_another_prompt_is_none_whatever_its_white_space():
    assert response_in("<s> [INST] Milk? [/INST] Yes.", "<s>[INST] Tea? [/INST]") is None
    assert response_in(" \n", "Tea?") is None
