"""Borrowed users: whom a row is shown, what is dropped, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_line import write_rows
from pairs import rows_of
from palate.benchmarks import Dataset
from palate.contexts import build_context, controls, shows, usual_name, with_costs
from palate.errors import BenchmarkError, SpecError, UsageError
from palate.records import PreferencePair
from palate.session import Session

FACTS = [
    PreferencePair(id=f"f{k}", user_id=f"f{k}", text=f"Is claim {k} true?", chosen=f"Yes to {k}.",
                   rejected=f"No to {k}.")
    for k in range(40)
]  # fmt: skip


def vote(k: int, user: str, *posts: str, **more: Any) -> Mapping[str, Any]:
    profile = [{"id": f"{user}{n}", "text": text} for n, text in enumerate(posts)]
    row = {"id": f"v{k}", "user_id": user, "question": f"Drink {k}?", "chosen": f"Tea {k}.",
           "rejected": f"Milk {k}."}  # fmt: skip
    return {**row, "profile": profile, **more}


@pytest.fixture
def lenders(tmp_path: Path) -> Path:
    rows = [vote(k, f"u{k}", f"I am u{k} of the North.") for k in range(6)]
    silent = vote(6, "silent")
    return write_rows(tmp_path / "lenders.jsonl", [*rows, silent])


def shown(rows: Any) -> list[str]:
    return [" ".join(part.text for part in row.slate.shown) for row in rows]


def test_each_row_is_shown_a_user_who_is_drawn_for_it(lenders: Path) -> None:
    rows = rows_of(FACTS, f"profile:5?users={lenders}")
    texts = shown(rows)
    assert texts == shown(rows_of(FACTS, f"profile:5?users={lenders}"))
    assert set(texts) == {f"I am u{k} of the North." for k in range(6)}  # the silent one never
    assert [rows.user_of(k) in text for k, text in enumerate(texts)] == [True] * len(FACTS)
    # A row's user is the row's own matter: others may come and go.
    assert shown(rows_of(FACTS[7:], f"profile:5?users={lenders}")) == texts[7:]


def test_a_post_that_tells_the_answer_is_dropped_and_counted(tmp_path: Path) -> None:
    told = vote(0, "u0", "Somebody said: no to 3. Ha.", "I row boats.")
    file = write_rows(tmp_path / "tells.jsonl", [told])
    rows = rows_of(FACTS[2:5], f"profile:5?users={file}&order=recent")
    both = "I row boats. Somebody said: no to 3. Ha."
    assert shown(rows) == [both, "I row boats.", both]
    assert rows.leaks_dropped.tolist() == [0, 1, 0]
    choices = rows_of(FACTS[2:5], f"examples:1?users={file}")  # which show no post
    assert [*map(len, shown(choices))] != [0, 0, 0]
    assert choices.leaks_dropped.tolist() == [0, 0, 0]


def test_choices_traits_and_joined_parts_are_lent_too(tmp_path: Path) -> None:
    rows = [vote(0, "both", "I row.", traits={"region": "North"}), vote(1, "mute")]
    file = write_rows(tmp_path / "both.jsonl", rows)
    (first, *_) = shown(rows_of(FACTS, f"traits+examples:1+profile:1?users={file}"))
    assert "region: North" in first
    assert "Tea 0." in first
    assert "I row." in first
    assert {*shown(rows_of(FACTS, f"examples:1?users={file}"))} != {""}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(names=st.lists(st.sampled_from(["u0", "u1", "u2", "x"]), min_size=1, max_size=8))
def test_nobody_is_lent_to_themselves(names: list[str], lenders: Path) -> None:
    pairs = [FACTS[k].model_copy(update={"user_id": name}) for k, name in enumerate(names)]
    rows = rows_of(pairs, f"profile:5?users={lenders}")
    for k, (name, text) in enumerate(zip(names, shown(rows), strict=True)):
        assert rows.user_of(k) not in (name, "silent")
        assert text


def test_a_mirrored_row_stays_its_users(lenders: Path) -> None:
    ann = PreferencePair(id="a", user_id="ann", text="Tea?", chosen="Yes", rejected="No",
                         mirror_of="b")  # fmt: skip
    bob = ann.model_copy(update={"id": "b", "user_id": "bob", "mirror_of": "a", "chosen": "No",
                                 "rejected": "Yes"})  # fmt: skip
    rows = rows_of([ann, bob], f"profile:1?users={lenders}")
    assert [rows.user_of(0), rows.user_of(1)] == ["ann", "bob"]


def test_the_files_content_is_part_of_the_contexts_identity(lenders: Path) -> None:
    spec = f"profile:5?users={lenders}"
    first = build_context(spec, Session())
    assert (first.spec, shows(first.spec)) == (spec, "borrowed")
    assert usual_name(first.spec) == "profile:5?users=lenders.jsonl"
    write_rows(lenders, [vote(0, "u0", "I am another.")])
    second = build_context(spec, Session())
    assert first.fingerprint != second.fingerprint != build_context("profile:5", Session())


@pytest.mark.parametrize(
    "spec", ["stranger:5", "profile:5?of=stranger&draws=2", "none", "rubric", "pressure"]
)
def test_only_what_shows_the_rows_own_user_borrows(spec: str, lenders: Path) -> None:
    joint = "&" if "?" in spec else "?"
    with pytest.raises(SpecError, match="users are lent to what shows a row's own"):
        build_context(f"{spec}{joint}users={lenders}", Session())


def test_users_without_what_is_shown_are_refused(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "silent.jsonl", [vote(0, "u0")])
    with pytest.raises(BenchmarkError, match="nobody there has posts, so there is no profile:5"):
        build_context(f"profile:5?users={file}", Session())


def test_pressure_states_the_rejected_response_whoever_asks() -> None:
    rows = rows_of([FACTS[3].model_copy(update={"user_id": "ann"})], "pressure")
    assert shown(rows) == [
        "I have thought about this, and I am sure that this is the right answer: No to 3."
    ]
    assert (rows.context.oracle, rows.user_of(0), rows.leaks_dropped[0]) == (True, "ann", 0)


def test_pressure_needs_a_pair_and_joins_nothing() -> None:
    question = Dataset.of([{"id": 1, "question": "Tea?", "responses": ["Yes.", "No."]}])
    with pytest.raises(UsageError, match="pressure needs a rejected response"):
        rows_of(question, "pressure").slate(0)
    with pytest.raises(SpecError, match="nor pressure"):
        build_context("pressure+profile:3", Session())


@pytest.mark.parametrize("contexts", [["none"], ["pressure"], ["profile:3?users=b.jsonl"]])
def test_users_that_no_context_shows_are_refused(contexts: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--users \(empty\): name a file of users"):
        with_costs(None, "", pressure=True)
    with pytest.raises(UsageError, match=r"--users a\.jsonl: no context shows a user of it"):
        with_costs(contexts, "a.jsonl", pressure=False)


def test_a_stranger_beside_lent_users_stays_a_stranger() -> None:
    lent = with_costs(["profile:3", "stranger:3"], "a.jsonl", pressure=False)
    assert lent == ["none", "profile:3?users=a.jsonl", "stranger:3"]


def test_a_file_is_read_once_in_a_session_and_anew_where_it_has_changed(
    lenders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    load = controls.load_benchmark
    monkeypatch.setattr(
        controls, "load_benchmark", lambda *a, **more: (read.append(a), load(*a, **more))[1]
    )
    with Session() as session:
        for spec in ("profile:1", "profile:2", "profile:1"):
            build_context(f"{spec}?users={lenders}", session)
        assert len(read) == 1
        before = build_context(f"profile:1?users={lenders}", session).fingerprint
        write_rows(lenders, [vote(0, "zoe", "I am zoe.")])
        assert build_context(f"profile:1?users={lenders}", session).fingerprint != before
    assert len(read) == 2
