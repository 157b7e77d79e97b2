"""What scorers offer to guide a policy: token by token, and prefix by prefix, it is their score."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from palate.engines import LocalModel, Member, ModelEnsemble, Reader
from palate.errors import UsageError
from palate.guidance import (
    CandidateRows,
    Candidates,
    FusedRows,
    Fusion,
    GuidedRow,
    Writing,
    prefix_guide,
    refuse_other_tokens,
    token_guide,
    weighted,
    write,
)
from palate.learning import STATE, UserStates, fit
from palate.records import Choice, Settings, user_key
from palate.scorers import build_scorer
from palate.session import default_session
from palate.specs import Reference
from policies import untrained
from tiny import ENDS_WITH_EOS, EOS, change_json, make_slate

SETTINGS = Settings(dtype="float32", device="cpu")
TOLERANCE = 1e-4
RESPONSES = ("Tea.", "Coffee, black, in a tin mug by the fire.", "Neither; it is late.")
POSTS = ("I roast my own beans.", "Tea is for when I am ill.")
ROOM = 64
SLATE = make_slate(*RESPONSES, shown=POSTS)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def policy(tiny, tmp_path_factory, cache):
    """A personal policy, and states of ann and bob far from everybody's."""
    made, _ = untrained(tiny, tmp_path_factory.mktemp("policies") / "p")
    offsets = np.random.default_rng(1).normal(size=(2, *made.generic.shape)).astype(np.float32)
    keys = (user_key("ann"), user_key("bob"))
    file = tmp_path_factory.mktemp("states") / "users.safetensors"
    UserStates(keys, {STATE: offsets}, made.fingerprint).save(file)
    return made.folder, file


def built(spec):
    return build_scorer(spec, default_session(), SETTINGS)


def scores(scorer, slate):
    return dict(scorer.score([slate]))[0].values


def summed(scorer, slate, *, closed=True):
    """Sum the rewards of each candidate's tokens, as rows of guided writing would read them."""
    guide, made = token_guide(scorer, "spec"), []
    with guide.in_place():
        reading = guide.read(slate, ROOM)
        template = guide.readers[0].template
        for text in slate.candidates:
            encoded = (template.closed if closed else template.continuation)(slate.question, text)
            ids = encoded.ids[encoded.start :]
            members = ModelEnsemble(
                [
                    Member(model, [prompt])
                    for model, prompt in zip(guide.models, reading.prompts, strict=True)
                ],
                len(ids),
            )
            total = 0.0
            for token in ids:
                parts = members.log_probabilities()
                total += float(weighted(guide.coefficients, parts)[0, token])
                members.advance([token])
            made.append(total)
    return made


def other(tiny):
    return tiny.model(rms_norm_eps=1e-2, num_hidden_layers=1)


@pytest.mark.parametrize(
    "spec",
    ["autoregressive:{one}", "autoregressive:{one}?beta=0.3", "implicit:{one}?reference={two}",
     "implicit:{one}?reference={two}&beta=0.1", "implicit:{one}?reference=none"],
)  # fmt: skip
@pytest.mark.parametrize("shown", [(), POSTS])
def test_rewards_of_tokens_sum_to_the_score(tiny, spec, shown):
    scorer = built(spec.format(one=tiny.model(), two=other(tiny)))
    slate = make_slate(*RESPONSES, shown=shown)
    made, expected = summed(scorer, slate), scores(scorer, slate)
    assert made == pytest.approx(expected, abs=TOLERANCE * 10, rel=TOLERANCE)
    assert max(expected) - min(expected) > 0.1


@pytest.mark.parametrize("kind", ["likelihood", "lift"])
def test_rewards_of_tokens_sum_to_the_score_times_the_length(tiny, kind):
    scorer = built(f"{kind}:{tiny.model()}")
    template = token_guide(scorer, "").readers[0].template
    encoded = [template.continuation(SLATE.question, text) for text in RESPONSES]
    lengths = [len(it.ids) - it.start for it in encoded]
    expected = [a * n for a, n in zip(scores(scorer, SLATE), lengths, strict=True)]
    made = summed(scorer, SLATE, closed=False)
    assert made == pytest.approx(expected, abs=TOLERANCE * 10, rel=TOLERANCE)


@pytest.mark.parametrize("more", ["", "&minus=prior", "&state=prior"])
@pytest.mark.parametrize("user", ["ann", "bob", "nobody", None])
def test_rewards_of_tokens_are_those_of_each_user(policy, more, user):
    folder, file = policy
    scorer = built(f"personal:{folder}?users={file}{more}")
    slate = SLATE.replace(user=user and user_key(user))
    expected = scores(scorer, slate)
    assert summed(scorer, slate) == pytest.approx(expected, abs=TOLERANCE)
    if user in ("ann", "bob") and more != "&state=prior":
        assert np.ptp(expected) > 10 * TOLERANCE


def test_what_a_guide_reads_is_cut_to_the_windows_of_all_of_its_models(tiny, tmp_path):
    short = tmp_path / "short"
    shutil.copytree(other(tiny), short)
    change_json(short / "config.json", max_position_embeddings=150)
    slate = make_slate("Tea.", "No.", shown=["beans " * 30, "tea " * 30])
    guide = token_guide(built(f"implicit:{tiny.model()}?reference={short}"), "")
    reading = guide.read(slate, 20)
    assert reading.dropped > 0
    assert len(reading.slate.shown) == 2 - reading.dropped
    assert all(len(ids) + 20 <= 150 for ids in reading.prompts)
    with pytest.raises(UsageError, match="smaller max_tokens"):
        guide.read(slate, 149)


CASES = [
    (None, None), (None, 0), (None, EOS),
    (ENDS_WITH_EOS, None), (ENDS_WITH_EOS, 0), (ENDS_WITH_EOS, EOS),
]  # fmt: skip


def walked(guide, writer, slate, text):
    """Return the guide's reward of every open prefix of a text, and of it closed after each."""
    template = guide.readers[0].template
    encoded = template.continuation(slate.question, text)
    ids = list(encoded.ids[encoded.start :])
    writer.model.generation_config.eos_token_id = [EOS]
    with guide.in_place(), torch.inference_mode():
        reading = guide.read(slate, ROOM)
        prompt = list(reading.prompts[0])
        rows = [GuidedRow(prompt, reading, 0)]
        stepper = CandidateRows(Candidates(1.0, 2), writer, guide, rows, ROOM)
        made = []
        for token in [*ids, ids[0]]:
            made.append(stepper.rewards(torch.tensor([[token, EOS]]))[0].tolist())
            stepper.prefixes.take([0])
    opened, closed = zip(*made, strict=True)
    return prompt, ids, opened[:-1], closed


@pytest.mark.parametrize(("template", "pad"), CASES)
@pytest.mark.parametrize("architecture", ["Llama", "Mistral"])
def test_a_classifiers_reward_of_a_prefix_is_its_heads(tiny, template, pad, architecture):
    config = {"sliding_window": 8} if architecture == "Mistral" else {}
    folder = tiny.model(
        f"{architecture}ForSequenceClassification", template=template, num_labels=1,
        pad_token_id=pad, **config,
    )  # fmt: skip
    scorer = built(f"classifier:{folder}")
    guide = prefix_guide(scorer, "spec")
    writer = LocalModel(Reader(Reference.parse(tiny.model(template=template)), SETTINGS), "causal")
    expected = scores(scorer, SLATE)
    text = RESPONSES[1]
    prompt, ids, opened, closed = walked(guide, writer, SLATE.replace(shown=()), text)
    with torch.inference_mode():
        model = scorer.local.model.model
        heads = [
            float(model.score(model.model(torch.tensor([prompt + ids[: n + 1]]))
                              .last_hidden_state[0, -1])[0])
            for n in range(len(ids))
        ]  # fmt: skip
    assert opened == pytest.approx(heads, abs=TOLERANCE, rel=TOLERANCE)
    texts = [guide.readers[0].tokenizer.decode(ids[:n]) for n in range(len(ids) + 1)]
    bare = SLATE.replace(shown=(), candidates=(text, texts[3]))
    assert closed[-1] == pytest.approx(scores(scorer, bare)[0], abs=TOLERANCE, rel=TOLERANCE)
    assert closed[3] == pytest.approx(scores(scorer, bare)[1], abs=TOLERANCE, rel=TOLERANCE)
    for text, score in zip(RESPONSES, expected, strict=True):
        *_, closed = walked(guide, writer, SLATE, text)
        assert closed[-1] == pytest.approx(score, abs=TOLERANCE, rel=TOLERANCE)


@pytest.fixture(scope="module", params=[None, ENDS_WITH_EOS])
def personal(request, tiny, tmp_path_factory, cache):
    """A personal reward model on a causal model's states, and that model."""
    base = tiny.model(template=request.param)
    history = {
        user: [Choice(question="Which?", chosen=RESPONSES[k], rejected=RESPONSES[1 - k])] * 2
        for user, k in (("ann", 0), ("bob", 1))
    }
    folder = tmp_path_factory.mktemp("personal")
    fit("user-heads", history, [base], default_session(), SETTINGS).save(folder)
    return built(f"personal:{folder}").adapted(history), base


@pytest.mark.parametrize("user", ["ann", "bob", "nobody"])
def test_a_personal_reward_of_a_prefix_is_that_of_the_user(personal, user):
    scorer, base = personal
    guide = prefix_guide(scorer, "spec")
    writer = LocalModel(Reader(Reference.parse(base), SETTINGS), "causal")
    slate = SLATE.replace(user=user_key(user))
    expected = scores(scorer, slate)
    assert user == "nobody" or np.ptp(expected) > 10 * TOLERANCE
    for text, score in zip(RESPONSES, expected, strict=True):
        prompt, ids, opened, closed = walked(guide, writer, slate, text)
        whole = [*prompt, *ids, *guide.closing]
        with torch.inference_mode():
            states = writer.model.model(torch.tensor([whole])).last_hidden_state[:, len(prompt) :]
        heads = guide.rewards(states, [slate])[0].tolist()
        assert opened == pytest.approx(heads[: len(ids)], abs=TOLERANCE, rel=TOLERANCE)
        assert closed[-1] == pytest.approx(heads[-1], abs=TOLERANCE, rel=TOLERANCE)
        # A score is of states that were stored in half precision.
        (stored,) = guide.rewards(states[:, -1:].half(), [slate])[0].tolist()
        assert stored == pytest.approx(score, abs=TOLERANCE, rel=TOLERANCE)
        assert closed[-1] == pytest.approx(score, abs=1e-3, rel=1e-3)


def test_a_question_is_read_before_any_token_is_rated(tiny, tmp_path, cache, monkeypatch):
    base = tiny.model(initializer_range=0.03)
    history = {
        user: [
            Choice(question=f"Which {n}?", chosen=RESPONSES[k], rejected=RESPONSES[1 - k])
            for n in range(3)
        ]
        for user, k in (("ann", 0), ("bob", 1))
    }
    fit("pal-b", history, [base], default_session(), SETTINGS).save(tmp_path)
    scorer = built(f"personal:{tmp_path}").adapted(history)
    guide, passes = prefix_guide(scorer, "spec"), []
    (model,) = guide.models
    read = guide.read(SLATE.replace(user=user_key("ann")), ROOM)
    monkeypatch.setattr(model, "hidden", passes.append)
    states = torch.randn(1, 3, model.model.config.hidden_size)
    assert guide.rewards(states, [read.slate]).shape == (1, 3)
    assert not passes, "its turn never comes in a thread that writes"


def test_who_cannot_guide_says_so(tiny):
    with pytest.raises(UsageError, match="rewards no single tokens; take palate decode with"):
        token_guide(built("longest"), "longest")
    with pytest.raises(UsageError, match="rewards no single tokens; take the method args"):
        token_guide(built(f"classifier:{tiny.classifier()}"), "classifier")
    with pytest.raises(UsageError, match="rates whole texts only"):
        prefix_guide(built(f"likelihood:{tiny.model()}"), "likelihood")
    encoder = built(f"classifier:{tiny.encoder()}")
    with pytest.raises(UsageError, match="rates whole texts only"):
        prefix_guide(encoder, "classifier")


def test_models_whose_tokens_mean_something_else_are_refused(tiny, tmp_path):
    session = default_session()
    one = session.reader(Reference.parse(tiny.model()), SETTINGS)
    refuse_other_tokens(one, token_guide(built(f"likelihood:{other(tiny)}"), ""), "spec")
    ended = tmp_path / "ended"
    shutil.copytree(other(tiny), ended)
    change_json(ended / "generation_config.json", eos_token_id=9)
    with pytest.raises(UsageError, match="have other end tokens"):
        refuse_other_tokens(one, token_guide(built(f"likelihood:{ended}"), ""), "spec")
    words = tmp_path / "words"
    shutil.copytree(other(tiny), words)
    tokenizer = json.loads((words / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    a, b = vocabulary["a"], vocabulary["b"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (words / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(UsageError, match=rf"\(id {a}: guide 'b', policy 'a'; id {b}"):
        refuse_other_tokens(one, token_guide(built(f"likelihood:{words}"), ""), "spec")


@pytest.mark.parametrize(("policy_ids", "guide_ids"), [(1024, 1100), (1100, 1024), (1024, 1000)])
def test_padding_rows_of_a_head_may_differ_and_tokens_may_not(tiny, policy_ids, guide_ids):
    # The tokenizer has 1024.
    local = build_scorer(f"likelihood:{tiny.model(vocab_size=policy_ids)}", default_session(),
                         SETTINGS).local.model  # fmt: skip
    policy = default_session().reader(local.reference, SETTINGS)
    assert policy.ids == 1024
    wide = {"vocab_size": guide_ids}
    terms = token_guide(built(f"autoregressive:{tiny.model(rms_norm_eps=0.1, **wide)}"), "")
    rater = prefix_guide(built(f"classifier:{tiny.classifier(**wide)}"), "")
    if guide_ids < 1024:
        for guide in (terms, rater):
            with pytest.raises(UsageError) as caught:
                refuse_other_tokens(policy, guide, "spec")
            assert "weights end at 1000 of 1024 tokens; resize its token emb" in str(caught.value)
            assert "\n" not in str(caught.value)
        return
    ids = policy.template.prompt(SLATE.question)
    for guide, kind, law in (
        (terms, FusedRows, Fusion(1.0, 1.0)),
        (rater, CandidateRows, Candidates(1.0, 1024)),
    ):
        refuse_other_tokens(policy, guide, "spec")
        with guide.in_place():
            rows = [GuidedRow(ids, guide.read(SLATE, ROOM), k) for k in range(8)]
            made = write(kind(law, local, guide, rows, ROOM), local, rows, Writing(6, 3.0))
        assert max(token for it in made for token in it.ids) < 1024
