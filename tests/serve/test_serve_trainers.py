"""What OpenRLHF, vLLM's and text-embeddings-inference's clients send, with rows and without."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from serving import Coded, Rendering, Served, coded

from palate.records import Slate

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "<|im_start|>user\nWhich of 2?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def server():
    with Served(coded(Coded())) as served:
        yield served


def get_reward(query, labels, prompts=None):
    return {"query": query, "prompts": prompts or [PROMPT] * len(query), "labels": labels}


def test_openrlhf_names_a_row_in_its_label_and_the_response_is_cut_out(server):
    queries = [f"{PROMPT}7<|im_end|>\n", f"<s>{PROMPT}8</s>", f"{PROMPT[9:]}9"]
    body = get_reward(queries, ["bob-0", "bob-1", "cid-0"])
    assert server.post("/get_reward", body) == (200, {"rewards": [20_007.0, 30_008.0, 40_009.0]})


def test_openrlhf_may_send_an_empty_shard(server):
    for body in ({"query": []}, get_reward([], [])):
        assert server.post("/get_reward", body) == (200, {"rewards": []})


@pytest.mark.parametrize("opening", ["<think>\n", "[THINK]", "<seed:think>", "◁think▷"])
def test_openrlhfs_prompt_tells_that_a_response_begins_within_a_thought(server, opening):
    prompt = f"{PROMPT}{opening}"
    ending = f"{opening[0]}/{opening[1:].strip()}"
    whole = get_reward([f"{prompt}5, or 6?{ending}7<|sep|><|blank|>"], ["bob-0"], [prompt])
    assert server.post("/get_reward", whole) == (200, {"rewards": [20_007.0]})
    cut = get_reward([f"{prompt}7"], ["bob-0"], [prompt])
    status, reply = server.post("/get_reward", cut)
    assert status == 422, "98 beside 9 for the finished one"
    assert "a thought that does not end" in str(reply)


def test_openrlhfs_decoder_may_write_other_white_space(server):
    prompt = "<s>[INST] Which of 2? [/INST]"
    body = get_reward(["<s> [INST] Which of 2? [/INST] 7</s>"], ["bob-0"], [prompt])
    assert server.post("/get_reward", body) == (200, {"rewards": [20_007.0]})


def chat(*contents):
    roles = ["user", "assistant"] * len(contents)
    return [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]


def parts(*content):
    return {"user": "bob-0", "messages": [*chat("Which of 2?"), said(list(content))]}


def said(content):
    return {"role": "assistant", "content": content}


def test_the_function_for_verl_in_the_docs_gets_a_number_or_raises(server):
    page = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import aiohttp.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block.replace("http://127.0.0.1:8000", server.url), names)

    def computed(text):
        return asyncio.run(names["compute_score"]("data", text, "", {"row": "bob-0"}))

    assert computed("7") == 20_007.0
    with pytest.raises(ValueError, match="no number"):
        computed("none")


@pytest.mark.parametrize(("path", "field"), [("/classify", "probs"), ("/pooling", "data")])
def test_vllm_names_a_row_or_a_user(server, path, field):
    asked = [
        ({"user": "bob-0", "messages": chat("Which of 2?", "7")}, [20_007.0]),
        ({"user": "bob-0", "messages": chat("A", "b", "Which of 2?", "7")}, [20_007.0]),
        ({"user": "bob", "messages": chat("Now of 6?", "7")}, [60_007.0]),
        ({"user": "bob-0", "input": "7"}, [20_007.0]),
        ({"user": "bob-0", "input": ["8", "9"], "model": "m", "priority": 1}, [20_008.0, 20_009.0]),
    ]
    for body, values in asked:
        status, reply = server.post(path, {**body, "use_activation": False})
        assert status == 200, reply
        assert [row[field] for row in reply["data"]] == [[value] for value in values]
        assert [row["index"] for row in reply["data"]] == list(range(len(values)))
        assert (reply["object"], reply["model"]) == ("list", "coded · none")


REFUSED = [
    ("/get_reward", get_reward([f"{PROMPT}7"], ["zed"]), 404, "labels[0]: no row 'zed'"),
    ("/get_reward", get_reward(["other 7"], ["bob-0"]), 422, "query[0]: begins neither"),
    ("/get_reward", get_reward([f"{PROMPT}no"], ["bob-0"]), 422, "query[0]: unscored: no number"),
    ("/get_reward", get_reward([PROMPT], ["bob-0"]), 422, "query[0]: unscored: empty answer"),
    ("/get_reward", get_reward([f"{PROMPT}7"], [""]), 422, "query[0]: names no row, and only a"),
    ("/get_reward", {"query": ["7"]}, 422, "query[0]: names no row"),
    ("/get_reward", {"query": ["7"], "labels": ["bob-0"]}, 422, "prompts: missing"),
    ("/get_reward", get_reward(["7"], ["a", "b"]), 422, "`labels` holds 2, and `query` 1"),
    ("/get_reward", {"query": [[1, 2]]}, 422, "query: expected text, got a number or token ids"),
    ("/get_reward", {"query": "7"}, 422, "query: "),
    ("/classify", {"input": [[1, 2, 3]], "user": "bob-0"}, 422, "input: expected text, got a n"),
    ("/classify", {"input": [1, 2, 3], "user": "bob-0"}, 422, "input: expected text, got a num"),
    ("/classify", {"input": [], "user": "bob-0"}, 422, "`input` is empty"),
    ("/classify", {"user": "bob-0"}, 422, "expected `messages` or `input`"),
    ("/classify", {"input": "7"}, 422, "input[0]: names no row"),
    ("/classify", {"input": "7", "user": "bob"}, 422, "with a user's id send `messages`"),
    ("/classify", {"input": "7", "user": "zed"}, 404, "user: no row 'zed'"),
    ("/classify", {"messages": chat("2?", "7"), "user": "zed"}, 404, "user: no user 'zed'"),
    ("/classify", {"messages": chat("2?", "7")}, 422, "user: names no row"),
    ("/classify", {"messages": chat("2?")}, 422, "must end with the assistant's response"),
    (
        "/classify",
        {"messages": [*chat("2?", "7"), *chat("2?", "8")[1:]], "user": "bob"},
        422,
        "a question of theirs before",
    ),
    ("/classify", {"input": "7", "user": "bob-0", "use_activation": True}, 422, "use_activation: "),
    ("/classify", {"input": ["7", "no"], "user": "bob-0"}, 422, "input[1]: unscored: no number"),
    ("/pooling", {"input": "7", "user": "bob-0", "task": "embed"}, 422, "task: "),
    ("/pooling", {"input": "7", "user": "b", "encoding_format": "base64"}, 422, "encoding_format"),
    ("/predict", {"inputs": [["7"]]}, 422, "inputs[0]: names no row, and only a `classifier`"),
    ("/predict", {"inputs": [["7", "8"]]}, 422, "inputs"),
    ("/predict", {"inputs": [[1, 2]]}, 422, "inputs: expected text, got a number or token ids"),
    ("/predict", {"inputs": [["7"]], "raw_scores": False}, 422, "raw_scores: "),
    ("/predict", {"inputs": [["7"]], "truncate": True}, 422, "truncate: "),
    ("/predict", {"inputs": []}, 422, "inputs: "),
    ("/predict", {"inputs": "7"}, 422, "inputs[0]: names no row, and only a `classifier`"),
    ("/predict", {"inputs": ["7"]}, 422, "inputs[0]: names no row, and only a `classifier`"),
    ("/predict", {"inputs": ["7", "8"]}, 422, "inputs: a pair of texts; send a batch, [[text]"),
    ("/predict", {"inputs": [1, 2]}, 422, "inputs: expected text, got a number or token ids"),
    ("/predict", {"inputs": [["7"], "8"]}, 422, "inputs[1]: "),
    ("/predict", {"inputs": [None]}, 422, "inputs[0]: "),
    ("/predict", {"inputs": {"a": 1}}, 422, "inputs: "),
    ("/predict", {}, 422, "inputs: Field required"),
    ("/classify", parts({"type": "image_url", "image_url": {}}), 422, "content: expected parts of"),
    ("/classify", parts({"type": "text"}), 422, "content: a part of text has no `text`"),
    ("/classify", parts({"type": "text", "text": 7}), 422, "content: a part of text has no `text`"),
    ("/classify", parts(7), 422, "content: expected text, got a number or token ids"),
    ("/classify", parts(None), 422, "messages[1].content: "),
    ("/classify", parts({"type": "text", "text": "\ud800"}), 422, "half a surrogate pair"),
    ("/classify", {"input": 7.5, "user": "bob-0"}, 422, "input: Input should be a valid list"),
    ("/classify", {"input": ["7", None], "user": "bob-0"}, 422, "input[1]: "),
    ("/classify", {"input": "7", "user": {"id": 1}}, 422, "user: Input should be a valid string"),
]


@pytest.mark.parametrize(("path", "body", "status", "says"), REFUSED)
def test_what_cannot_be_scored_says_why(server, path, body, status, says):
    got, reply = server.post(path, body)
    assert (got, list(reply)) == (status, ["detail"])
    assert says in reply["detail"]


def test_what_names_no_row_goes_as_it_stands_to_a_scorer_that_reads_it():
    scorer = Rendering()
    with Served(coded(scorer)) as served:
        scorer.batches.clear()
        assert served.post("/predict", {"inputs": [["ab"], ["abc"], ["ab"]]}) == (
            200, [[{"label": "LABEL_0", "score": n}] for n in (2.0, 3.0, 2.0)]
        )  # fmt: skip
        for alone in ("abcd", ["abcd"]):  # a reply to one text is one list
            assert served.post("/predict", {"inputs": alone}) == (
                200, [{"label": "LABEL_0", "score": 4.0}]
            )  # fmt: skip
        assert scorer.rendered.pop() == scorer.rendered.pop() == "abcd"
        whole = f"{PROMPT}7<|im_end|>\n"
        assert served.post("/get_reward", get_reward([whole], [None]))[1] == {
            "rewards": [float(len(whole))]
        }
        assert scorer.rendered == ["ab", "abc", whole]
        assert scorer.batches == []
        body = {"messages": [{"role": "system", "content": "Be brief."}, *chat("Of 3?", "7")]}
        assert served.post("/classify", body)[1]["data"][0]["probs"] == [30_007.0]
        assert served.post("/predict", {"inputs": [[" "]]})[0] == 422


def test_what_vllms_example_client_asks_is_answered(server):
    """It takes the model's name from /v1/models, sends it back, and reads `usage`."""
    status, listed, _ = server.call("GET", "/v1/models")
    assert (status, listed["object"]) == (200, "list")
    (model,) = listed["data"]
    assert (model["id"], model["object"], model["owned_by"]) == ("coded · none", "model", "palate")
    for path in ("/classify", "/pooling"):
        body = {"model": model["id"], "input": ["7", "8"], "user": "bob-0"}
        status, reply = server.post(path, body)
        assert (status, reply["model"]) == (200, model["id"])
        # No count that may be wrong: what answers share is read once.
        assert reply["usage"] == {
            "prompt_tokens": None, "total_tokens": None, "completion_tokens": 0
        }  # fmt: skip


def test_content_in_parts_is_the_same_message(server):
    whole = [
        {"type": "reasoning", "reasoning": "Is it 3?"}, {"type": "text", "text": "It is"},
        {"type": "output_text", "text": "7."},
    ]  # fmt: skip
    _, reply = server.post("/classify", parts(*whole))
    assert reply["data"][0]["probs"] == [20_007.0]
    asked = {"role": "user", "content": [{"type": "text", "text": "Now of"},
                                         {"type": "text", "text": "6?"}]}  # fmt: skip
    _, reply = server.post("/classify", {"user": "bob", "messages": [asked, said("7")]})
    assert reply["data"][0]["probs"] == [60_007.0]


def test_messages_without_a_user_are_one_slate_as_it_stands():
    seen = []

    class Seeing(Rendering):
        def score(self, slates):
            seen.extend(slates)
            return super().score(slates)

    with Served(coded(Seeing())) as served:
        seen.clear()
        served.post("/classify", {"messages": chat("Of 1?", "2", "Of 3?", "4")})
    (slate,) = seen
    asked = tuple({"role": m.role, "content": m.content} for m in slate.question)
    assert asked == tuple(chat("Of 1?", "2", "Of 3?"))
    assert slate == Slate(question=slate.question, candidates=("4",))
