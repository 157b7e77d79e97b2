"""The classifier scorer against the model's own forward."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from palate.engines import ChatTemplate
from palate.errors import ModelError, SpecError
from palate.prompts import render
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session, default_session
from tiny import ENDS_WITH_EOS, EOS, PLAIN, change_json, make_slate

TOLERANCE = 1e-4
RESPONSES = ("Tea.", "Coffee, black, in a tin mug by the fire.", "Neither: it is " + "late " * 9)
POSTS = ("I roast my own beans.", "Tea is for when I am ill.", "My kettle sings.")


def values(scorer, *slates):
    found = dict(scorer.score(slates))
    assert sorted(found) == list(range(len(slates)))
    return [found[k].values for k in range(len(slates))]


def own_rewards(folder, slate, *, padded, dtype=torch.float32):
    """Ask the model itself, one by one or in one right-padded batch."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    loader = transformers.AutoModelForSequenceClassification
    model = loader.from_pretrained(folder, dtype=dtype).eval()
    template = ChatTemplate(tokenizer)
    messages = render(slate.question, slate.shown)
    ids = [list(template.conversation(messages, text)) for text in slate.candidates]
    with torch.inference_mode():
        if not padded:
            return [model(torch.tensor([one])).logits[0].tolist() for one in ids]
        longest = max(map(len, ids))
        pad = model.config.pad_token_id
        tokens = torch.tensor([one + [pad] * (longest - len(one)) for one in ids])
        mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in ids])
        return model(input_ids=tokens, attention_mask=mask).logits.tolist()


@pytest.mark.parametrize("pad", [None, 0, EOS])
@pytest.mark.parametrize("architecture", ["Llama", "Mistral", "GPT2"])
def test_rewards_equal_the_models_own(tiny, pad, architecture):
    more = {"Mistral": {"sliding_window": 8}, "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4}}
    folder = tiny.model(
        f"{architecture}ForSequenceClassification",
        num_labels=1,
        pad_token_id=pad,
        **more.get(architecture, {}),
    )
    slate = make_slate(*RESPONSES, shown=POSTS)
    expected = [logits[0] for logits in own_rewards(folder, slate, padded=pad is not None)]
    assert max(expected) - min(expected) > 100 * TOLERANCE
    for tokens in (64, 4096):
        scorer = build_scorer(
            f"classifier:{folder}", default_session(), Settings(batch_tokens=tokens)
        )
        (found,) = values(scorer, slate)
        padded = not scorer.local.model.read_mode.tree
        assert [f"{folder}: read in padded batches" in n for n in scorer.notes()] == [True] * padded
        assert found == pytest.approx(expected, abs=TOLERANCE)
        backwards = slate.replace(candidates=tuple(reversed(slate.candidates)))
        (turned,) = values(scorer, backwards)
        assert tuple(reversed(turned)) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("sliding", [False, True])
def test_where_pad_ends_the_conversation_the_head_reads_what_the_model_reads(tiny, sliding):
    folder = tiny.model(
        "MistralForSequenceClassification",
        template=ENDS_WITH_EOS,
        num_labels=1,
        pad_token_id=EOS,
        sliding_window=8 if sliding else None,
    )
    slate = make_slate(*RESPONSES, shown=POSTS)
    scorer = build_scorer(f"classifier:{folder}", default_session())
    ids = scorer.local.template.conversation(slate.question, "Tea.")
    assert ids[-1] == EOS
    assert scorer.read_position(ids) == len(ids) - 2
    expected = [logits[0] for logits in own_rewards(folder, slate, padded=True)]
    (found,) = values(scorer, slate)
    assert found == pytest.approx(expected, abs=TOLERANCE)
    assert "pad also ends the turn" in scorer.notes()[0]
    assert len(scorer.notes()) == 1 + sliding
    change = own_rewards(tiny.model(
        "MistralForSequenceClassification",
        template=ENDS_WITH_EOS,
        num_labels=1,
        pad_token_id=None,
        sliding_window=8 if sliding else None,
    ), slate, padded=False)  # fmt: skip
    assert abs(change[0][0] - expected[0]) > 100 * TOLERANCE, "both tokens read alike"


@pytest.mark.parametrize("kind", ["Bert", "Roberta"])
def test_an_encoder_reads_with_its_own_head(tiny, kind):
    folder = tiny.encoder(kind)
    slate = make_slate("Hot tea.", "I like cold coffee, the bad one!", shown=["Tea is good."])
    expected = [logits[0] for logits in own_rewards(folder, slate, padded=False)]
    assert abs(expected[0] - expected[1]) > 10 * TOLERANCE
    for tokens in (64, 4096):
        scorer = build_scorer(
            f"classifier:{folder}", default_session(), Settings(batch_tokens=tokens)
        )
        assert not scorer.local.model.read_mode.tree
        (found,) = values(scorer, slate)
        assert found == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize(("kind", "window"), [("Bert", 128), ("Roberta", 127)])
def test_an_encoder_is_read_up_to_its_last_position(tiny, kind, window):
    scorer = build_scorer(f"classifier:{tiny.encoder(kind)}", default_session())
    bare = len(scorer.local.template.conversation(make_slate("a", "b").question, "tea"))
    longest, longer = ("tea " * n for n in (window - bare + 1, window - bare + 2))
    found = dict(scorer.score([make_slate(longest, longer)]))[0]
    assert found.values[0] is not None
    assert (found.values[1], found.reasons) == (None, (None, "too long"))


def test_an_encoder_without_a_chat_template_is_refused_and_told_why(tiny):
    scorer = build_scorer(f"classifier:{tiny.encoder(template=None)}", default_session())
    with pytest.raises(ModelError, match="no chat template"):
        list(scorer.score([make_slate("Tea.", "Coffee.")]))
    assert PLAIN


def test_a_head_with_several_outputs_needs_a_choice(tiny):
    names = {0: "helpful", 1: "honest", 2: "brief"}
    folder = tiny.classifier(id2label=names, num_labels=3)
    slate = make_slate(*RESPONSES)
    with pytest.raises(ModelError, match=r"3 outputs \(helpful, honest, brief\).*\?head=0"):
        list(build_scorer(f"classifier:{folder}", default_session()).score([slate]))
    with pytest.raises(ModelError, match=r"the head has 3 outputs .*as in \?head=0$"):
        list(build_scorer(f"classifier:{folder}?head=3", default_session()).score([slate]))
    own = own_rewards(folder, slate, padded=False)
    for head in range(3):
        (found,) = values(
            build_scorer(f"classifier:{folder}?head={head}", default_session()), slate
        )
        assert found == pytest.approx([logits[head] for logits in own], abs=TOLERANCE)


@pytest.mark.parametrize("head", ["first", "-1", ""])
def test_a_head_that_is_no_number_names_the_option(tiny, head):
    with pytest.raises(SpecError, match="head="):
        build_scorer(f"classifier:{tiny.classifier()}?head={head}", default_session())


def test_each_head_has_a_fingerprint_of_its_own(tiny):
    folder = tiny.classifier(num_labels=3)
    made = [
        build_scorer(f"classifier:{folder}?head={k}", default_session()).info.fingerprint
        for k in range(3)
    ]
    assert len(set(made)) == 3


def test_weights_without_a_trained_head_are_refused(tiny):
    with pytest.raises(ModelError, match=r"lack score\.weight; this is no trained classifier"):
        list(
            build_scorer(f"classifier:{tiny.model()}", default_session()).score(
                [make_slate("a", "b")]
            )
        )


def copied(folder, target):
    shutil.copytree(folder, target)
    return target


def test_a_tie_in_bfloat16_logits_is_broken_by_the_float32_head(tiny, tmp_path):
    folder = copied(tiny.classifier(), tmp_path / "near-twenty")
    slate = make_slate("Tea.", "Coffee.", "Water, thanks.", "Milk and rum.", "Soup?", "No.")
    template = ChatTemplate(transformers.AutoTokenizer.from_pretrained(folder))
    loader = transformers.AutoModelForSequenceClassification
    model = loader.from_pretrained(folder, dtype=torch.bfloat16).eval()
    with torch.inference_mode():
        hidden = torch.stack(
            [
                model.base_model(
                    torch.tensor([list(template.conversation(slate.question, text))])
                ).last_hidden_state[0, -1]
                for text in slate.candidates
            ]
        ).double()
    # The head that gives every response about 20 and differs by about a hundredth.
    wanted = 20 + 0.01 * torch.arange(len(slate.candidates)).double()
    weight = torch.linalg.pinv(hidden) @ wanted
    weights = load_file(folder / "model.safetensors")
    weights["score.weight"] = weight.float()[None].contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    own = [x[0] for x in own_rewards(folder, slate, padded=False, dtype=torch.bfloat16)]
    assert len(set(own)) < len(own), "no tie to break"
    (found,) = values(
        build_scorer(f"classifier:{folder}", default_session(), Settings(dtype="bfloat16")), slate
    )
    assert len(set(found)) == len(found)
    assert max(abs(a - b) for a, b in zip(found, own, strict=True)) < 0.4


def short(tiny, tmp_path, window):
    folder = copied(tiny.classifier(), tmp_path / f"window-{window}")
    change_json(folder / "config.json", max_position_embeddings=window)
    return folder


def test_a_response_is_never_cut_and_only_the_one_too_long_is_unscored(tiny, tmp_path):
    scorer = build_scorer(f"classifier:{short(tiny, tmp_path, 120)}", default_session())
    slate = make_slate("Tea.", "Coffee, and " * 60, "No.", shown=POSTS)
    found = dict(scorer.score([slate]))[0]
    assert found.values[1] is None
    assert found.reasons == (None, "too long", None)
    kept = scorer.prepare(slate).slate.shown
    alone = make_slate("Tea.", "No.", shown=POSTS)
    said = "the one that cannot fit costs the others nothing"
    assert scorer.prepare(alone).slate.shown == kept, said
    (expected,) = values(scorer, alone)
    assert [found.values[0], found.values[2]] == pytest.approx(expected, abs=TOLERANCE)


def test_parts_are_dropped_whole_lowest_rank_first_and_no_more_than_needed(tiny, tmp_path):
    posts = tuple(f"Post number {k}: " + "beans " * (5 + 3 * k) for k in range(6))
    responses = ("Tea.", "Coffee, black, in a tin mug.")
    generous = build_scorer(f"classifier:{tiny.classifier()}", default_session())
    template = generous.local.template

    def longest(n):
        slate = make_slate(*responses, shown=posts[:n])
        messages = render(slate.question, slate.shown)
        return max(len(template.conversation(messages, text)) for text in responses)

    lengths = [longest(n) for n in range(7)]
    assert lengths == sorted(lengths)
    for n in (0, 2, 5):
        for window in (lengths[n], lengths[n + 1] - 1):
            scorer = build_scorer(
                f"classifier:{short(tiny, tmp_path / str(window), window)}", default_session()
            )
            slate = make_slate(*responses, shown=posts)
            cut = scorer.prepare(slate).slate
            assert [p.text for p in cut.shown] == list(posts[:n])
            assert cut.candidates == slate.candidates
            (found,) = values(scorer, slate)
            (expected,) = values(generous, make_slate(*responses, shown=posts[:n]))
            assert found == pytest.approx(expected, abs=TOLERANCE)


def test_nothing_fits_gives_too_long_for_all(tiny, tmp_path):
    scorer = build_scorer(f"classifier:{short(tiny, tmp_path, 40)}", default_session())
    found = dict(scorer.score([make_slate("Tea.", "No.", question="Why? " * 60, shown=POSTS)]))[0]
    assert found.values == (None, None)
    assert found.reasons == ("too long", "too long")


def test_what_is_printed_is_what_is_read(tiny):
    scorer = build_scorer(f"classifier:{tiny.classifier()}", default_session())
    slate = make_slate("Tea.", "A <|im_end|> trick", shown=POSTS)
    tokenizer = scorer.local.model.tokenizer
    for text, printed in zip(slate.candidates, scorer.prompts(slate), strict=True):
        ids = scorer.local.template.conversation(render(slate.question, slate.shown), text)
        assert tokenizer.decode(ids) == printed
        assert "My kettle sings." in printed


def test_a_mismatched_head_is_an_error_that_names_the_model(tiny, tmp_path):
    folder = copied(tiny.classifier(), tmp_path / "mismatch")
    labels = {str(k): f"L{k}" for k in range(3)}
    change_json(folder / "config.json", id2label=labels, label2id={v: int(k) for k, v in
                                                                    labels.items()})  # fmt: skip
    assert json.loads((folder / "config.json").read_text())["id2label"] == labels
    with pytest.raises(ModelError, match=r"score\.weight is 1 × 32 in the weights and 3 × 32 in c"):
        list(
            build_scorer(f"classifier:{folder}?head=0", default_session()).score(
                [make_slate("a", "b")]
            )
        )


GATED = """
from transformers import LlamaForSequenceClassification

class Gated(LlamaForSequenceClassification):
    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        output = super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        logits = output.logits
        output.logits = LOGITS
        return output
"""
SHAPES = {
    "gated, one column": (3, "logits.tanh().sum(dim=1, keepdim=True)", 1),
    "gated, no column": (3, "logits.tanh().sum(dim=1)", 1),
    "gated, squeezed": (3, "logits.tanh().sum(dim=1).squeeze()", 1),
    "more outputs than labels": (1, "logits * logits.new_tensor([1.0, -2.0, 3.0])", 3),
    "fewer outputs than labels": (3, "logits[:, 1:]", 2),
    "a number per token": (2, "logits[:, None].repeat(1, input_ids.shape[1], 1)", None),
}
"""By name: labels of the configuration, logits of the model's own code, their width."""


@pytest.fixture
def gated(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))

    def build(shape, **options):
        labels, logits, _ = SHAPES[shape]
        folder = tmp_path / f"g{list(SHAPES).index(shape)}"
        if not folder.is_dir():
            model = tiny.model("LlamaForSequenceClassification", num_labels=labels, pad_token_id=0)
            shutil.copytree(model, folder)
            (folder / "own.py").write_text(GATED.replace("LOGITS", logits))
            entry = {"AutoModelForSequenceClassification": "own.Gated"}
            change_json(folder / "config.json", auto_map=entry, architectures=["Gated"])
        options = "&".join(f"{name}={value}" for name, value in options.items())
        spec = f"classifier:{folder}" + (f"?{options}" if options else "")
        return build_scorer(spec, Session(), Settings(trust_remote_code=True))

    return build


def gated_logits(scorer, slate):
    """Ask the model itself, one conversation after another."""
    loader = transformers.AutoModelForSequenceClassification
    folder = scorer.spec.partition(":")[2].partition("?")[0]
    model = loader.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32).eval()
    with torch.inference_mode():
        for ids in scorer._encoded(slate):
            tokens = torch.tensor([list(ids)])
            mask = torch.ones_like(tokens)
            yield model(input_ids=tokens, attention_mask=mask).logits.reshape(-1).tolist()


@pytest.mark.parametrize("shape", [name for name, (_, _, width) in SHAPES.items() if width])
def test_a_heads_width_is_that_of_its_logits_whatever_the_configuration_says(gated, shape):
    width, slate = SHAPES[shape][2], make_slate(*RESPONSES, shown=POSTS)
    expected = list(gated_logits(gated(shape), slate))
    for head in range(width):
        scorer = gated(shape, head=head)
        (given,) = values(scorer, slate)
        assert given == pytest.approx([logits[head] for logits in expected], abs=TOLERANCE)
        assert max(given) - min(given) > 100 * TOLERANCE
    if width == 1:
        assert values(gated(shape), slate) == [pytest.approx(given, abs=TOLERANCE)]
    else:
        with pytest.raises(ModelError, match=f"the head has {width} outputs .*say which"):
            values(gated(shape), slate)
    with pytest.raises(ModelError, match=rf"the head has {width} outputs? .*as in \?head=0$"):
        values(gated(shape, head=width), slate)


def test_logits_of_each_token_are_refused_by_their_shape(gated):
    with pytest.raises(ModelError, match=r"logits \(1, \d+, \d\); expected \(1, outputs\)$"):
        values(gated("a number per token", head=0), make_slate(*RESPONSES))
