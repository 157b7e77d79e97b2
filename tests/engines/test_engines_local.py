"""The engine against one plain forward per sequence."""

from __future__ import annotations

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from plain_forward import (
    DENSE,
    RESPONSES,
    TOLERANCE,
    assert_close,
    conversation,
    encode,
    label_logits,
    load,
    log_probabilities,
    plain_log_probabilities,
)

from palate.engines import ChatTemplate, TokenSpan, generate
from palate.engines.local_forward import SMALLEST, cut, loads_apart, padded, unique_tokens
from palate.engines.local_loading import ReadMode
from palate.errors import ModelError, ResourceError
from palate.records import Settings
from palate.session import default_session
from palate.specs import Reference
from tiny import EOS

ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", {}),
    "tied": ("LlamaForCausalLM", {"tie_word_embeddings": True}),
    "pad is eos": ("LlamaForCausalLM", {"pad_token_id": EOS}),
    "learned positions": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "mistral, sliding": ("MistralForCausalLM", {"sliding_window": 8}),
    "gemma2, sliding": ("Gemma2ForCausalLM", {"sliding_window": 8, "query_pre_attn_scalar": 8}),
    "recurrent": ("MambaForCausalLM", {"state_size": 4}),
}
PADDED = {
    "mistral, sliding": "a layer sees 8 tokens",
    "gemma2, sliding": "softcap",
    "recurrent": "0 of 2 layers attend",
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scores_equal_a_plain_forward_whatever_the_batch_order_cache_and_padding(tiny, name):
    folder = tiny.of(ARCHITECTURES[name])
    local = load(folder)
    expected = plain_log_probabilities(folder)
    map_ordered = [float(e.mean()) for e in expected]
    assert max(map_ordered) - min(map_ordered) > 100 * TOLERANCE, "too alike to tell anything"
    encoded = encode(local)
    backwards = list(reversed(range(len(encoded))))
    for route in {local.read_mode, DENSE}:
        local.read_mode = route
        for local.budget in (64, 333, 4096):
            assert_close(log_probabilities(local, encoded), expected)
        turned = log_probabilities(local, [encoded[k] for k in backwards])
        assert_close(turned, [expected[k] for k in backwards])
        assert_close(log_probabilities(local, encoded[1:2]), expected[1:2])


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokenizers_padding_side_makes_no_difference(tiny, side):
    folder = tiny.model(tokenizer={"padding_side": side})
    local = load(folder)
    assert local.tokenizer.padding_side == side
    assert_close(log_probabilities(local, encode(local)), plain_log_probabilities(tiny.model()))


def test_a_tokenizer_without_a_pad_token_makes_no_difference(tiny):
    folder = tiny.model(tokenizer={"pad_token": None})
    local = load(folder)
    assert local.tokenizer.pad_token is None
    assert_close(log_probabilities(local, encode(local)), plain_log_probabilities(tiny.model()))
    made = list(generate(local, [encode(local)[0].ids, encode(local)[1].ids], 5))
    assert [k for k, _, _ in made] == [0, 1]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_is_read_as_a_tree_where_its_layers_allow_it_and_says_why_not(tiny, name):
    local = load(tiny.of(ARCHITECTURES[name]))
    assert local.read_mode.tree == (name not in PADDED)
    assert PADDED.get(name, "shared prefixes") in str(local.read_mode)


def test_an_encoder_is_read_in_padded_batches(tiny):
    local = load(tiny.encoder(), "classifier")
    assert "both directions" in str(local.read_mode)


def test_a_kernel_that_is_asked_for_is_used(tiny):
    folder = tiny.model()
    local = load(folder, attention="eager")
    assert local.model.config._attn_implementation == "eager"
    assert str(local.read_mode) == "padded batches (attention=eager)"
    assert_close(log_probabilities(local, encode(local)), plain_log_probabilities(folder))


def test_an_unknown_kernel_is_one_clear_line(tiny):
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load(tiny.model(), attention="flesh")
    assert "\n" not in str(caught.value)


def test_a_sequence_within_a_sliding_window_is_read_as_a_tree(tiny):
    folder = tiny.model("MistralForCausalLM", sliding_window=300)
    local = load(folder)
    assert local.read_mode == ReadMode(True, reach=300)
    encoded = encode(local)
    widths = shapes_read(local, lambda: log_probabilities(local, encoded))
    assert widths == [(1, unique_tokens([e.ids for e in encoded]))]
    assert_close(log_probabilities(local, encoded), plain_log_probabilities(folder))


def shapes_read(local, run):
    seen = []
    _ = local.head  # asked of the model once
    count = local.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    run()
    count.remove()
    return seen


def test_what_sequences_share_is_read_once_and_nothing_is_padded(tiny):
    local = load(tiny.model())
    encoded = encode(local)
    start = encoded[0].start
    own = sum(len(e.ids) - start for e in encoded)
    assert start > 50
    assert unique_tokens([e.ids for e in encoded]) <= start + own
    assert shapes_read(local, lambda: log_probabilities(local, encoded)) == [(1, start + own)]


def test_a_slate_larger_than_the_budget_is_read_in_pieces_that_fit_it(tiny):
    local = load(tiny.model())
    local.budget = SMALLEST
    encoded = encode(local)
    shapes = shapes_read(local, lambda: log_probabilities(local, encoded))
    assert all(rows == 1 and width <= SMALLEST for rows, width in shapes)
    assert sum(width for _, width in shapes) == unique_tokens([e.ids for e in encoded])


def test_groups_that_begin_alike_share_their_beginning(tiny):
    local = load(tiny.model())
    groups = [encode(local, RESPONSES[:2]), encode(local, RESPONSES[2:])]
    alone = [log_probabilities(local, group) for group in groups]
    together = {}
    shapes = shapes_read(local, lambda: together.update(local.log_probabilities(groups)))
    assert shapes == [(1, unique_tokens([e.ids for group in groups for e in group]))]
    for k, found in enumerate(alone):
        assert_close(together[k], found)


def test_groups_come_back_under_their_own_numbers_and_an_empty_group_is_empty(tiny):
    local = load(tiny.model())
    one, two = encode(local, RESPONSES[:1]), encode(local, RESPONSES[1:3])
    found = dict(local.log_probabilities(iter([two, [], one])))
    assert [len(found[k]) for k in range(3)] == [2, 0, 1]
    assert_close(found[2], log_probabilities(local, one))


def test_next_token_logits_are_the_models_own(tiny):
    local = load(tiny.model())
    sequences = [e.ids for e in encode(local)]
    for ids, logits in zip(sequences, local.next_token_logits(sequences), strict=True):
        with torch.inference_mode():
            expected = local.model(torch.tensor([list(ids)])).logits[0, -1]
        assert float((expected - logits).abs().max()) <= TOLERANCE


def test_a_head_that_palate_does_not_know_is_left_to_the_model(tiny, monkeypatch):
    folder = tiny.model()
    expected = plain_log_probabilities(folder)
    local = load(folder)
    own = type(local.model).forward

    def twice(self, *args, **kwargs):
        output = own(self, *args, **kwargs)
        output.logits = 2 * output.logits
        return output

    monkeypatch.setattr(type(local.model), "forward", twice)
    assert not local.head.apart
    found = log_probabilities(local, encode(local))
    assert abs(float(found[0].mean() - expected[0].mean())) > 10 * TOLERANCE
    monkeypatch.setattr(type(local.model), "forward", own)
    doubled = load(folder)
    doubled.model.lm_head.weight.data.mul_(2)
    assert doubled.head.apart
    assert_close(found, log_probabilities(doubled, encode(doubled)))


def test_identical_sequences_get_identical_scores(tiny):
    local = load(tiny.model())
    one = encode(local, ["Stew."])[0]
    first, second, third = log_probabilities(local, [one, one, one])
    assert_close([first, second], [second, third], 1e-5)


LABELS = {
    "plain": ("LlamaForCausalLM", {}),
    "tied": ("LlamaForCausalLM", {"tie_word_embeddings": True}),
    "bias": ("PhiForCausalLM", {}),
    "capped": ("Gemma2ForCausalLM", {"final_logit_softcapping": 3.0, "query_pre_attn_scalar": 8}),
    "scaled up": ("CohereForCausalLM", {"logit_scale": 0.0625}),
    "scaled down": ("GraniteForCausalLM", {"logits_scaling": 8.0}),
}


@pytest.mark.parametrize("name", LABELS)
def test_label_logits_equal_the_models_own_up_to_a_constant(tiny, name):
    folder = tiny.of(LABELS[name])
    local = load(folder)
    sequences = [e.ids for e in encode(local)]
    labels = [local.tokenizer(x, add_special_tokens=False)["input_ids"][0] for x in "AB"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for ids, (a, b) in zip(sequences, label_logits(local, sequences, labels), strict=True):
        with torch.inference_mode():
            own = model(torch.tensor([list(ids)])).logits[0, -1, labels]
        assert a - b == pytest.approx(float(own[0] - own[1]), abs=TOLERANCE)
        assert abs(a - b) > TOLERANCE


def test_label_logits_tell_labels_apart_that_tie_in_bfloat16(tiny):
    local = load(tiny.model(), dtype="bfloat16")
    sequences = [encode(local)[0].ids]
    labels = [330, 389]
    head = local.model.get_output_embeddings().weight.detach()
    with torch.inference_mode():
        ids = torch.tensor([list(sequences[0])])
        hidden = local.model.base_model(ids).last_hidden_state[0, -1]
        direction = hidden / hidden.float().square().sum()
        head[labels[0]] = (20.02 * direction.float()).bfloat16()
        head[labels[1]] = (20.06 * direction.float()).bfloat16()
        logits = local.model(ids).logits[0, -1, labels]
    assert logits.dtype == torch.bfloat16
    ((a, b),) = label_logits(local, sequences, labels)
    exact = [float(head[k].double() @ hidden.double()) for k in labels]
    assert exact[0] != exact[1]
    assert float(logits[0]) == float(logits[1]), "no tie to break in bfloat16"
    assert (a, b) == pytest.approx(exact, abs=1e-3)
    assert (a < b) == (exact[0] < exact[1])


@pytest.mark.parametrize("name", ["llama", "pad is eos", "learned positions", "mistral, sliding"])
def test_generation_with_a_shared_cache_equals_generation_without(tiny, name):
    folder = tiny.of(ARCHITECTURES[name])
    local = load(folder)
    template = ChatTemplate(local.tokenizer)
    questions = ("Dinner?", "What is for dinner tonight?", "Dinner?", "Lunch or supper?")
    sequences = [template.prompt(conversation(q)) for q in questions]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    expected = []
    for ids in sequences:
        tokens = torch.tensor([list(ids)])
        for _ in range(12):
            with torch.inference_mode():
                best = model(tokens).logits[0, -1].argmax()
            tokens = torch.cat([tokens, best.view(1, 1)], dim=1)
            if int(best) == EOS:
                break
        made = tokens[0, len(ids) :].tolist()
        text = local.tokenizer.decode(made, skip_special_tokens=True)
        expected.append((text, EOS not in made))
    assert len({text for text, _ in expected}) > 1
    for route in (local.read_mode, DENSE):
        local.read_mode = route
        found = {k: (text, cut_off) for k, text, cut_off in generate(local, sequences, 12)}
        assert [found[k] for k in range(4)] == expected


def test_a_reply_that_ends_by_itself_is_not_cut_off(tiny):
    local = load(tiny.model())
    ids = ChatTemplate(local.tokenizer).prompt(conversation())
    ((_, text, cut_off),) = generate(local, [ids], 4)
    assert cut_off
    first = local.tokenizer(text, add_special_tokens=False)["input_ids"][0]
    local.model.generation_config.eos_token_id = [first, EOS]
    ((_, _, cut_off),) = generate(local, [ids], 4)
    assert not cut_off


def test_generation_leaves_the_number_of_threads_as_it_was(tiny):
    local = load(tiny.model())
    before = 2
    torch.set_num_threads(before)
    ids = ChatTemplate(local.tokenizer).prompt(conversation())
    for _ in generate(local, [ids, ids], 2):
        pass
    after = torch.get_num_threads()
    torch.set_num_threads(1)
    assert after == before


FULL = (
    "CUDA out of memory. Tried to allocate 2 GiB",
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
)


@pytest.mark.parametrize("said", FULL)
@pytest.mark.parametrize("route", [None, DENSE])
def test_out_of_memory_halves_the_batch_says_so_and_changes_no_score(
    tiny, monkeypatch, caplog, said, route
):
    local = load(tiny.model())
    local.read_mode = route or local.read_mode
    encoded = encode(local)
    expected = log_probabilities(local, encoded)
    longest = max(len(e.ids) for e in encoded)
    own = local.model.base_model.forward

    def small(*args, **kwargs):
        if kwargs["input_ids"].numel() > longest:
            raise RuntimeError(said)
        return own(*args, **kwargs)

    monkeypatch.setattr(local.model.base_model, "forward", small)
    assert_close(log_probabilities(local, encoded), expected)
    assert local.budget < 4096
    assert f"out of memory; going on with {local.budget} tokens at a time" in caplog.messages[-1]


def test_without_memory_for_a_few_tokens_it_is_one_clear_line(tiny, monkeypatch):
    local = load(tiny.model())
    encoded = encode(local)
    _ = local.head  # asked of the model once

    def full(*args, **kwargs):
        raise RuntimeError(FULL[0])

    monkeypatch.setattr(local.model.base_model, "forward", full)
    with pytest.raises(ResourceError, match="out of memory at 64 tokens a batch"):
        log_probabilities(local, encoded)
    monkeypatch.setattr(local.model, "forward", full)
    with pytest.raises(ResourceError, match="out of memory while writing"):
        list(generate(local, [e.ids for e in encoded], 2))


def test_an_error_that_is_not_about_memory_is_not_renamed(tiny, monkeypatch):
    local = load(tiny.model())
    encoded = encode(local)

    def broken(*args, **kwargs):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(local.model.base_model, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        log_probabilities(local, encoded)


def test_a_classifier_is_no_language_model(tiny):
    # Its language-model head would be drawn at random, and the scores with it.
    with pytest.raises(ModelError, match=r"lack lm_head\.weight; this is no language model"):
        load(tiny.classifier())


def test_a_tied_model_lacks_nothing(tiny):
    load(tiny.model(tie_word_embeddings=True))


def test_one_model_is_held_at_a_time_and_a_folder_trained_anew_is_loaded_anew(tiny, tmp_path):
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny.model(), folder)
    reference = Reference.parse(str(folder))
    first = default_session().model(reference, "causal", Settings())
    assert default_session().model(reference, "causal", Settings()) is first
    with torch.no_grad():
        first.model.lm_head.weight.mul_(2)
    first.model.save_pretrained(folder)
    again = default_session().model(reference, "causal", Settings())
    assert again is not first
    assert torch.equal(again.model.lm_head.weight, first.model.lm_head.weight)


def test_the_window_is_the_shortest_declared_limit(tiny):
    local = load(tiny.model())
    assert local.window == 1024
    local.tokenizer.model_max_length = 77
    assert local.window == 77


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 200))
def test_batches_hold_each_position_once_within_the_budget(lengths, budget):
    made = list(padded(lengths, budget))
    assert sorted(k for batch in made for k in batch) == list(range(len(lengths)))
    for batch in made:
        widths = [lengths[k] for k in batch]
        assert len(batch) == 1 or max(widths) * len(batch) <= budget
        assert widths == sorted(widths, reverse=True)
    for batch, following in zip(made, made[1:], strict=False):  # none is cut earlier than it must
        assert max(lengths[k] for k in batch) * (len(batch) + 1) > budget
        assert lengths[batch[-1]] >= lengths[following[0]]


@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=30), st.integers(1, 300), st.integers(1, 4)
)
def test_loads_hold_each_group_once_and_keep_all_workers_busy(sizes, target, multiple):
    groups = [
        (k, [TokenSpan(list(range(1000 * k, 1000 * k + n)), 0, n)]) for k, n in enumerate(sizes)
    ]
    loads = cut(groups, target, multiple)
    assert sorted(k for load in loads for k, _ in load) == list(range(len(sizes)))
    tokens = [sum(sizes[k] for k, _ in load) for load in loads]
    assert tokens == sorted(tokens, reverse=True)
    assert all(n <= target + max(sizes) for n in tokens)


@pytest.mark.parametrize(
    ("sizes", "threads", "apart"),
    [
        ((10, 10), 2, 2),  # 10, against 11 on both threads
        ((10,), 2, 0),  # 10, against 5.5
        ((10, 10, 4), 2, 2),  # 10 + 2.2; three apart take 14, none 13.2
        ((10, 4), 1, 2),
    ],
)
def test_only_what_would_leave_threads_waiting_is_read_on_all(sizes, threads, apart):
    loads = [[(k, [TokenSpan([k] * size, 0, size)])] for k, size in enumerate(sizes)]
    assert loads_apart(loads, threads) == apart
    all_or_none = apart if apart in (0, len(sizes)) else 0
    assert loads_apart(loads, threads, all_alike=True) == all_or_none
