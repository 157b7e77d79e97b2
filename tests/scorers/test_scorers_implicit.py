"""Rewards that policies stand for, against the models themselves."""

from __future__ import annotations

import shutil

import pytest
import torch
import transformers

from palate import evaluate
from palate.benchmarks import load_benchmark
from palate.errors import SpecError
from palate.prompts import render
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import default_session
from tiny import change_json, make_slate

TOLERANCE = 1e-3
RESPONSES = ("Tea.", "Coffee, black, in a tin mug by the fire.", "Neither; it is late.")
POSTS = ("I roast my own beans.", "Tea is for when I am ill.")


def summed(folder, slate):
    """Sum the log-probabilities of the closed turn's tokens after the prompt, model alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    turns = [{"role": m.role, "content": m.content} for m in render(slate.question, slate.shown)]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    n = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    found = []
    for text in slate.candidates:
        closed = [*turns, {"role": "assistant", "content": text}]
        whole = tokenizer.apply_chat_template(closed, tokenize=False)
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        found.append(sum(float(logp[k - 1, ids[k]]) for k in range(n, len(ids))))
    return found


def other(tiny):
    """Return a second policy over the same tokens."""
    return tiny.model(rms_norm_eps=1e-2, num_hidden_layers=1)


def scores(scorer, slate):
    return dict(scorer.score([slate]))[0]


def test_an_autoregressive_reward_is_the_sum_of_its_tokens(tiny):
    folder = tiny.model()
    slate = make_slate(*RESPONSES, shown=POSTS)
    expected = summed(folder, slate)
    assert scores(
        build_scorer(f"autoregressive:{folder}", default_session()), slate
    ).values == pytest.approx(expected, abs=TOLERANCE)
    halved = scores(build_scorer(f"autoregressive:{folder}?beta=0.5", default_session()), slate)
    assert halved.values == pytest.approx([v / 2 for v in expected], abs=TOLERANCE)


def test_an_implicit_reward_is_the_scaled_difference_from_the_reference(tiny):
    policy, reference = tiny.model(), other(tiny)
    slate = make_slate(*RESPONSES, shown=POSTS)
    pairs = zip(summed(policy, slate), summed(reference, slate), strict=True)
    found = scores(
        build_scorer(f"implicit:{policy}?reference={reference}&beta=0.1", default_session()), slate
    )
    expected = [0.1 * (a - b) for a, b in pairs]
    assert found.values == pytest.approx(expected, abs=TOLERANCE)
    assert max(expected) - min(expected) > 10 * TOLERANCE
    free = scores(build_scorer(f"implicit:{policy}?reference=none", default_session()), slate)
    assert free.values == pytest.approx(summed(policy, slate), abs=TOLERANCE)


def test_a_policy_that_is_its_reference_is_unscored_by_name(tiny):
    found = scores(
        build_scorer(f"implicit:{tiny.model()}?reference={tiny.model()}", default_session()),
        make_slate(*RESPONSES),
    )
    assert found.values == (None, None, None)
    assert set(found.reasons) == {
        "policy and reference give the same number: is it one model, or a lost adapter?"
    }


def test_a_margin_is_a_log_odds_only_where_beta_and_a_reference_are_given(tiny):
    one, two = tiny.model(), other(tiny)

    def log_odds(spec):
        return build_scorer(spec, default_session()).info.log_odds

    assert log_odds(f"implicit:{one}?reference={two}&beta=0.1")
    assert not log_odds(f"implicit:{one}?reference={two}")
    assert not log_odds(f"implicit:{one}?reference=none&beta=0.1")
    assert log_odds(f"autoregressive:{one}?beta=0.05")
    assert not log_odds(f"autoregressive:{one}")


def test_policy_and_reference_are_shown_the_same_even_if_one_window_is_shorter(tiny, tmp_path):
    short = tmp_path / "short"
    shutil.copytree(other(tiny), short)
    change_json(short / "config.json", max_position_embeddings=130)
    slate = make_slate(*RESPONSES, shown=["beans " * 30, "tea " * 30])
    scorer = build_scorer(f"implicit:{tiny.model()}?reference={short}", default_session())
    cut = scorer.prepare(slate).slate
    assert len(cut.shown) < 2
    assert all(part.scorer.prepare(slate).slate == cut for part in scorer.components)
    pairs = zip(summed(tiny.model(), cut), summed(short, cut), strict=True)
    expected = [a - b for a, b in pairs]
    assert scores(scorer, slate).values == pytest.approx(expected, abs=TOLERANCE)


def test_another_policy_reads_the_references_numbers_from_disk(tiny, tmp_path, monkeypatch):
    from palate.engines import LocalModel

    one, two, reference = tiny.model(), tiny.model(rms_norm_eps=1e-3), other(tiny)
    pairs = load_benchmark("tasting", limit=2)
    settings = Settings(dtype="float32")
    evaluate(
        pairs, f"implicit:{one}?reference={reference}", "none", root=tmp_path, settings=settings
    )
    loaded = []
    own = LocalModel.__init__

    def counted(self, reader, *given, **named):
        loaded.append(reader.reference.name)
        own(self, reader, *given, **named)

    monkeypatch.setattr(LocalModel, "__init__", counted)
    run = evaluate(
        pairs, f"implicit:{two}?reference={reference}", "none", root=tmp_path, settings=settings
    )
    assert run.summary.unscored == 0
    assert loaded == [two]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("implicit:./p", "needs what it was trained from"),
        ("implicit", "needs a reference"),
        ("implicit:./p?reference=none&beta=0", "not a number above 0"),
        ("implicit:./p?reference=none&beta=-1", "not a number above 0"),
        ("implicit:./p?reference=none&beta=nan", "not a number above 0"),
        ("autoregressive:./p?beta=x", "not a number above 0"),
        ("autoregressive:./p?gamma=1", "unknown option 'gamma'"),
    ],
)
def test_what_cannot_be_read_is_named(spec, said):
    with pytest.raises(SpecError, match=said):
        build_scorer(spec, default_session())


@pytest.mark.parametrize("rows", [1025, 1088])
@pytest.mark.parametrize("side", ["policy", "reference"])
def test_rows_that_one_of_the_two_has_alone_are_left_out_and_said(tiny, tmp_path, rows, side):
    wider = tmp_path / "wider"
    shutil.copytree(tiny.model(), wider)
    model = transformers.AutoModelForCausalLM.from_pretrained(wider, dtype=torch.float32)
    model.resize_token_embeddings(rows, mean_resizing=False)
    with torch.no_grad():
        model.get_output_embeddings().weight[1024:] = model.get_output_embeddings().weight[:1] * 3
    model.save_pretrained(wider)
    if rows == 1025:  # as training adds a pad
        tokenizer = transformers.AutoTokenizer.from_pretrained(wider)
        tokenizer.add_special_tokens({"pad_token": "[PAD]"})
        tokenizer.save_pretrained(wider)
    policy, reference = (wider, tiny.model()) if side == "policy" else (tiny.model(), wider)
    spec = f"implicit:{policy}?reference={reference}"
    scorer = build_scorer(spec, default_session(), Settings(device="cpu"))
    values = scores(scorer, make_slate(*RESPONSES, shown=POSTS)).values
    same = [value or 0.0 for value in values]  # None where they agree to the last bit
    assert same == pytest.approx([0.0] * 3, abs=TOLERANCE)
    (note,) = [it for it in scorer.info.notes if "rows" in it]
    assert f"{rows:,}" in note
    assert "1,024" in note
    alone = build_scorer(f"autoregressive:{wider}", default_session(), Settings(device="cpu"))
    assert alone.info.fingerprint not in {it.info.fingerprint for it in scorer.models}


def test_what_a_models_tokenizer_and_configuration_give_rise_to_is_a_note_of_the_scorer(
    tiny, tmp_path
):
    folder = tmp_path / "model"
    shutil.copytree(tiny.model(), folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(folder)
    change_json(folder / "config.json", zebra=3)
    spec = f"autoregressive:{folder}"
    kept = f"{folder}: config.json holds zebra, which LlamaConfig ignores"
    assert build_scorer(spec, default_session()).info.notes == (kept,)
    tokenizer.add_tokens(["<user>", "<answer>"])
    tokenizer.save_pretrained(folder)
    assert build_scorer(spec, default_session()).info.notes == (
        kept,
        f"{folder}: tokens beyond the 1024 rows of the model: '<user>' (1025), '<answer>' (1026)",
    )
