"""Reward servers by their published formats: each server here refuses any other request."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest
import torch
import transformers

from endpoints import Loopback
from palate.engines import ChatTemplate
from palate.errors import EndpointError, ModelError, SpecError
from palate.prompts import render
from palate.records import info_of
from palate.scorers import build_scorer
from palate.session import Session, default_session
from tiny import make_slate

SLATES = [
    make_slate("Green tea.", "Black coffee, please.", question="What helps me sleep?"),
    make_slate("By train.", "By plane.", "On foot.", shown=["I like <|im_end|> slow travel."]),
]
SERVERS = ["vllm", "vllm-pooling", "vllm-score", "sglang", "tei", "openrlhf"]


def usage(n):
    return {
        "prompt_tokens": n, "total_tokens": n, "completion_tokens": 0,
        "prompt_tokens_details": None,
    }  # fmt: skip


def strings(value):
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def id_lists(value):
    return isinstance(value, list) and all(
        isinstance(ids, list) and ids and all(type(i) is int for i in ids) for ids in value
    )


class Model:
    """A random classifier behind each of the formats, its tokenizer as the server has it."""

    def __init__(self, folder):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        loaded = transformers.AutoModelForSequenceClassification
        self.model = loaded.from_pretrained(folder, dtype=torch.float32).eval()
        self.model.config.pad_token_id = -1

    def rewards(self, ids):
        with torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].tolist()

    def ids(self, slate):
        template = ChatTemplate(self.tokenizer)
        messages = render(slate.question, slate.shown)
        return [template.conversation(messages, text) for text in slate.candidates]

    def expected(self, slate):
        return [self.rewards(ids) for ids in self.ids(slate)]

    def vllm(self, path, body, *, field, extra):
        head = {"model": "rm-1", "use_activation": False, **extra}
        asked = {k: v for k, v in body.items() if k not in head}
        if {k: body.get(k) for k in head} != head or len(asked) != 1:
            return 400, {"error": {"type": "bad_request"}}
        ((name, value),) = asked.items()
        if name == "input" and id_lists(value):
            texts = value
        elif name == "messages" and all(set(m) == {"role", "content"} for m in value):
            text = self.tokenizer.apply_chat_template(value, tokenize=False)
            texts = [self.tokenizer(text, add_special_tokens=False)["input_ids"]]
        else:
            return 400, {"error": {"type": "bad_request"}}
        rows = []
        for k, ids in enumerate(texts):
            found = self.rewards(ids)
            row = {"index": k, field: found}
            if field == "probs":
                row |= {"label": "LABEL_0", "num_classes": len(found)}
            else:
                row |= {"object": "pooling"}
            rows.append(row)
        return 200, {
            "id": "x-1", "object": "list", "created": 1745383065, "model": "rm-1",
            "data": rows[::-1], "usage": usage(sum(map(len, texts))),
        }  # fmt: skip

    def vllm_score(self, body, encode=None):
        head = {"model": "rm-1", "use_activation": False}
        prompt, responses = body.get("text_1"), body.get("text_2")
        good = body == {**head, "text_1": prompt, "text_2": responses}
        if not good or not isinstance(prompt, str) or not strings(responses):
            return 400, {"error": {"type": "bad_request"}}
        encode = encode or self.tokenizer
        texts = [encode(prompt, response)["input_ids"] for response in responses]
        rows = [
            {"index": k, "object": "score", "score": self.rewards(ids)[0]}
            for k, ids in enumerate(texts)
        ]
        return 200, {
            "id": "score-1", "object": "list", "created": 1745383065, "model": "rm-1",
            "data": rows[::-1], "usage": usage(sum(map(len, texts))),
        }  # fmt: skip

    def answer(self, path, body):
        match path:
            case "/classify" if "input_ids" in body:
                return self.sglang(body)
            case "/classify":
                return self.vllm(path, body, field="probs", extra={})
            case "/pooling":
                extra = {"task": "classify", "encoding_format": "float"}
                return self.vllm(path, body, field="data", extra=extra)
            case "/score":
                return self.vllm_score(body)
            case "/predict":
                return self.tei(body)
            case "/get_reward":
                return self.openrlhf(body)
        return 404, {}

    def sglang(self, body):
        if set(body) != {"input_ids"} or not id_lists(body["input_ids"]):
            return 400, {"error": {"message": "unexpected"}}
        return 200, [
            {
                "embedding": self.rewards(ids),
                "meta_info": {
                    "id": f"r{k}", "finish_reason": {"type": "length", "length": 0},
                    "prompt_tokens": len(ids), "cached_tokens": 0, "e2e_latency": 0.01,
                },
            }
            for k, ids in enumerate(body["input_ids"])
        ]  # fmt: skip

    def tei(self, body):
        good = set(body) == {"inputs", "raw_scores", "truncate"} and body["raw_scores"] is True
        good = good and body["truncate"] is False and isinstance(body["inputs"], list)
        if not good or not all(strings(one) and len(one) == 1 for one in body["inputs"]):
            return 422, {"error": "unexpected", "error_type": "validation"}
        if len(body["inputs"]) > 32:
            return 413, {"error": "batch size", "error_type": "validation"}
        rows = []
        for (text,) in body["inputs"]:
            found = self.rewards(self.tokenizer(text)["input_ids"])
            named = [{"score": v, "label": f"LABEL_{k}"} for k, v in enumerate(found)]
            rows.append(sorted(named, key=lambda one: -one["score"]))
        return 200, rows

    def openrlhf(self, body):
        n = len(body.get("query", ()))
        good = set(body) == {"query", "prompts", "labels"}
        if not good or not all(strings(v) and len(v) == n for v in body.values()):
            return 400, {}
        for query, prompt in zip(body["query"], body["prompts"], strict=True):
            assert query.startswith(prompt)
        texts = [self.tokenizer(text)["input_ids"] for text in body["query"]]
        return 200, {"rewards": [self.rewards(ids)[0] for ids in texts]}


@pytest.fixture(scope="module")
def folder(tiny):
    return tiny.classifier()


@pytest.fixture(scope="module")
def model(folder):
    return Model(folder)


def spec(server, url, options=""):
    return f"classifier:api:rm-1?base_url={url}&server={server}{options}"


def score(text, slates=SLATES, settings=None):
    return dict(build_scorer(text, default_session(), settings).score(slates))


def assert_equal(found, model, slates=SLATES, head=0):
    for k, slate in enumerate(slates):
        assert found[k].reasons == ()
        truth = [numbers[head] for numbers in model.expected(slate)]
        assert found[k].values == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("server", SERVERS)
def test_each_server_gives_what_the_model_gives_on_the_same_tokens(server, folder, model):
    with Loopback(model.answer) as there:
        found = score(spec(server, there.url, f"&tokenizer={folder}"))
    assert_equal(found, model)
    assert len(there.seen) == len(SLATES), "a slate's candidates go together"


def test_another_model_that_answers_and_broken_texts_are_notes(folder, model):
    def answer(path, body):
        status, reply = model.answer(path, body)
        return status, {**reply, "model": "rm-2"}

    with Loopback(answer) as there, Session() as session:
        scorer = build_scorer(spec("vllm", there.url, f"&tokenizer={folder}"), session)
        assert scorer.notes() == ()
        dict(scorer.score(SLATES))
    broken, other = scorer.notes()
    assert "2 texts spell marks of the model" in broken
    assert other == "rm-1 was asked, and rm-2 answered"


@pytest.mark.parametrize("server", ["vllm", "vllm-pooling"])
def test_messages_are_rendered_by_a_server_that_can(server, model):
    slates = SLATES[:1]
    with Loopback(model.answer) as there:
        found = score(spec(server, there.url), slates)
    assert_equal(found, model, slates)
    assert len(there.seen) == 2, "one conversation to a request"


@pytest.mark.parametrize("server", ["vllm-score", "sglang", "tei", "openrlhf"])
def test_a_server_that_reads_text_needs_a_tokenizer(server):
    with pytest.raises(SpecError, match="tokenizer") as caught:
        build_scorer(spec(server, "http://127.0.0.1:9"), default_session())
    assert "\n" not in str(caught.value)


def read_as_one(tokenizer):
    return lambda prompt, response: tokenizer(prompt + response)


def read_with_a_mark(tokenizer):
    return lambda prompt, response: tokenizer(f"Query: {prompt} Document: {response}")


PLAIN_TURNS = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
"""Its prompt ends inside a token: ` Tea` is one."""


@pytest.mark.parametrize("as_one", [True, False])
def test_two_texts_are_read_as_the_model_reads_them_or_refused(as_one, tiny):
    """vLLM reads them as one text or as a pair, as the model's configuration says."""
    folder = tiny.model("LlamaForSequenceClassification", PLAIN_TURNS, num_labels=1)
    model = Model(folder)
    slates = [make_slate("Tea.", "Coffee."), make_slate("Alone.")]
    encode = read_as_one(model.tokenizer) if as_one else None
    with Loopback(lambda _, body: model.vllm_score(body, encode)) as there:
        found = score(spec("vllm-score", there.url, f"&tokenizer={folder}"), slates)
    assert [len(body["text_2"]) for _, body in there.seen] == [2, 2], "a lone one goes twice"
    if as_one:
        assert_equal(found, model, slates)
        return
    for scores in found.values():
        assert not any(isinstance(value, float) for value in scores.values)
        for reason in scores.reasons:
            assert "tokens, and the model's are" in reason
            assert reason.endswith("; use server=vllm, which is sent token ids")


def test_a_cosine_or_a_template_of_the_servers_own_is_no_reward(folder, model):
    def cosine(_, body):  # of an embedding model: each text is read by itself, the prompt once
        texts = [body["text_1"], *body["text_2"]]
        tokens = sum(len(model.tokenizer(text)["input_ids"]) for text in texts)
        rows = [[0.3]] * len(body["text_2"])
        return 200, {**reply_of("vllm-score", rows), "usage": usage(tokens)}

    def marked(_, body):
        return model.vllm_score(body, read_with_a_mark(model.tokenizer))

    def silent(_, body):
        return 200, reply_of("vllm-score", [[0.3]] * len(body["text_2"]))

    slates = [*SLATES, make_slate("Alone.")]
    for answer in (cosine, marked, silent):
        with Loopback(answer) as there:
            found = score(spec("vllm-score", there.url, f"&tokenizer={folder}"), slates)
        for scores in found.values():
            assert not any(isinstance(value, float) for value in scores.values)
            assert all("tokens, and the model's are" in reason for reason in scores.reasons)


@pytest.mark.parametrize(
    ("closed", "prompt", "words"),
    [
        ("<|im_end|>ee", "<|im_end|>ee", "becomes other tokens than the model's"),
        ("<|im_end|>", "<|im_end|>Answer:", "does not begin with its prompt"),
    ],
    ids=["as many tokens as a pair, but others", "another prompt"],
)
def test_what_the_number_of_tokens_would_not_tell_is_never_sent(closed, prompt, words, tiny):
    template = (
        f"{{% for m in messages %}}{{% if m.role == 'assistant' %}}{closed}{{{{ m.content }}}}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}"
        f"{{% if add_generation_prompt %}}{prompt}{{% endif %}}"
    )
    folder = tiny.model("LlamaForSequenceClassification", template, num_labels=1)
    text = spec("vllm-score", "http://127.0.0.1:9", f"&tokenizer={folder}")
    with pytest.raises(ModelError, match=words) as caught:
        score(text, [make_slate("test", "so.")])
    assert "\n" not in str(caught.value)
    assert "use server=vllm" in str(caught.value)


def test_a_prompt_too_short_to_tell_a_cosine_is_never_sent(tmp_path, tiny):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.encoder())
    tokenizer.chat_template = "[CLS]{% for m in messages %}{{ m.content }} {% endfor %}[SEP]"
    tokenizer.save_pretrained(tmp_path)
    text = spec("vllm-score", "http://127.0.0.1:9", f"&tokenizer={tmp_path}")
    with pytest.raises(ModelError, match="a prompt of so few tokens"):
        score(text, [make_slate("coffee", "dog", question="tea")])


def test_a_pair_with_marks_or_types_of_its_own_is_never_a_reward(tiny):
    """What an encoder's tokenizer puts around two texts is not around the conversation."""
    folder = tiny.encoder()
    with pytest.raises(ModelError, match="becomes other tokens"):
        score(spec("vllm-score", "http://127.0.0.1:9", f"&tokenizer={folder}"), SLATES[:1])


def test_a_batch_has_its_limit(folder, model):
    slate = make_slate(*[f"Tea number {k}." for k in range(7)])
    with Loopback(model.answer) as there:
        found = score(spec("sglang", there.url, f"&tokenizer={folder}&batch=3"), [slate])
    assert sorted(len(body["input_ids"]) for _, body in there.seen) == [1, 3, 3]
    assert_equal(found, model, [slate])


@pytest.mark.parametrize("server", ["vllm", "vllm-pooling", "sglang", "tei"])
def test_a_head_with_several_outputs_is_never_guessed(server, tiny):
    folder = tiny.classifier(num_labels=3)
    model = Model(folder)
    with Loopback(model.answer) as there:
        text = spec(server, there.url, f"&tokenizer={folder}")
        with pytest.raises(ModelError, match="3 outputs"):
            score(text)
        assert_equal(score(f"{text}&head=2"), model, head=2)
        with pytest.raises(ModelError, match="no output '7'"):
            score(f"{text}&head=7")


def reply_of(server, rows):
    match server:
        case "vllm":
            return {"data": [{"index": k, "probs": row} for k, row in enumerate(rows)]}
        case "vllm-pooling":
            return {"data": [{"index": k, "data": row} for k, row in enumerate(rows)]}
        case "sglang":
            return [{"embedding": row, "meta_info": {}} for row in rows]
        case "vllm-score":
            return {"data": [{"index": k, "score": row[0]} for k, row in enumerate(rows)]}
        case "tei":
            return [[{"score": v, "label": f"L{k}"} for k, v in enumerate(row)] for row in rows]
    return {"rewards": [row[0] for row in rows]}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("rows", "values", "reason"),
    [
        ([[1.5], [math.nan]], (1.5, None), "no finite number"),
        ([[1.5], [math.inf]], (1.5, None), "no finite number"),
        ([[1.5]], (None, None), "the reply holds 1 results for 2 responses"),
        ([[1.5], [2.5], [3.5]], (None, None), "the reply holds 3 results for 2 responses"),
    ],
)
def test_a_reply_that_cannot_be_right_says_why(server, rows, values, reason, folder, model):
    reply = reply_of(server, rows)
    if server == "vllm-score":
        reply["usage"] = usage(sum(len(ids) for ids in model.ids(SLATES[0])))
    with Loopback(lambda path, body: (200, reply)) as there:
        found = score(spec(server, there.url, f"&tokenizer={folder}"), SLATES[:1])[0]
    assert found.values == values
    assert {why for why in found.reasons if why} == {reason}
    assert not found.outage


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("said", ["<html>", {}, [], {"data": 3}, [[1]], {"rewards": "a"}, None])
def test_a_reply_of_another_kind_is_an_outage(server, said, folder):
    with Loopback(lambda path, body: (200, said)) as there:
        text = spec(server, there.url, f"&tokenizer={folder}&retries=0")
        found = score(text, SLATES[:1])[0]
    if found.outage:
        assert set(found.reasons) == {"the reply was no reward"}
    else:
        assert said == [], "an empty list is a list of the wrong length"
        assert set(found.reasons) == {"the reply holds 0 results for 2 responses"}


@pytest.mark.parametrize("server", ["vllm", "vllm-pooling", "sglang", "tei"])
def test_probabilities_are_refused_where_raw_scores_were_asked(server, folder):
    rows = [[0.565970778465271, 0.4340292513370514], [0.26448777318000793, 0.7355121970176697]]
    with Loopback(lambda path, body: (200, reply_of(server, rows))) as there:
        head = "L0" if server == "tei" else "0"
        text = spec(server, there.url, f"&tokenizer={folder}&head={head}")
        found = score(text, SLATES[:1])[0]
    assert found.values == (None, None)
    assert set(found.reasons) == {"probabilities came back where raw scores were asked"}


def test_single_outputs_that_all_look_like_a_sigmoids_are_said_so_once(caplog):
    caplog.set_level(logging.WARNING)
    values = iter([0.2 + k / 200 for k in range(80)])
    with Loopback(lambda path, body: (200, reply_of("vllm", [[next(values)]]))) as there:
        score(spec("vllm", there.url), [make_slate(f"{k}", "b") for k in range(40)])
    assert caplog.text.count("between 0 and 1") == 1
    caplog.clear()
    values = iter([1.2, *[0.2 + k / 200 for k in range(80)]])
    with Loopback(lambda path, body: (200, reply_of("vllm", [[next(values)]]))) as there:
        text = spec("vllm", there.url, "&concurrency=1")
        score(text, [make_slate(f"{k}", "b") for k in range(40)])
    assert "between 0 and 1" not in caplog.text


def test_a_set_of_four_pairs_is_enough_to_be_told(caplog):
    caplog.set_level(logging.WARNING)
    for pairs, said in ((3, 0), (4, 1)):
        reply = 200, reply_of("vllm", [[0.2 + pairs / 20]])
        with Loopback(lambda path, body, reply=reply: reply) as there:
            score(spec("vllm", there.url), [make_slate(f"{k}", "b") for k in range(pairs)])
        assert caplog.text.count("between 0 and 1") == said


SQUASHED = [
    ("tei", lambda k: [[1.0, 0.0, 1.0, 0.98][k % 4]]),
    ("vllm", lambda k: [1.0]),
    ("sglang", lambda k: [0.0]),
    ("tei", lambda k: [0.0, 1.0, 0.75]),
]


@pytest.mark.parametrize(("server", "rewards"), SQUASHED)
def test_squashed_rewards_are_named(caplog, folder, server, rewards):
    turns = iter(range(99))
    many = [make_slate(f"{k}", "b", question=f"{k}?") for k in range(8)]

    def answer(path, body):
        return 200, reply_of(server, [rewards(next(turns)) for _ in range(2)])

    with Loopback(answer) as there:
        head = "&head=L0" if len(rewards(0)) > 1 else ""
        score(spec(server, there.url, f"&tokenizer={folder}{head}"), many)
    assert caplog.text.count("all lie between 0 and 1; check that the server sends raw") == 1


@pytest.mark.parametrize("rewards", [(1.0, 0.0, 1.0001), (-0.1, 0.5), (3.0, 3.0, 3.5)])
def test_rewards_that_a_raw_head_may_give_are_not_named(caplog, rewards):
    scorer = build_scorer(spec("vllm", "http://127.0.0.1:9"), default_session())
    for k in range(20):
        scorer._suspect(rewards[k % len(rewards)])
    assert not caplog.text


@pytest.mark.parametrize("server", ["vllm", "vllm-pooling", "sglang"])
def test_a_server_that_reads_fewer_tokens_than_were_sent_has_cut_them(server, folder, model):
    here = sum(len(ids) for ids in model.ids(SLATES[0]))
    for tokens, scored in ((here, True), (here - 1, False), (0, True), (here + 2, True)):
        reply = reply_of(server, [[1.5], [2.5]])
        if server == "sglang":
            reply[0]["meta_info"]["prompt_tokens"] = tokens
            reply[1]["meta_info"]["prompt_tokens"] = 0
        else:
            reply["usage"] = usage(tokens)
        with Loopback(lambda path, body, reply=reply: (200, reply)) as there:
            found = score(spec(server, there.url, f"&tokenizer={folder}"), SLATES[:1])[0]
        assert (found.values == (1.5, 2.5)) is scored
        assert scored or "the server read" in found.reasons[0]


def test_raw_scores_are_not_taken_for_a_sigmoids(caplog):
    # Of a standard normal head 8 of 8 lie between 0 and 1 in 2 of 10,000 sets, of others in fewer.
    caplog.set_level(logging.WARNING)
    rng = np.random.default_rng(5)
    for scale in (1.0, 3.0):
        for _ in range(100):
            scorer = build_scorer(spec("vllm", "http://127.0.0.1:9"), default_session())
            for value in rng.normal(0, scale, 200):
                scorer._suspect(float(value))
    assert "between 0 and 1" not in caplog.text


def test_log_odds_are_claimed_only_where_raw_scores_are_asked(folder):
    for server in SERVERS:
        text = spec(server, "http://127.0.0.1:9", f"&tokenizer={folder}")
        assert info_of(build_scorer(text, default_session()), text).log_odds == (
            server != "openrlhf"
        )


def test_how_it_is_asked_names_no_run_but_what_is_asked_does(folder, tiny):
    network = "&concurrency=64&rpm=5&tpm=99&timeout=3&retries=1&price_in=0.5&price_out=2&batch=7"
    plain, asked = (
        build_scorer(spec("vllm", "http://127.0.0.1:9", more), session)
        for more, session in (("", Session()), (f"{network}&key_env=OTHER", Session(max_cost=3.0)))
    )
    assert plain.canonical == asked.canonical == spec("vllm", "http://127.0.0.1:9")
    assert plain.info == asked.info
    prints = {
        build_scorer(text, default_session()).info.fingerprint
        for text in (
            spec("vllm", "http://127.0.0.1:9"), spec("vllm", "http://127.0.0.1:8"),
            spec("vllm-pooling", "http://127.0.0.1:9"),
            spec("vllm", "http://127.0.0.1:9", "&head=1"),
            spec("vllm", "http://127.0.0.1:9", f"&tokenizer={folder}"),
            spec("vllm", "http://127.0.0.1:9", f"&tokenizer={tiny.encoder()}"),
        )
    }  # fmt: skip
    assert len(prints) == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("classifier:api:m?base_url=http://h", "server=vllm"),
        ("classifier:api:m?base_url=http://h&server=triton", "not one of"),
        ("classifier:api:m?server=vllm", "base_url"),
        ("classifier:api:m?base_url=http://h/v1&server=vllm", "without /v1"),
        ("classifier:api:m?base_url=http://h&server=vllm&rpm=0", "rpm"),
        ("classifier:api:m?base_url=http://h&server=vllm&price_in=-1", "price_in"),
        ("classifier:api:m?base_url=http://h&server=vllm&max_tokens=3", "max_tokens"),
        ("classifier:api:m?base_url=http://h?key=1&server=vllm", "base_url"),
    ],
)
def test_what_cannot_be_meant_is_one_line(text, words):
    with pytest.raises(SpecError, match=words) as caught:
        build_scorer(text, default_session())
    assert "\n" not in str(caught.value)


def test_what_is_too_long_here_is_cut_and_there_is_said(folder, model):
    def too_long(path, body):
        said = "Input validation error: `inputs` must have less than 512 tokens. Given: 618"
        return 413, {"error": said, "error_type": "validation"}

    with Loopback(too_long) as there:
        found = score(spec("tei", there.url, f"&tokenizer={folder}"), SLATES[:1])[0]
    assert set(found.reasons) == {"HTTP 413: too long for the endpoint"}
    long = make_slate("Tea.", "Coffee.", shown=["word " * 900, "I like tea."])
    scorer = build_scorer(
        spec("vllm", "http://127.0.0.1:9", f"&tokenizer={folder}"), default_session()
    )
    assert scorer.info.cuts
    assert len(scorer.prepare(long).slate.shown) < 2


def test_a_wrong_path_or_key_stops_everything():
    with (
        Loopback(lambda path, body: (404, {})) as there,
        pytest.raises(EndpointError, match="no such path"),
    ):
        score(spec("vllm", there.url))


def test_what_a_tokenizer_puts_around_a_text_is_not_written_twice(tmp_path, tiny):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.encoder())
    tokenizer.chat_template = "[CLS]{% for m in messages %}{{ m.content }} {% endfor %}[SEP]"
    tokenizer.save_pretrained(tmp_path)
    assert tokenizer("a")["input_ids"][0] == tokenizer.cls_token_id
    folder = tmp_path
    with Loopback(lambda path, body: (200, reply_of("tei", [[1.5], [2.5]]))) as there:
        score(spec("tei", there.url, f"&tokenizer={folder}"), SLATES[:1])
    ((_, body),) = there.seen
    texts = [text for (text,) in body["inputs"]]
    assert not any("[CLS]" in text or "[SEP]" in text for text in texts), json.dumps(texts)
    template, messages = ChatTemplate(tokenizer), render(SLATES[0].question)
    for text, response in zip(texts, SLATES[0].candidates, strict=True):
        there_ids, here_ids = (
            tokenizer(text)["input_ids"],
            template.conversation(messages, response),
        )
        assert tuple(there_ids) == here_ids
