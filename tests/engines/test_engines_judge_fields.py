"""Fields that a spec adds to a judge's requests: effort, a file's, and a schema for the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from command_line import palate as typed
from endpoints import Loopback, ScriptedChat
from palate.contexts import build_context
from palate.engines import Reply
from palate.engines.endpoint_fields import ASKED, EFFORTS, OWNED
from palate.errors import EndpointError, SpecError, UsageError
from palate.prompts import Unreadable, label_line, parse_verdict
from palate.quality import build_quality
from palate.records import Outcome
from palate.scorers import build_scorer
from palate.session import Session
from tiny import make_slate

SLATE = make_slate("GOOD tea.", "BAD coffee.", shown=["I only drink tea."])
Took = Callable[[Any], bool]
PLAIN = {"model", "messages", "max_tokens", "temperature", "stream", "stream_options"}


def completion(text: str, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text, **message}
    return {"model": "m", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}


def verdict_of(body: Any) -> str:
    text = body["messages"][-1]["content"]
    return "A" if text.find("GOOD") < text.find("BAD") else "B"


def server(
    takes: Took = lambda body: True,
    thinks: Took = lambda body: False,
    holds: Took = lambda body: False,
) -> Callable[[str, Any], tuple[Any, ...]]:
    """Return a server that refuses what it does not take, and thinks or keeps to a schema."""

    def answer(path: str, body: Any) -> tuple[Any, ...]:
        if not takes(body):
            return 400, {"error": {"message": "Extra inputs are not permitted", "code": 400}}
        thought = {"reasoning_content": "Tea, then."} if thinks(body) else {}
        text = f"Tea it is.\nVerdict: {verdict_of(body)}"
        if "response_format" in body and holds(body):
            schema = body["response_format"]["json_schema"]["schema"]["properties"]
            choice = {"verdict": verdict_of(body), "answer": "yes", "rating": 7, "reason": "Tea."}
            text = json.dumps({name: choice[name] for name in schema})
        return 200, completion(text, **thought)

    return answer


def strict(field: str, *values: Any) -> Took:
    """Take a request without fields of effort, or with this one at one of these values."""
    others = {"reasoning_effort", "reasoning", "thinking"} - {field}

    def takes(body: Any) -> bool:
        return not others & body.keys() and (field not in body or body[field] in values)

    return takes


EFFORT = {"low", "medium", "high"}
SENT = {
    "reasoning_effort": ("medium", strict("reasoning_effort", *EFFORT)),
    "reasoning": (
        {"effort": "medium"},
        strict("reasoning", *({"effort": effort} for effort in sorted(EFFORT))),
    ),
    "thinking": (
        {"type": "enabled", "budget_tokens": 4096},
        strict("thinking", {"type": "enabled", "budget_tokens": 4096}),
    ),
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(store=tmp_path / "store") as made:
        yield made


def judged(there: Loopback, session: Session, options: str = "", kind: str = "judge") -> Any:
    scorer = build_scorer(f"{kind}:api:m?base_url={there.url}/v1{options}", session)
    ((_, made),) = (scorer.judge if kind == "judge" else scorer.score)([SLATE])
    return scorer, made


def asked(there: Loopback) -> tuple[list[Any], list[Any]]:
    """Return the bodies of what was tried, and of the judge's own requests."""
    bodies = [body for _, body in there.seen]
    tried = [body for body in bodies if body["messages"] == ASKED]
    return tried, [body for body in bodies if body["messages"] != ASKED]


@pytest.mark.parametrize("field", SENT)
def test_a_server_sees_exactly_the_field_that_it_takes(field: str, session: Session) -> None:
    sent, takes = SENT[field]
    with Loopback(server(takes, thinks=lambda body: field in body)) as there:
        scorer, made = judged(there, session, "&effort=medium")
    tried, bodies = asked(there)
    assert made.margin == 1.0
    assert [body.keys() - PLAIN for body in bodies] == [{field}, {field}]
    assert [body[field] for body in bodies] == [sent, sent]
    assert {body["max_tokens"] for body in bodies} == {8192}
    first = [next(iter(body.keys() - PLAIN)) for body in tried]
    assert first == [*list(SENT)[: [*SENT].index(field) + 1], field], "in this order, then a wrong"
    assert scorer.notes() == (f"effort=medium was sent to m as {field}",)


@pytest.mark.parametrize(("effort", "tokens"), EFFORTS.items())
def test_an_effort_has_room_for_its_thought(
    effort: str, tokens: int, session: Session, tmp_path: Path
) -> None:
    takes = strict("reasoning_effort", *EFFORT)
    with Loopback(server(takes)) as there:
        judged(there, session, f"&effort={effort}")
        judged(there, session, f"&effort={effort}&max_tokens=999")
        context = build_context(f"persona:api:m?base_url={there.url}/v1&effort={effort}", session)
    _, bodies = asked(there)
    assert [(body["reasoning_effort"], body["max_tokens"]) for body in bodies] == [
        *[(effort, tokens)] * 2,
        *[(effort, 999)] * 2,
    ]
    assert context.texts.writer.max_tokens == tokens
    assert context.spec.endswith(f"&effort={effort}&max_tokens={tokens}")


def test_what_a_server_takes_is_asked_once_and_kept(tmp_path: Path) -> None:
    with Loopback(server(strict("reasoning_effort", *EFFORT))) as there:
        for _ in range(2):
            with Session(store=tmp_path / "store") as session:
                for effort in ("low", "high"):
                    scorer, _ = judged(there, session, f"&effort={effort}")
    assert len(asked(there)[0]) == 2, "one value that it has, and one that it has not"
    assert scorer.notes() == (
        "effort=high was sent to m as reasoning_effort",
        "no reply of m showed a thought or counted its tokens",
    )


@pytest.mark.parametrize("how", ["field", "mark", "tokens", "part"])
def test_a_thought_is_seen_however_it_is_shown(how: str, session: Session) -> None:
    shown: dict[str, dict[str, Any]] = {
        "field": completion("Verdict: A", reasoning="Tea."),
        "mark": completion("<think>Tea.</think>Verdict: A"),
        "tokens": completion("Verdict: A")
        | {
            "usage": {
                "prompt_tokens": 200,
                "completion_tokens": 9,
                "completion_tokens_details": {"reasoning_tokens": 5},
            }
        },
        "part": completion("")
        | {
            "choices": [
                {
                    "message": {
                        "content": [
                            {"type": "thinking", "thinking": "Tea."},
                            {"type": "text", "text": "Verdict: A"},
                        ]
                    },
                    "finish_reason": "stop",
                }
            ]
        },
    }
    takes = strict("reasoning_effort", *EFFORT)
    with Loopback(lambda _, body: (200, shown[how]) if takes(body) else (400, {})) as there:
        scorer, made = judged(there, session, "&effort=low")
    assert made.orders == (1.0, -1.0)
    assert scorer.notes() == ("effort=low was sent to m as reasoning_effort",)


def test_a_field_that_takes_any_value_is_known_by_the_thought_that_it_brings(
    session: Session,
) -> None:
    with Loopback(server(thinks=lambda body: "reasoning" in body)) as there:
        scorer, _ = judged(there, session, "&effort=low")
    assert scorer.notes() == ("effort=low was sent to m as reasoning",)
    assert all(body["reasoning"] == {"effort": "low"} for body in asked(there)[1])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (server(), "reasoning_effort was ignored, reasoning was ignored, thinking was ignored"),
        (
            server(thinks=lambda body: True),
            "reasoning_effort was ignored, reasoning was ignored, thinking was ignored",
        ),
        (
            server(strict("none")),
            "reasoning_effort was refused, reasoning was refused, thinking was refused "
            "(the server says: Extra inputs are not permitted)",
        ),
    ],
)
def test_a_server_without_a_field_ends_the_command_with_one_line(
    answer: Any, why: str, session: Session, tmp_path: Path
) -> None:
    with Loopback(answer) as there:
        with pytest.raises(EndpointError) as caught:
            judged(there, session, "&effort=low")
        spec = f"judge:api:m?base_url={there.url}/v1&effort=low"
        words = ("evaluate", "-b", "tasting", "--limit", "2", "-s", spec, "-c", "none")
        done = typed(*words, cwd=tmp_path, PALATE_CACHE=str(tmp_path / "cache"))
    assert not asked(there)[1], "no judgement was paid for"
    line = f"{there.url}/v1: m has no field for effort: {why}; leave effort out, or give the field"
    assert str(caught.value).startswith(line)
    assert done.returncode == 3
    assert [text for text in done.stderr.splitlines() if "m has no field" in text] == [
        done.stderr.splitlines()[-1]
    ]


def test_what_is_refused_for_another_field_says_nothing_of_effort(session: Session) -> None:
    error = {"message": "Only 1 is allowed", "code": "unsupported_value", "param": "temperature"}
    with (
        Loopback(lambda *_: (400, {"error": error})) as there,
        pytest.raises(EndpointError, match=r"\(temperature\); \?temperature=none sends none"),
    ):
        judged(there, session, "&effort=low")
    assert len(there.seen) == 1


def test_a_server_that_does_not_answer_is_asked_another_time(session: Session) -> None:
    with (
        Loopback(lambda *_: (500, {})) as there,
        pytest.raises(EndpointError, match=r"m did not answer \(HTTP 500\); run it again"),
    ):
        judged(there, session, "&effort=low&retries=0")
    with Loopback(server(strict("reasoning_effort", *EFFORT))) as there:
        assert judged(there, session, "&effort=low")[1].margin == 1.0


def test_a_field_that_is_refused_later_is_asked_for_anew(session: Session) -> None:
    takes = [strict("reasoning_effort", *EFFORT)]

    def answer(path: str, body: Any) -> tuple[Any, ...]:
        said = "reasoning_effort: Extra inputs are not permitted"
        refusal = {"error": {"message": said, "param": "reasoning_effort"}}
        return server()(path, body) if takes[0](body) else (400, refusal)

    with Loopback(answer) as there:
        judged(there, session, "&effort=low")
        takes[0] = strict("reasoning", {"effort": "low"})
        scorer = build_scorer(f"judge:api:m?base_url={there.url}/v1&effort=low", session)
        slates = [make_slate(f"GOOD {k}", "BAD", question=f"{k}?") for k in range(9)]
        with pytest.raises(EndpointError, match="reasoning_effort"):
            list(scorer.judge(slates))
        assert judged(there, session, "&effort=low")[1].margin == 1.0
    assert asked(there)[1][-1]["reasoning"] == {"effort": "low"}


@pytest.mark.parametrize("kind", ["judge", "rating", "rubric-judge"])
def test_labels_are_read_before_any_thought(kind: str, session: Session) -> None:
    spec = f"{kind}:api:m?base_url=http://127.0.0.1:9/v1&verdict=logits&effort=low"
    with pytest.raises(SpecError, match="verdict=logits reads the first token"):
        (build_quality if kind == "rubric-judge" else build_scorer)(spec, session)


@pytest.fixture
def body(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "body.json"
        path.write_text(text)
        return path

    return write


def test_a_server_sees_the_fields_of_the_file_beside_palates(body: Any, session: Session) -> None:
    extra = {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}, "note": "ü\u2028"}
    with Loopback(server()) as there:
        scorer, made = judged(there, session, f"&body={body(json.dumps(extra))}")
        plain, _ = judged(there, session)
    assert made.margin == 1.0
    seen = [
        {name: value for name, value in it.items() if not name.startswith("stream")}
        for _, it in there.seen
    ]
    # Both orders are asked at once, so either may arrive first.
    given, bare = (
        sorted(part, key=lambda it: str(it["messages"])) for part in (seen[:2], seen[2:])
    )
    assert given == [{**each, **extra} for each in bare]
    pin = sha256(json.dumps(extra).encode()).hexdigest()
    assert f"body.json@{pin[:8]}" in scorer.canonical
    assert scorer.info.details["body"] == pin
    assert scorer.info.fingerprint != plain.info.fingerprint


def test_replies_are_kept_by_effort_and_body(body: Any, tmp_path: Path) -> None:
    file = body('{"top_k": 20}')
    asked_for = []
    with (
        Loopback(server(strict("reasoning_effort", *EFFORT))) as there,
        Session(store=tmp_path / "store", cache=tmp_path / "replies") as session,
    ):
        for options in ("", f"&body={file}", f"&body={file}", "&effort=low", "&effort=low"):
            judged(there, session, options)
            asked_for.append(len(asked(there)[1]))
        body('{"top_k": 40}')
        judged(there, session, f"&body={file}")
        asked_for.append(len(asked(there)[1]))
    assert asked_for == [2, 4, 4, 6, 6, 8]


@pytest.mark.parametrize("field", sorted(OWNED))
def test_a_field_of_palates_is_refused_by_its_name(field: str, body: Any, session: Session) -> None:
    file = body(json.dumps({"top_k": 20, field: 1}))
    with pytest.raises(SpecError, match=rf"^body {file}: {field} is palate's own; leave it out$"):
        build_scorer(f"judge:api:m?base_url=http://127.0.0.1:9/v1&body={file}", session)


def test_the_field_of_an_effort_is_a_files_where_no_effort_is_given(
    body: Any, session: Session
) -> None:
    file = body('{"reasoning_effort": "minimal"}')
    with Loopback(server()) as there:
        judged(there, session, f"&body={file}")
        with pytest.raises(SpecError, match="reasoning_effort is what effort= sends"):
            judged(there, session, f"&body={file}&effort=low")
    assert {seen["reasoning_effort"] for _, seen in there.seen} == {"minimal"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON: Expecting value"),
        ("[1]", "expected a JSON object of fields"),
        ("{}", "expected a JSON object of fields"),
        ('{"top_k": NaN}', "no JSON: Out of range"),
        ('{"top_k": 1e999}', "no JSON: Out of range"),
        ('{"top_k": 1, "top_k": 2}', "no JSON: a field is there twice"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_file_that_is_no_object_is_refused(
    text: str, reason: str, body: Any, session: Session
) -> None:
    file = body(text)
    with pytest.raises(SpecError, match=f"^body {file}: {reason}"):
        build_scorer(f"rating:api:m?base_url=http://127.0.0.1:9/v1&body={file}", session)


@pytest.mark.parametrize("option", ["effort=low", "body=mine.json"])
@pytest.mark.parametrize("kind", ["judge", "rating", "plan", "rubric-judge"])
def test_a_model_in_this_process_has_no_such_fields(
    kind: str, option: str, tiny: Any, session: Session, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text('{"top_k": 1}')
    build = {"plan": build_context, "rubric-judge": build_quality}.get(kind, build_scorer)
    with pytest.raises(SpecError, match=f"{option.partition('=')[0]} is an option of endpoints"):
        build(f"{kind}:{tiny.model()}?{option}", session)


def test_verdicts_of_a_server_that_holds_replies_are_json(session: Session) -> None:
    with Loopback(server(holds=lambda body: True)) as there:
        scorer, made = judged(there, session, "&verdict=json")
        rated, scores = judged(there, session, "&verdict=json&scale=1-5", "rating")
    assert (made.margin, made.raw[0]) == (1.0, '{"verdict": "A", "reason": "Tea."}') or (
        made.margin,
        made.raw[0],
    ) == (1.0, '{"reason": "Tea.", "verdict": "A"}')
    assert made.verdict(0).outcome is Outcome.CHOSEN
    assert scores.reasons == ("unreadable: rating 7 is outside 1 to 5",) * 2
    tried, bodies = asked(there)
    assert len(tried) == 1, "it is tried once"
    held = [body["response_format"]["json_schema"]["schema"] for body in bodies]
    assert held[0]["properties"] == {
        "reason": {"type": "string"},
        "verdict": {"type": "string", "enum": ["A", "B"]},
    }
    assert held[2]["properties"]["rating"] == {"type": "integer", "enum": [1, 2, 3, 4, 5]}
    assert all(body["response_format"]["json_schema"]["strict"] for body in bodies)
    assert scorer.notes() == rated.notes() == ()
    text = build_scorer(f"judge:api:m?base_url={there.url}/v1", session)
    assert scorer.info.fingerprint != text.info.fingerprint


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (server(), "response_format was ignored"),
        (server(lambda body: "response_format" not in body), "response_format was refused"),
    ],
)
def test_a_server_that_holds_none_is_asked_in_text_and_a_note_says_so(
    answer: Any, why: str, session: Session
) -> None:
    with Loopback(answer) as there:
        scorer, made = judged(there, session, "&verdict=json")
        _, same = judged(there, session)
    assert made == same
    assert not any("response_format" in body for body in asked(there)[1])
    assert scorer.notes() == (f"m holds no reply to a schema ({why}); it was asked as in text",)


def test_a_model_in_this_process_holds_no_reply(tiny: Any, session: Session) -> None:
    for kind, build in (("judge", build_scorer), ("rubric-judge", build_quality)):
        with pytest.raises(SpecError, match="verdict=json: a server holds replies to a schema"):
            build(f"{kind}:{tiny.model()}?verdict=json", session)


def test_the_papers_rule_reads_written_verdicts_alone(session: Session) -> None:
    spec = "judge:api:m?base_url=http://127.0.0.1:9/v1&protocol=paper&verdict=json"
    with pytest.raises(SpecError, match="protocol=paper reads written verdicts only"):
        build_scorer(spec, session)


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ('{"verdict": "B"}', "B"),
        ('  {"reason": "Verdict: A", "verdict": "tie"}\n', "tie"),
        ('<think>{"verdict": "A"}</think>\n{"verdict": "B"}', "B"),
        ("Because.\nVerdict: B", "B"),
        ('{"verdict": "C"}', None),
        ('{"verdict": "A", "verdict": "B"}', None),
        ('{"reason": "Tea."}', None),
        ('{"verdict": "A"', None),
        ('["verdict", "A"]', None),
        ("7", None),
        ("", None),
    ],
)
def test_json_is_read_by_the_parser_of_lines(reply: str, verdict: str | None) -> None:
    if verdict is None:
        with pytest.raises(Unreadable):
            parse_verdict(label_line(reply, "verdict"))
    else:
        assert parse_verdict(label_line(reply, "verdict")) == verdict


def test_json_where_text_is_asked_for_is_no_verdict(session: Session) -> None:
    judge = build_scorer("judge:api:m?base_url=http://127.0.0.1:9/v1", session)
    judge.answers.model.endpoint = ScriptedChat(lambda ask: Reply('{"verdict": "A"}'))
    ((_, made),) = judge.judge([SLATE])
    assert made.reason == "unreadable: the last line is no verdict"


@pytest.mark.parametrize("option", ["effort=low", "verdict=json"])
def test_a_file_of_requests_needs_to_know_what_the_server_takes(
    option: str, tmp_path: Path
) -> None:
    takes = strict("reasoning_effort", *EFFORT)
    with Loopback(server(takes, holds=lambda body: True)) as there:
        spec = f"judge:api:m?base_url={there.url}/v1&{option}"
        words = ("evaluate", "-b", "tasting", "--limit", "2", "-s", spec, "-c", "none")
        later = ("--cache", "replies", "--requests", "requests.jsonl")
        env = {"PALATE_CACHE": str(tmp_path / "cache")}
        first = typed(*words, *later, cwd=tmp_path, **env)
        assert (first.returncode, len(there.seen)) == (UsageError.exit_code, 0), first.stderr
        assert "--requests sends nothing" in first.stderr
        assert typed(*words, cwd=tmp_path, **env).returncode == 0
        seen = len(there.seen)
        again = typed(*words, "--seed", "1", *later, cwd=tmp_path, **env)
        assert (again.returncode, len(there.seen)) == (0, seen), again.stderr
    lines = (tmp_path / "requests.jsonl").read_text().splitlines()
    field = "reasoning_effort" if option == "effort=low" else "response_format"
    assert lines
    assert all(field in json.loads(line)["body"] for line in lines)
