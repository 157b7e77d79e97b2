"""Guided writing on tiny models against plain sampling, and against reading all anew each step."""

from __future__ import annotations

import pytest
import torch
import transformers
from guided_models import Direction, load, prompt, rows_of

from decoding_laws.words import WordModel
from decoding_laws.world import Terms
from palate.engines import Member, ModelEnsemble, sample
from palate.guidance import (
    PRESETS,
    CandidateRows,
    Candidates,
    FusedRows,
    Fusion,
    TeacherForced,
    TokenFilter,
    Writing,
    fused_sums,
    write,
)
from palate.guidance.processor import GuidanceProcessor
from palate.guidance.processor import rows_of as prompts_of_rows
from tiny import EOS, KINDS

ROOM = 8


def fused(law, policy, guide, rows, room=ROOM):
    return FusedRows(law, policy, guide, rows, room)


def written(stepper, policy, rows, **how):
    return write(stepper, policy, rows, Writing(**{"max_tokens": ROOM, **how}))


@pytest.fixture(params=KINDS)
def kind(request, tiny):
    architecture, config = KINDS[request.param]
    folder = tiny.model(architecture, **config)
    more = {"layer_norm_epsilon": 0.1} if architecture == "GPT2LMHeadModel" else {}
    more = more or ({"layer_norm_epsilon": 0.1} if "Mamba" in architecture else {})
    other = tiny.model(architecture, **config, **(more or {"rms_norm_eps": 0.1}))
    return folder, other


def plainly(folder, sequences, size):
    """Return log p of every next token, each sequence read alone by the model itself."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        rows = [model(torch.tensor([list(ids)])).logits[0, -1] for ids in sequences]
    return torch.log_softmax(torch.stack(rows), dim=-1)[:, :size]


def test_a_weight_of_0_is_plain_sampling_token_for_token(kind):
    policy, other = map(load, kind)
    ids, guide = prompt(policy), Terms((1.0,), (other,))
    rows = rows_of([ids] * 4, [[ids[:30]]] * 4)
    for how in ({}, {"temperature": 0.0}, {"temperature": 1.3, "top_p": 0.8, "seed": 3}):
        made = written(fused(Fusion(1, 0), policy, guide, rows), policy, rows, **how)
        plain = sample(policy, ids, 4, ROOM, **how)
        assert [it.ids for it in made] == [it.ids for it in plain]
        assert [it.text for it in made] == [it.text for it in plain]
        expected = [it.log_probability for it in plain]
        assert [it.log_probability for it in made] == pytest.approx(expected, abs=1e-4)
        if how.get("temperature") != 0:
            assert [it.divergence for it in made] == pytest.approx([0] * 4, abs=1e-4)


def test_an_implicit_guide_over_the_policy_itself_writes_as_the_trained_one(kind):
    policy, trained = map(load, kind)
    ids = prompt(policy)
    rows = rows_of([ids] * 4, [[ids, ids]] * 4)
    guide = Terms((1.0, -1.0), (trained, policy))
    made = written(fused(Fusion(1, 1), policy, guide, rows), policy, rows, seed=2)
    assert [it.ids for it in made] == [it.ids for it in sample(trained, ids, 4, ROOM, seed=2)]
    assert [it.ids for it in made] != [it.ids for it in sample(policy, ids, 4, ROOM, seed=2)]


def test_each_step_of_a_fusion_is_that_of_reading_all_anew(kind):
    policy, other = map(load, kind)
    ids = prompt(policy)
    prompts, theirs = [ids, ids[:33], ids], [[ids[:20]], [ids[3:40]], [ids[5:25]]]
    rows, law = rows_of(prompts, theirs), Fusion(1.0, 0.8, TokenFilter("top-k", 5))
    stepper = fused(law, policy, Terms((0.5,), (other,)), rows)
    held, live = [[] for _ in rows], [0, 1, 2]
    for step in range(5):
        made = stepper.step()
        p, g = (
            plainly(folder, [[*of[k], *held[k]] for k in live], stepper.valid_ids.size)
            for folder, of in ((kind[0], prompts), (kind[1], [of for (of,) in theirs]))
        )
        expected = law.logits(p, 0.5 * g)
        logits = made.logits.cpu()
        assert torch.equal(logits.isfinite(), expected.isfinite())
        here = expected.isfinite()
        assert float((logits - expected)[here].abs().max()) < 1e-3
        chosen = [int(made.logits[row].topk(2).indices[step % 2]) for row in range(len(live))]
        for row, k in enumerate(live):
            held[k].append(chosen[row])
        left = [2, 0] if step == 2 else list(range(len(live)))
        live = [live[row] for row in left]
        stepper.go_on(left, chosen)


def test_each_step_of_candidates_is_that_of_reading_all_anew(kind):
    policy, rater = map(load, kind)
    ids = prompt(policy)
    prompts, theirs = [ids, ids[:33], ids], [ids[:20], ids[3:40], ids[:20]]
    rows = rows_of(prompts, [[of] for of in theirs])
    guide = Direction((rater,), closing=(EOS, 5))
    policy.model.generation_config.eos_token_id = [EOS]
    law = Candidates(0.7, 4)
    stepper = CandidateRows(law, policy, guide, rows, ROOM)
    held, live = [[] for _ in rows], [0, 1, 2]
    for step in range(5):
        made = stepper.step()
        p = plainly(kind[0], [[*prompts[k], *held[k]] for k in live], stepper.valid_ids.size)
        tokens = law.tokens(p)
        assert made.tokens.tolist() == tokens.tolist()
        read = [[[*theirs[k], *held[k], token] for token in of_row]
                for k, of_row in zip(live, tokens.tolist(), strict=True)]  # fmt: skip
        rewards = torch.stack([states(rater, of_row) for of_row in read])
        rewards = guide.rewards(rewards, live)
        expected = law.logits(p, tokens, rewards)
        assert float((made.logits - expected).abs().max()) < 1e-3
        chosen = [(step + row) % 4 for row in range(len(live))]
        for row, k in enumerate(live):
            held[k].append(int(tokens[row, chosen[row]]))
        left = [1, 2] if step == 2 else list(range(len(live)))
        live = [live[row] for row in left]
        stepper.go_on(left, chosen)


def states(local, sequences):
    with torch.inference_mode():
        return torch.cat([
            local.model.base_model(torch.tensor([ids])).last_hidden_state[:, -1]
            for ids in sequences
        ])  # fmt: skip


@pytest.mark.parametrize("pad", [None, EOS])
def test_an_end_token_is_rated_by_the_closed_response(kind, pad):
    policy, rater = map(load, kind)
    ids, closing = prompt(policy), (EOS,) if pad else (EOS, 7, 9)
    rows = rows_of([ids], [[ids[:25]]])
    ((likeliest,),) = plainly(kind[0], [ids], 1000).topk(1).indices
    policy.model.generation_config.eos_token_id = [int(likeliest)]
    guide = Direction((rater,), closing=closing, pad=pad)
    stepper = CandidateRows(Candidates(1.0, 3), policy, guide, rows, ROOM)
    made = stepper.step()
    written_out = [*ids[:25], *(() if pad else closing)]
    reward = guide.rewards(states(rater, [written_out]), [0])
    expected = made.policy[0, int(likeliest)] + reward[0]
    assert float(made.logits[0, 0]) == pytest.approx(float(expected), abs=1e-3)
    # Rows of which one has ended go on as if it had never been read.
    stepper.go_on([0], [1])
    token = int(made.tokens[0, 1])
    second = stepper.step()
    p = plainly(kind[0], [[*ids, token]], stepper.valid_ids.size)
    assert float((second.policy - p).abs().max()) < 1e-3


def test_greedy_candidates_of_no_weight_are_the_greedy_response(kind):
    policy, rater = map(load, kind)
    ids = prompt(policy)
    rows = rows_of([ids] * 2, [[ids[:25]]] * 2)
    guide = Direction((rater,), closing=(EOS,))
    for k in (1, 4):
        stepper = CandidateRows(Candidates(0.0, k), policy, guide, rows, ROOM)
        made = written(stepper, policy, rows, temperature=0.0)
        assert [it.ids for it in made] == [
            it.ids for it in sample(policy, ids, 2, ROOM, temperature=0)
        ]


def test_one_candidate_is_the_greedy_response_whatever_the_guide_says(kind):
    policy, rater = map(load, kind)
    ids = prompt(policy)
    rows, guide = rows_of([ids], [[ids[:25]]]), Direction((rater,), closing=(EOS,))
    stepper = CandidateRows(Candidates(5.0, 1), policy, guide, rows, ROOM)
    (made,) = written(stepper, policy, rows)
    (plain,) = sample(policy, ids, 1, ROOM, temperature=0)
    assert made.ids == plain.ids


def test_many_prompts_together_are_each_alone(kind):
    policy, other = map(load, kind)
    ids = prompt(policy)
    prompts = [ids, ids[:33], ids, ids[5:50]]
    theirs = [[ids[:20]], [ids[3:40]], [ids[:20]], [ids]]
    rows = rows_of(prompts, theirs, numbers=[0, 0, 1, 7])
    guide = Terms((1.0,), (other,))
    rater = Direction((other,), closing=(EOS,))
    for made_of in (
        lambda some: fused(Fusion(1, 1), policy, guide, some),
        lambda some: CandidateRows(Candidates(1.0, 4), policy, rater, some, ROOM),
    ):
        together = written(made_of(rows), policy, rows)
        alone = [written(made_of([row]), policy, [row])[0] for row in rows]
        assert [it.ids for it in together] == [it.ids for it in alone]
        assert [it.log_probability for it in together] == pytest.approx(
            [it.log_probability for it in alone], abs=1e-3
        )
        assert len({tuple(it.ids) for it in together}) > 1


def test_a_response_ends_at_an_end_token_and_others_go_on(tiny):
    policy, other = load(tiny.model()), load(tiny.model(rms_norm_eps=0.1))
    ids = prompt(policy)
    rows, guide = rows_of([ids] * 6, [[ids]] * 6), Terms((1.0,), (other,))
    free = written(fused(Fusion(1, 1), policy, guide, rows), policy, rows)
    ends = [free[0].ids[2], free[1].ids[4]]
    policy.model.generation_config.eos_token_id = [*ends, EOS]
    made = written(fused(Fusion(1, 1), policy, guide, rows), policy, rows)
    for before, after in zip(free, made, strict=True):
        stop = next((k for k, token in enumerate(before.ids) if token in ends), len(before.ids))
        assert after.ids == before.ids[:stop]
        assert after.cut_off == (stop == ROOM)
        steps = stop + (not after.cut_off)
        assert after.tokens == {"policy": steps, "guide": steps}
    assert {it.cut_off for it in made} == {True, False}


def test_no_id_beyond_the_tokenizer_or_in_a_hole_of_it_is_drawn(tiny):
    policy = load(tiny.model(vocab_size=1400))
    other = load(tiny.model(vocab_size=1400, rms_norm_eps=0.1))
    there = set(policy.tokenizer.get_vocab().values())
    assert len(there) <= 1024
    size, blocked = policy.valid_ids
    outside = [k for k in range(size) if blocked is not None and blocked[k]]
    assert {*range(size)} - {*outside} == {k for k in there if k < size}
    head = policy.model.get_output_embeddings().weight
    with torch.no_grad():
        for local in (policy, other):
            local.model.get_output_embeddings().weight[1024:] *= 5
    assert head.shape[0] == 1400
    ids = prompt(policy)
    rows = rows_of([ids] * 20, [[ids]] * 20)
    (likely,) = policy.next_token_logits([ids])
    assert float(likely.softmax(-1)[1024:].sum()) > 0.1
    for how in ({}, {"temperature": 0.0}, {"top_p": 0.5}):
        assert {token for it in sample(policy, ids, 20, ROOM, **how) for token in it.ids} <= there
    guides = Terms((1.0,), (other,)), Direction((other,), closing=(EOS,))
    for stepper in (
        fused(Fusion(1, 1), policy, guides[0], rows),
        fused(Fusion(0, 1, TokenFilter("top-p", 0.3, "guide")), policy, guides[0], rows),
        fused(Fusion(-0.1, 1, TokenFilter("share", 0.5, "guide")), policy, guides[0], rows),
        CandidateRows(Candidates(1.0, 10), policy, guides[1], rows, ROOM),
    ):
        made = written(stepper, policy, rows)
        assert {token for it in made for token in it.ids} <= there


def test_a_keep_set_of_the_guide_holds_no_id_that_is_no_token():
    policy, other = WordModel(0), WordModel(1)
    with torch.no_grad():
        head = other.model.get_output_embeddings().weight
        head[3] = 4 * head[5]  # where the word 5 is likely, the hole is likelier
    preset, ids = PRESETS["linear-alignment"], [0, 1, 2]
    guide, following = Terms((1.0,), (other,)), [4, 5, 6, 7]
    rows = rows_of([ids], [[ids]])
    stepper = fused(preset.law(2.0), policy, guide, rows)
    processor = GuidanceProcessor(preset.law(2.0), policy, guide, [ids], [rows[0].reading], ROOM)
    total = 0.0
    for at, token in enumerate(following):
        before = torch.tensor([[*ids, *following[:at]]])
        with torch.inference_mode():
            law = stepper.step().logits
            guided = processor(before, policy.model(before).logits[:, -1])
        assert torch.allclose(guided[:, : law.shape[1]], law, atol=1e-4)
        p, q = map(stepper.valid_ids.only, stepper.members.log_probabilities())
        also = preset.law(2.0).logits(p, q, also=torch.tensor([token])).float().log_softmax(dim=-1)
        total += float(also[0, token])
        stepper.go_on([0], [token])
    (sums,) = fused_sums(preset, policy, guide, [TeacherForced(ids, [ids], following)], [2.0])
    assert sums["2"] == pytest.approx(total, abs=1e-4)


def count_rows(local):
    counts = []
    local.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: counts.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    return counts


def test_what_members_of_one_model_read_alike_is_read_once(tiny):
    model = load(tiny.model())
    _ = model.head
    ids = prompt(model)
    counts = count_rows(model)
    same = ModelEnsemble([Member(model, [ids] * 3)] * 2, ROOM)
    same.advance([5, 6, 7])
    assert counts == [len(ids), 3]
    one, two = same.log_probabilities()
    assert torch.equal(one, two)
    del counts[:]
    apart = ModelEnsemble(
        [Member(model, [ids] * 3), Member(model, [ids[:20], ids, ids[:20]])], ROOM
    )
    apart.advance([5, 6, 7])
    assert sorted(counts[:2]) == [20, len(ids)]
    assert counts[2:] == [5], "the second row of both is one"


@pytest.mark.parametrize("order", [[0, 2], [2, 1, 0], [1]])
def test_rows_of_members_that_go_on_alone_are_theirs(kind, order):
    model, other = map(load, kind)
    ids = prompt(model)
    prompts = [[ids, ids[:30], ids], [ids[:20], ids, ids], [ids[4:30]] * 3]
    folders = [kind[0], kind[0], kind[1]]
    models = [model, model, other]
    members = ModelEnsemble([Member(m, p) for m, p in zip(models, prompts, strict=True)], ROOM)
    members.advance([5, 6, 7])
    fewer = members.of(order)
    fewer.advance([20 + row for row in order])
    made = fewer.log_probabilities()
    for folder, of, logp in zip(folders, prompts, made, strict=True):
        held = [[*of[row], 5 + row, 20 + row] for row in order]
        assert float((logp.cpu() - plainly(folder, held, 1024)).abs().max()) < 1e-3


def test_a_prompt_of_the_padding_token_alone_is_as_wide_as_the_others() -> None:
    rows = prompts_of_rows([[0, 0, 7], [3, 4, 8]], [[0], [3, 4]])
    assert [row.response for row in rows] == [[7], [8]]
