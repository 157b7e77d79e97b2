"""Likelihoods from an endpoint that reads responses as prompts, against the same model here."""

from __future__ import annotations

import math

import pytest
import torch
import transformers

import palate
from endpoints import Loopback
from palate.benchmarks import load_benchmark
from palate.comparison import evaluate
from palate.errors import EndpointError, ModelError, SpecError, UsageError
from palate.records import Message, Settings
from palate.scorers import build_scorer
from palate.session import Session, default_session
from palate.specs import Spec
from tiny import change_json, make_slate

TOLERANCE = 1e-4
RESPONSES = ("Tea.", "Coffee, black, in a tin mug by the fire.", "Neither <|im_end|> it is late.")
SLATES = [
    make_slate(*RESPONSES, shown=("I roast my own beans.", "Tea is for when I am ill.")),
    make_slate("By train.", "By plane, if I must.", question="How do I get there?"),
]


class Server:
    """Models behind the two forms of request, each of which refuses the other's fields."""

    def __init__(self, form: str, **folders: str) -> None:
        self.form, self.spoilt = form, lambda entries: entries
        load = transformers.AutoModelForCausalLM.from_pretrained
        self.models = {
            name: load(folder, dtype=torch.float32).eval() for name, folder in folders.items()
        }

    def log_probabilities(self, name: str, ids: list[int]) -> list[float]:
        with torch.no_grad():
            logp = self.models[name](torch.tensor([ids])).logits[0].double().log_softmax(-1)
        return [float(logp[k - 1, ids[k]]) for k in range(1, len(ids))]

    def __call__(self, path: str, body: dict) -> tuple[int, object]:
        asked = {"prompt_logprobs": 0} if self.form == "prompt_logprobs" else {}
        asked = {"echo": True, "logprobs": 1} if self.form == "echo" else asked
        common = {"model", "prompt", "max_tokens", "temperature"}
        if path != "/v1/completions" or {k: body[k] for k in body if k not in common} != asked:
            return 400, {"error": {"message": "unexpected field", "code": "bad_request"}}
        ids = body["prompt"]
        assert body["max_tokens"] == 1 and all(type(i) is int for i in ids)
        values = self.log_probabilities(body["model"], ids)
        if self.form == "prompt_logprobs":
            entries: list = [None]
            for k, (token, value) in enumerate(zip(ids[1:], values, strict=True)):
                entries.append({str(token): {"logprob": value, "rank": k, "decoded_token": "x"}})
            choice = {"prompt_logprobs": self.spoilt(entries)}
        else:
            choice = {"logprobs": {"token_logprobs": self.spoilt([None, *values, -1.0])}}
        used = {"prompt_tokens": len(ids), "completion_tokens": 1}
        return 200, {"choices": [{"index": 0, "text": "x", **choice}], "usage": used}


@pytest.fixture
def folder(tiny):
    return tiny.model()


def spec_of(kind, url, folder, model="m", **options):
    at = {"base_url": f"{url}/v1", "tokenizer": folder, **options}
    return str(Spec(kind=kind, reference=f"api:{model}", options=at))


def scored(spec, session=None):
    return dict(build_scorer(spec, session or default_session()).score(SLATES))


def close(remote, local):
    assert remote.keys() == local.keys()
    for k, scores in local.items():
        assert remote[k].values == pytest.approx(scores.values, abs=TOLERANCE)
        assert remote[k].reasons == scores.reasons


@pytest.mark.parametrize("form", ["prompt_logprobs", "echo"])
@pytest.mark.parametrize("kind", ["likelihood", "lift", "autoregressive"])
def test_the_numbers_are_those_of_the_same_model_here(folder, form, kind):
    with Loopback(Server(form, m=folder)) as there:
        remote = scored(spec_of(kind, there.url, folder, form=form, concurrency="3"))
    close(remote, scored(f"{kind}:{folder}"))
    responses = sum(len(slate.candidates) for slate in SLATES)
    read = {"likelihood": responses, "autoregressive": responses, "lift": 3 + 3}[kind]
    assert len(there.seen) == 1 + read, "a probe, and one request a response and a reading"


def test_implicit_reads_policy_and_reference_from_endpoints_or_from_here(tiny, folder):
    base = tiny.model(initializer_range=0.5)
    expected = scored(f"implicit:{folder}?reference={base}&beta=0.5")
    with Loopback(Server("prompt_logprobs", dpo=folder, sft=base)) as there:
        start = spec_of("x", there.url, folder, "sft", concurrency="2").removeprefix("x:")
        same_server = spec_of("implicit", there.url, folder, "dpo", reference="api:sft", beta="0.5")
        policy_here = Spec(
            kind="implicit", reference=folder, options={"reference": start, "beta": "0.5"}
        )
        specs = [
            same_server,
            str(policy_here),
            spec_of("implicit", there.url, folder, "dpo", reference=base, beta="0.5"),
        ]
        for spec in specs:
            close(scored(spec), expected)
        assert "concurrency" not in build_scorer(specs[1], default_session()).canonical


@pytest.mark.parametrize("kind", ["likelihood", "lift", "implicit"])
def test_another_model_that_answers_is_a_note_of_the_run(folder, kind):
    server = Server("prompt_logprobs", m=folder)

    def answer(path, body):
        status, reply = server(path, body)
        return status, {**reply, "model": "other"}

    more = {"reference": folder} if kind == "implicit" else {}
    with Loopback(answer) as there, Session() as session:
        spec = spec_of(kind, there.url, folder, **more)
        pairs = load_benchmark("tasting", limit=2)
        notes = evaluate(pairs, spec, "profile:1", root=None, session=session).summary.notes
    assert [note for note in notes if "asked" in note] == ["m was asked, and other answered"]


def test_a_policy_behind_an_endpoint_is_tilted(folder):
    with Loopback(Server("prompt_logprobs", m=folder)) as there:
        api = spec_of("x", there.url, folder, concurrency="2").removeprefix("x:")

        def policy(reference):
            return str(Spec(kind="policy", reference=reference, options={"guide": "longest"}))

        remote, local = scored(policy(api)), scored(policy(folder))
        close(remote, local)
        assert "concurrency" not in build_scorer(policy(api), default_session()).canonical
        pairs = load_benchmark("tasting", limit=2)
        results = [
            palate.policy_accuracy(pairs, reference, "longest", "none", root=None)
            for reference in (api, folder)
        ]
    first, second = (result.values for result in results)
    assert first == pytest.approx(second, abs=1e-3)


def test_replies_are_kept_costs_counted_and_a_finished_run_asks_nothing(folder, tmp_path):
    pairs = load_benchmark("tasting", limit=2)
    with Loopback(Server("prompt_logprobs", m=folder)) as there:
        for cost in ({"concurrency": "1"}, {"price_in": "2", "price_out": "0"}):
            spec = spec_of("likelihood", there.url, folder, **cost)
            session = Session(cache=tmp_path / "cache", max_cost=1 if "price_in" in cost else None)
            run = evaluate(pairs, spec, "none", root=tmp_path / f"{len(cost)}", session=session)
            assert run.summary.unscored == 0
            asked = len(there.seen)
        assert session.ledger.cached == asked, "the second session paid nothing"
        evaluate(pairs, spec, "none", root=tmp_path / "2", session=Session())
        assert len(there.seen) == asked
    local = evaluate(pairs, f"likelihood:{folder}", "none", root=None)
    assert run.verdicts.margins == pytest.approx(local.verdicts.margins, abs=TOLERANCE)
    manifest = (run.folder / "manifest.json").read_text()
    assert run.summary.scorer.startswith("likelihood:api:m?base_url=")
    assert "price_in" not in manifest and f"{there.url}/v1" in manifest


def test_a_server_without_such_numbers_is_refused_by_one_request(folder):
    cases = [
        ("prompt_logprobs", lambda path, body: (200, {"choices": [{"text": "x"}]}), "no prompt_lo"),
        ("echo", lambda path, body: (200, {"choices": [{"logprobs": None}]}), "has no logprobs"),
        (
            "echo",
            lambda path, body: (200, {"choices": [{"logprobs": {"token_logprobs": [-1.0]}}]}),
            "1 tokens, not of 2",
        ),
        ("prompt_logprobs", Server("echo", m=folder), "HTTP 400"),
        ("echo", Server("prompt_logprobs", m=folder), "HTTP 400"),
    ]
    for form, answer, lacks in cases:
        with Loopback(answer) as there, pytest.raises(EndpointError, match=lacks) as caught:
            scored(spec_of("likelihood", there.url, folder, form=form))
        assert len(there.seen) == 1
        assert caught.value.exit_code == 3
        assert "\n" not in str(caught.value) and "model m gives no log-prob" in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda entries: entries[:3] + [None] * len(entries[3:]), "lacks the log-probability"),
        (lambda entries: [entries[0], *entries], "tokens, not of"),
        (lambda entries: entries[:-1], "tokens, not of"),
        (lambda entries: [*entries[:-1], {"7": {"logprob": -1.0}}], "lacks the log-probability"),
        (lambda entries: [*entries[:-1], _logit(entries[-1])], "above 0"),
        (lambda entries: [*entries[:-1], _floor(entries[-1])], None),
    ],
)
def test_a_reply_that_cannot_be_read_is_unscored_with_its_reason(folder, spoil, reason):
    server = Server("prompt_logprobs", m=folder)
    server.spoilt = lambda entries: spoil(entries) if len(entries) > 2 else entries
    with Loopback(server) as there:
        found = scored(spec_of("likelihood", there.url, folder))
        run = evaluate(
            load_benchmark("tasting", limit=1),
            spec_of("likelihood", there.url, folder),
            "none",
            root=None,
        )
    if reason is None:  # vLLM's floor stands for minus infinity, as it would come here
        assert all(value == -math.inf for scores in found.values() for value in scores.values)
        assert run.summary.unscored_reasons == {"no finite number": run.summary.unscored}
        return
    assert run.summary.unscored == run.summary.n_pairs
    for scores in found.values():
        assert set(scores.values) == {None}
        assert all(reason in text for text in scores.reasons)
        assert not scores.outage


def _logit(entry):
    return {token: {**value, "logprob": 3.5} for token, value in entry.items()}


def _floor(entry):
    return {token: {**value, "logprob": -9999.0} for token, value in entry.items()}


def test_what_is_longer_than_the_window_is_not_sent(tiny, folder, tmp_path):
    import shutil

    short = tmp_path / "short"
    shutil.copytree(folder, short)
    change_json(short / "config.json", max_position_embeddings=130)
    slate = make_slate("Tea.", "Coffee and " * 60, shown=["I roast.", "beans " * 90])
    with Loopback(Server("prompt_logprobs", m=folder)) as there:
        scorer = build_scorer(spec_of("likelihood", there.url, str(short)), default_session())
        ((_, found),) = scorer.score([slate])
        ((_, nothing),) = scorer.score([make_slate("Coffee and " * 60)])
    assert scorer.prepare(slate).slate.shown == slate.shown[:1]
    ((_, local),) = build_scorer(f"likelihood:{short}", default_session()).score([slate])
    assert found.values == pytest.approx(local.values, abs=TOLERANCE)
    assert found.reasons == (None, "too long") and nothing.reasons == ("too long",)
    assert max(len(body["prompt"]) for _, body in there.seen) < 130


def test_what_a_spec_lacks_is_named(tiny, folder):
    url, other = "http://127.0.0.1:9", tiny.model(template="{{ messages }}")
    for text, told, error in [
        (f"likelihood:api:m?base_url={url}", "tokenizer=ORG/MODEL", SpecError),
        (f"likelihood:api:m?tokenizer={folder}", "needs .base_url=", SpecError),
        (spec_of("likelihood", url, folder, form="x"), "not one of prompt_logprobs", SpecError),
        (spec_of("lift", url, folder, verdict="text"), "unknown option 'verdict'", SpecError),
        (f"likelihood:{folder}?base_url={url}", "is an option of endpoints", SpecError),
        (spec_of("likelihood", url, "api:m"), "an endpoint has no tokenizer", ModelError),
        (
            spec_of(
                "implicit", url, folder, reference=f"api:sft?base_url={url}/v1&tokenizer={other}"
            ),
            "make other tokens",
            ModelError,
        ),
    ]:
        with pytest.raises(error, match=told) as caught:
            build_scorer(text, default_session())
        assert "\n" not in str(caught.value)
    guide = build_scorer(spec_of("likelihood", url, folder), default_session()).token_guide()
    with pytest.raises(UsageError, match="an endpoint gives no log-probabilities of every next"):
        _ = guide.models


def test_an_outage_of_the_probe_leaves_rows_to_be_asked_again(folder):
    with Loopback(lambda path, body: (503, {})) as there:
        found = scored(spec_of("likelihood", there.url, folder, retries="0"))
    assert all(scores.outage and set(scores.values) == {None} for scores in found.values())


def test_a_language_model_gives_log_probabilities_where_its_tokenizer_is_named(folder):
    settings = Settings(dtype="float32")
    prompt = (Message(role="user", content="Tea?"),)
    asked = [(prompt, ["Yes, please.", "No."]), (prompt, ["Coffee."])]
    with Loopback(Server("prompt_logprobs", m=folder)) as there, Session() as session:
        text = f"api:m?base_url={there.url}/v1&tokenizer={folder}"
        model = session.language_model(text, settings, {"tokenizer", "form"})
        assert model.supports("log_probabilities") and model.reader is None
        remote = dict(model.log_probabilities(asked))
        local = dict(session.language_model(folder, settings).log_probabilities(asked))
        with pytest.raises(SpecError, match="unknown option 'tokenizer'"):
            session.language_model(text, settings)
    for k, responses in local.items():
        for ours, theirs in zip(remote[k], responses, strict=True):
            assert torch.allclose(ours, theirs, atol=TOLERANCE)
