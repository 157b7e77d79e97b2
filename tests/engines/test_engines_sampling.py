"""Samples of one prompt, against a plain loop over the whole sequence."""

from __future__ import annotations

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from decoding_laws.words import WIDTH, WORDS, WordModel
from palate.engines import ChatTemplate, LocalModel, Reader, sample
from palate.engines.local_decoding import draw
from palate.engines.local_rows import begin_rows
from palate.errors import ModelError, UsageError
from palate.records import Message, Settings
from palate.specs import Reference
from tiny import EOS, KINDS


def load(folder, **settings):
    return LocalModel(Reader(Reference.parse(folder), Settings(**settings)), "causal")


def prompt(local):
    words = "Tell me what to cook tonight, on an open fire, without a scale. " * 4
    return ChatTemplate(local.tokenizer).prompt((Message(role="user", content=words),))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("budget", [64, 4096])
def test_each_step_is_the_models_own_distribution(tiny, name, budget):
    folder = tiny.of(KINDS[name])
    local = load(folder)
    local.budget = budget
    ids, n = prompt(local), 3
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = [list(ids) for _ in range(n)]
    decoding = begin_rows(local, [ids] * n, 8, logits=not local.head.apart)
    for step in range(5):
        with torch.inference_mode():
            own = [plain(torch.tensor([row])).logits[0, -1] for row in rows]
        own = torch.log_softmax(torch.stack(own), dim=-1)
        assert float((own - decoding.each(local.head.distributions)).abs().max()) <= 1e-4
        tokens = [(17 * step + 5 * k) % 1000 + 3 for k in range(len(rows))]
        rows = [[*row, token] for row, token in zip(rows, tokens, strict=True)]
        decoding.advance(tokens)
        if step == 2:
            rows = [rows[2], rows[0]]
            decoding = decoding.of([2, 0])


@pytest.mark.parametrize("name", KINDS)
def test_greedy_samples_are_all_the_likeliest_continuation(tiny, name):
    local = load(tiny.of(KINDS[name]))
    ids = prompt(local)
    one, other = sample(local, ids, 2, 6, temperature=0)
    tokens = torch.tensor([list(ids)])
    for _ in range(6):
        with torch.inference_mode():
            best = local.model(tokens).logits[0, -1].argmax()
        if int(best) == EOS:
            break
        tokens = torch.cat([tokens, best.view(1, 1)], dim=1)
    assert one.ids == other.ids == tokens[0, len(ids) :].tolist()


def test_the_first_of_four_is_the_first_of_sixteen_and_a_seed_gives_them_again(tiny):
    local = load(tiny.model())
    ids = prompt(local)
    four, sixteen = sample(local, ids, 4, 8), sample(local, ids, 16, 8)
    assert [one.ids for one in four] == [one.ids for one in sixteen[:4]]
    assert len({tuple(one.ids) for one in sixteen}) > 8
    assert [one.ids for one in sample(local, ids, 4, 8, seed=1)] != [one.ids for one in four]


def test_the_prompt_is_read_once(tiny):
    local = load(tiny.model())
    _ = local.head
    widths = []
    local.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    ids = prompt(local)
    sample(local, ids, 5, 4)
    assert widths == [len(ids), 5, 5, 5]


def test_log_probabilities_are_the_models_own_whatever_the_temperature(tiny):
    local = load(tiny.model())
    ids = prompt(local)
    for one in sample(local, ids, 3, 5, temperature=2.0, top_p=0.9):
        ((_, (logp,)),) = local.log_probabilities([[((*ids, *one.ids), len(ids))]])
        assert one.cut_off
        assert one.log_probability == pytest.approx(float(logp.sum()), abs=1e-3)


def test_a_sample_ends_at_an_end_token_which_is_no_part_of_it(tiny):
    local = load(tiny.model())
    ids = prompt(local)
    ((best,),) = [one.ids[:1] for one in sample(local, ids, 1, 1, temperature=0)]
    local.model.generation_config.eos_token_id = [best, EOS]
    (one,) = sample(local, ids, 1, 5, temperature=0)
    assert (one.ids, one.text, one.cut_off) == ([], "", False)
    assert one.log_probability < 0


def test_what_is_no_token_is_never_drawn():
    local = WordModel(3, ends=())
    logp = local.next_token_logits([[0, 1]]).log_softmax(-1)[0]
    outside = sorted({*range(WIDTH)} - {*WORDS})
    assert float(logp[outside].exp().max()) > 0.05
    drawn = [it.ids[0] for it in sample(local, [0, 1], 4000, 1)]
    assert {*drawn} <= {*WORDS}
    share = logp[list(WORDS)].softmax(-1).tolist()
    for word, expected in zip(WORDS, share, strict=True):
        assert drawn.count(word) / 4000 == pytest.approx(expected, abs=0.03)
    (likeliest,) = sample(local, [0, 1], 1, 1, temperature=0)
    assert likeliest.ids == [WORDS[share.index(max(share))]]
    assert likeliest.log_probability == pytest.approx(float(logp[likeliest.ids[0]]), abs=1e-5)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"max_tokens": 0}, {"temperature": -1}, {"top_p": 0}])
def test_what_cannot_be_drawn_is_refused(tiny, wrong):
    local = load(tiny.model())
    given_ = {"n": 1, "max_tokens": 1, **wrong}
    with pytest.raises(UsageError, match="cannot draw"):
        sample(local, prompt(local), given_.pop("n"), given_.pop("max_tokens"), **given_)


@given(
    st.lists(st.floats(-6, 0), min_size=2, max_size=8),
    st.floats(0, 0.999999),
    st.floats(0.1, 3),
    st.floats(0.05, 1),
)
def test_a_token_is_drawn_from_the_smallest_set_that_holds_top_p(logits, point, temperature, top_p):
    logp = torch.log_softmax(torch.tensor([logits], dtype=torch.float64), dim=-1)
    (token,) = draw(torch, logp, [point], temperature, top_p)
    p = torch.softmax(logp[0] / temperature, dim=-1)
    above = float(p[p > p[token] + 1e-12].sum())
    assert above < top_p + 1e-9
    points = [(k + 0.5) / 4000 for k in range(4000)]
    drawn = draw(torch, logp.expand(4000, -1), points, temperature, 1.0)
    for k, share in enumerate(p.tolist()):
        assert drawn.count(k) / 4000 == pytest.approx(share, abs=1e-3)


def test_logits_that_are_no_numbers_are_named():
    with pytest.raises(ModelError, match="no numbers"):
        draw(torch, torch.tensor([[0.0, float("nan"), 0.0]]), [0.5], 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), float("inf")])
def test_the_likeliest_of_no_numbers_is_no_token(value):
    with pytest.raises(ModelError, match="no numbers"):
        draw(torch, torch.full((1, 4), value), [0.5], 0)
