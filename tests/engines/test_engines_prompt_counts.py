"""What servers say they read: cut prompts are unscored, and healthy servers raise no alarm."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints import Loopback
from palate.comparison import evaluate
from palate.engines.http_ledger import Count, PromptCounts, count_of
from palate.records import Part, Slate
from palate.scorers import build_scorer
from palate.session import Session

WORDS = "The cat sat by the window all day and watched the quiet rain on the old green roof. "


def slates(*posts, start=0):
    return [
        Slate(
            question=({"role": "user", "content": f"Which one, {k}?"},),
            shown=tuple(Part(kind="post", text=f"{j} {WORDS}"[: 60 + k]) for j in range(n)),
            candidates=("tea", "a cup of coffee"),
        )
        for k, n in enumerate(posts, start)
    ]


class Server:
    """Rates, and counts tokens by a function of the prompt's text."""

    def __init__(self, tokens, model="m", more=lambda sent: {}, **usage):
        def answer(path, body):
            prompt = "".join(m["content"] for m in body["messages"])
            self.sent.append(len(prompt))
            used = {"prompt_tokens": tokens(prompt), "completion_tokens": 4, **usage}
            choice = {"message": {"content": "Rating: 7"}, "finish_reason": "stop"}
            reply = {"choices": [choice], "usage": used, "model": model}
            return 200, reply | more(len(self.sent))

        self.sent, self.loopback = [], Loopback(answer)

    def score(self, *groups, cache=None, concurrency=2):
        session = Session(cache=cache, store=cache and cache / "store")
        with self.loopback as there:
            spec = f"rating:api:m?base_url={there.url}/v1&concurrency={concurrency}&retries=0"
            scorer = build_scorer(spec, session)
            return [[scores for _, scores in sorted(scorer.score(it))] for it in groups]


def unscored(scored):
    return [None in scores.values for scores in scored]


@pytest.mark.parametrize("first", [6, 60])
def test_a_server_that_reports_512_for_6_and_for_60_posts_is_not_believed(tmp_path, first):
    groups = [slates(*[6] * 6), slates(*[60] * 6, start=6)]
    if first == 60:
        groups = [[*groups[1], *groups[0]]]
    found = Server(lambda prompt: 512).score(*groups, cache=tmp_path)
    many = found[1] if first == 6 else found[0][:6]
    assert all(unscored(many))
    reasons = {why for scores in many for why in scores.reasons}
    assert reasons == {"the server cut the prompt (prompt_tokens 512)"}
    assert not any(scores.outage for scores in many), "asking again would give the same"


def test_a_window_of_half_is_seen_where_shorter_prompts_had_more(tmp_path):
    # Ollama: what does not fit its context is cut to half of it.
    def tokens(prompt):
        whole = len(prompt) // 4
        return whole if whole <= 1024 else 515

    (found,) = Server(tokens).score(slates(6, 20, 30, 60, 61, 62, 80), cache=tmp_path)
    assert unscored(found) == [False] * 3 + [True] * 4
    kept = [it for it in tmp_path.rglob("??/*") if "store" not in it.parts]
    assert len(kept) == 6, "a cut reply is not kept"


def test_one_prompt_of_which_no_tokenizer_makes_so_few_tokens(caplog):
    (found,) = Server(lambda prompt: len(prompt) // 20).score(slates(60))
    assert unscored(found) == [True]
    assert caplog.text.count("prompts are cut: prompt_tokens is ") == 1
    assert "OLLAMA_CONTEXT_LENGTH" in caplog.text


def test_a_limit_that_most_prompts_reach_is_seen_though_it_cuts_little():
    counts = PromptCounts()
    for letters in (2100, 2200, 2500, 2900, 3400):
        counts.add(Count(letters, 512))
    assert counts.cut(Count(3400, 512))
    for letters in range(2100, 9000, 100):
        counts.add(Count(letters, letters // 4))
    assert not counts.cut(Count(2100, 512)), "others of that length have more"


HEALTHY = {
    "words": lambda text: len(text) // 5 + 20,
    "bytes of three a letter": lambda text: len(text.encode()) // 3,
    "long tokens": lambda text: len(text) // 8 + 40,
    "none": lambda text: 0,
    "null": lambda text: None,
    "what a prefix cache did not hold": lambda text: 40 + len(text) % 97,
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_a_healthy_server_is_believed(kind, caplog):
    (found,) = Server(HEALTHY[kind]).score(slates(*range(2, 60, 3)))
    assert not any(unscored(found))
    assert "cut" not in caplog.text


def test_tokens_of_a_prefix_cache_that_are_told_count():
    details = {"cached_tokens": 1500}
    (found,) = Server(lambda text: 50, prompt_tokens_details=details).score(slates(60))
    assert unscored(found) == [False]


def chat(*texts):
    return json.dumps({"messages": [{"role": "user", "content": it} for it in texts]}).encode()


REPETITIVE = [" " * 9000, "=" * 9000, "-=" * 4000, "\n\n\t" * 3000, "ha" * 300, "aaaa" * 900]


@pytest.mark.parametrize("text", REPETITIVE)
def test_runs_of_one_sign_are_few_tokens(text):
    count = count_of(chat(text), {"x": 1}, (150, 1))
    assert count is not None
    assert not PromptCounts().cut(count)


def test_ids_and_missing_counts_say_nothing():
    assert count_of(json.dumps({"input": [[1, 2], [3]]}).encode(), {"x": 1}, (3, 0)) is None
    assert count_of(chat("a" * 900), {}, None) is None
    assert count_of(chat("a" * 900), {}, (0, 3)) is None
    assert count_of(json.dumps({"input": ["ab", "c"]}).encode(), {"x": 1}, (3, 0)) == (3, 3)


@given(
    st.lists(st.integers(400, 60_000), min_size=1, max_size=60),
    st.floats(1.2, 5.5),
    st.integers(0, 400),
    st.randoms(use_true_random=False),
)
def test_no_tokenizer_of_prose_raises_an_alarm(lengths, each, template, random):
    counts = PromptCounts()
    made = [Count(n, int(n / each * random.uniform(0.93, 1.07)) + template) for n in lengths]
    for count in made:
        counts.add(count)
    assert not any(map(counts.cut, made))


@given(st.integers(256, 8000), st.integers(6, 60), st.integers(14, 80))
def test_every_limit_that_cuts_to_a_third_or_less_is_seen(limit, n, times):
    counts = PromptCounts()
    made = [Count(limit * times + 37 * k, limit) for k in range(n)]
    for count in made:
        counts.add(count)
    assert all(map(counts.cut, made))


def votes(tmp_path):
    path = tmp_path / "votes.jsonl"
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": "a" * (k + 1),
         "rejected": "b" * (9 - k)} for k in range(8)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_model_of_another_name_is_a_note_of_the_run_also_where_it_is_recalled(tmp_path, caplog):
    server = Server(lambda text: len(text) // 4, model="m-2026-01-01")
    with server.loopback as there:
        spec = f"rating:api:m?base_url={there.url}/v1"
        summaries = []
        for _ in range(2):
            with Session(store=tmp_path / "s") as session:
                run = evaluate(
                    votes(tmp_path), spec, "none", root=tmp_path / "runs", session=session
                )
            summaries.append((run.folder / "summary.json").read_bytes())
    assert run.summary.notes == ("m was asked, and m-2026-01-01 answered",)
    assert summaries[0] == summaries[1]
    assert len(server.sent) == 16, "the second time nothing is asked"
    assert caplog.text.count("m-2026-01-01 answered") == 1


def test_providers_that_take_turns_behind_a_gateway_are_said(tmp_path):
    providers = "DeepInfra", "Together"
    server = Server(lambda text: len(text) // 4, more=lambda n: {"provider": providers[n % 2]})
    with server.loopback as there, Session(store=tmp_path / "s") as session:
        spec = f"rating:api:m?base_url={there.url}/v1&concurrency=1"
        run = evaluate(votes(tmp_path), spec, "none", root=None, session=session)
    assert set(run.summary.notes) == {
        "m was m by Together and is m by DeepInfra now: what is kept may be of both models",
        "m was asked, and m by Together answered",
    }


@pytest.mark.parametrize("model", ["m", "", None])
def test_a_model_of_the_same_name_or_none_is_no_note(tmp_path, model):
    server = Server(lambda text: len(text) // 4, model=model)
    with server.loopback as there, Session(store=tmp_path / "s") as session:
        spec = f"rating:api:m?base_url={there.url}/v1"
        assert (
            evaluate(votes(tmp_path), spec, "none", root=None, session=session).summary.notes == ()
        )


def test_a_note_that_no_longer_holds_is_taken_back(tmp_path):
    with Session(store=tmp_path) as session:
        session.ledger.note("u m", "model", "m was asked, and n answered")
    with Session(store=tmp_path) as session:
        assert session.ledger.notes("u m") == {"model": "m was asked, and n answered"}
        session.ledger.note("u m", "model", "")
        session.ledger.note("u m", "model", "")
        assert not any(session.ledger.notes("u m").values())
    with Session(store=tmp_path) as session:
        assert not any(session.ledger.notes("u m").values())


def test_a_note_holds_where_models_of_two_names_take_turns(tmp_path, caplog):
    other = "m was asked, and n answered"
    for _ in range(2):
        with Session(store=tmp_path) as session:
            for text in (other, "", other, "m was asked, and k answered", ""):
                session.ledger.note("u m", "model", text)
            assert session.ledger.notes("u m") == {"model": other}
    assert caplog.text.count("answered") == 1
