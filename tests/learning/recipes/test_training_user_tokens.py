"""Where soft tokens stand, what a model reads for them, and the sums taken of it."""

from __future__ import annotations

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from palate.engines import ChatTemplate, Encoded
from palate.learning.personal_policy import (
    block,
    head,
    install,
    opening,
    response_log_probs,
    uninstall,
    with_tokens,
)
from palate.records import Message
from tiny import ENDS_WITH_EOS

ANSWER = "Tea, then."


def template_of(folder):
    return ChatTemplate(transformers.AutoTokenizer.from_pretrained(folder))


def model_of(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.mark.parametrize("template", [None, ENDS_WITH_EOS])
@pytest.mark.parametrize("question", ["What now?", "\n\nAnd now?", "", "  b"])
def test_the_tokens_stand_before_the_first_words_and_nothing_else_changes(tiny, template, question):
    ours = template_of(tiny.model(template=template))
    plain = ours.closed((Message(role="user", content=question),), ANSWER)
    soft = block(1024, 3, 2)
    found = with_tokens(plain, opening(ours), soft)
    place = found.ids.index(soft[0])
    assert found.ids[place : place + 3] == tuple(soft) == (1030, 1031, 1032)
    assert found.ids[:place] + found.ids[place + 3 :] == plain.ids
    assert found.ids[found.start :] == plain.ids[plain.start :]
    # A line break of the question may be one token with the template's own.
    assert ours.tokenizer.decode(found.ids[:place]) in (head(ours), head(ours)[:-1])
    assert head(ours).endswith("<|im_start|>user\n")


def test_what_is_shown_and_earlier_turns_come_after_the_tokens(tiny):
    ours = template_of(tiny.model())
    turns = [("user", "One?"), ("assistant", "Yes."), ("user", "Two?")]
    messages = tuple(Message(role=role, content=text) for role, text in turns)
    found = with_tokens(ours.closed(messages, ANSWER), opening(ours), [1024])
    place = found.ids.index(1024)
    assert ours.tokenizer.decode(found.ids[place + 1 :]).startswith("One?")


@given(
    ids=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    start=st.integers(0, 8),
    first=st.lists(st.integers(0, 3), max_size=8),
)
def test_no_token_is_lost_wherever_the_template_ends(ids, start, first):
    plain = Encoded(tuple(ids), min(start, len(ids)))
    found = with_tokens(plain, first, (9, 9))
    assert tuple(k for k in found.ids if k != 9) == plain.ids
    assert found.ids[found.start :] == plain.ids[plain.start :]
    assert found.ids[: found.start].count(9) == 2


def test_a_model_reads_everybodys_vectors_and_a_users_own_on_top(tiny):
    model = model_of(tiny.model())
    words = model.get_input_embeddings()
    generic, own = torch.randn(2, 32), torch.randn(3, 2, 32)
    module = install(model, generic, own, unit=0.5)
    ids = torch.tensor([[5, 1024, 1025, 6], [5, 1028, 1029, 6]])
    found = module(ids)
    assert torch.equal(found[:, [0, 3]], words(ids[:, [0, 3]]))
    assert torch.equal(found[0, 1:3], generic)
    assert torch.allclose(found[1, 1:3], generic + 0.5 * own[1])
    assert module.users(ids).tolist() == [0, 2]
    assert module.as_generic(ids).tolist() == [[5, 1024, 1025, 6]] * 2
    assert module.as_generic(torch.tensor([[7, 1024]])).tolist() == [[7, 1024]]
    assert torch.equal(module(torch.tensor([[5, 6]])), words(torch.tensor([[5, 6]])))

    again = install(model, generic, own[:0])
    assert again.words is words and again.num_embeddings == 1024
    assert torch.equal(again(ids[:1])[0, 1:3], generic)
    uninstall(model)
    uninstall(model)
    assert model.get_input_embeddings() is words


def test_slopes_reach_the_tokens_that_were_read_and_no_others(tiny):
    model = model_of(tiny.model()).requires_grad_(False)
    module = install(model, torch.randn(2, 32), torch.zeros(3, 2, 32))
    rows = [Encoded((5, *block(1024, 2, user), 6, 7, 8), 4) for user in (1, 3)]
    response_log_probs(model, rows).sum().backward()
    reached = module.offsets.grad.abs().sum(dim=(1, 2))
    assert (reached > 0).tolist() == [True, False, True]
    assert torch.allclose(module.generic.grad, module.offsets.grad.sum(dim=0), atol=1e-5)
    assert all(p.grad is None for p in (*module.words.parameters(), *model.lm_head.parameters()))


def test_sums_of_a_padded_batch_are_those_of_each_row_alone(tiny):
    model = model_of(tiny.model())
    rows = [Encoded((5, 6, 7, 8, 9), 2), Encoded((5, 6), 1), Encoded((3, 4, 3, 4, 3, 4, 3), 6)]
    with torch.no_grad():
        found = response_log_probs(model, rows).tolist()
        for row, total in zip(rows, found, strict=True):
            logp = model(torch.tensor([row.ids])).logits[0].double().log_softmax(-1)
            alone = sum(float(logp[k - 1, row.ids[k]]) for k in range(row.start, len(row.ids)))
            assert total == pytest.approx(alone, abs=1e-4)
