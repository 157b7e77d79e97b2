"""Words of a file in the place of a shipped prompt: what they must hold, and what they change."""

from __future__ import annotations

import pickle
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import palate
from command_line import palate as typed
from palate.contexts import build_context
from palate.errors import SpecError
from palate.prompts import (
    PROMPTS,
    Wording,
    aspect_prompt,
    described,
    pair_prompt,
    persona_prompt,
    plan_prompt,
    rating_prompt,
)
from palate.prompts.rendering import source_of
from palate.prompts.wording import VARIABLES
from palate.quality import build_quality
from palate.records import Part, RubricAspect
from palate.scorers import build_scorer
from palate.session import Session, default_session
from palate.specs import Spec, SpecFile
from tiny import make_slate

API = "api:m?base_url=http://127.0.0.1:9/v1"
SCALES: dict[str, dict[str, int]] = {
    "rating": {"low": 1, "high": 9},
    "rubric-judge": {"low": 0, "high": 2},
}
MINE = """\
{{ about }}

Answer A:
{{ first }}

Answer B:
{{ second }}

{% if form == "text" %}End with a line: Verdict: A or Verdict: B{% else %}A or B?{% endif %}
"""
BRACKETS = """\
{% for part in parts %}{{ part.kind }}: {{ part.text }}
{% endfor %}{{ question }}
[A] {{ first }} [B] {{ second }}
Choose **A** or **B**, as in **Verdict**: A"""
RATES = "{{ about }}\n{{ response }}\nEnd with `Rating: N`, from {{ low }} to {{ high }}."
ASPECT = "{{ question }}\n{{ response }}\n{{ aspect }}\nRating: 0, 1 or 2?"


def file_of(text: str, path: str = "mine.jinja") -> SpecFile:
    return SpecFile("prompt", path, text, sha256(text.encode()).hexdigest())


def shipped(kind: str) -> str:
    return source_of(f"{PROMPTS[kind].template}.jinja")


@pytest.mark.parametrize("form", ["text", "letter"])
@pytest.mark.parametrize("kind", PROMPTS)
def test_what_is_shipped_passes_as_a_file_does_and_is_the_same(kind: str, form: str) -> None:
    made = Wording.of(kind, file_of(shipped(kind)), form=form, **SCALES.get(kind, {}))
    assert made.hash == Wording(kind).hash
    assert Wording.of(kind, None) == Wording(kind)


@pytest.mark.parametrize("form", ["text", "letter"])
@pytest.mark.parametrize("text", [MINE, BRACKETS])
def test_other_words_pass_and_have_another_hash(text: str, form: str) -> None:
    made = Wording.of("judge", file_of(text), form=form)
    assert made.hash != Wording("judge").hash
    assert pickle.loads(pickle.dumps(made)) == made, "workers get it"


BROKEN = {
    "no question": ("judge", MINE.replace("about", "first"), "leaves out `question`"),
    "no user": ("judge", MINE.replace("about", "question"), "leaves out a shown post"),
    "posts alone": (
        "judge",
        BRACKETS.replace("in parts", "in parts if part.kind == 'post'"),
        "leaves out a shown plan of the user",
    ),
    "no first": ("judge", MINE.replace("{{ first }}", ""), "leaves out `first`"),
    "no second": ("judge", MINE.replace("{{ second }}", ""), "leaves out `second`"),
    "second twice": ("judge", MINE.replace("first", "second"), "leaves out `first`"),
    "cut off": ("judge", MINE.replace("first", "first[:4000]"), "`first`, .* or a piece of it"),
    "first line": (
        "judge",
        MINE.replace("{{ second }}", "{{ second.splitlines() | first }}"),
        "leaves out `second`",
    ),
    "escaped": ("judge", MINE.replace("{{ first }}", "{{ first | e }}"), "leaves out `first`"),
    "upper case": ("judge", MINE.replace("second }}", "second | upper }}"), "leaves out `second`"),
    "unknown": ("judge", MINE + "{{ answer_a }}", r"reads 'answer_a', which a judge has not; it"),
    "of another kind": ("judge", MINE + "{{ response }}", "reads 'response'"),
    "one order": (
        "judge",
        re.sub("{{ (first|second) }}", r"{{ ([first, second] | sort)[('\1' == 'second') | int] }}",
               MINE),
        "shows the responses in one order only",
    ),
    "tells which is which": (
        "judge",
        MINE + "{% if first < second %}Think twice.{% endif %}",
        "shows the responses in one order only",
    ),
    "labels exchanged": (
        "judge",
        MINE.replace("r A:", "r C:").replace("r B:", "r A:").replace("r C:", "r B:"),
        "shows `first` without A before it",
    ),
    "no labels": (
        "judge",
        MINE.replace("Answer A:", "One answer:").replace("Answer B:", "The other:"),
        "shows `first` without A before it",
    ),
    "one label for both": (
        "judge",
        MINE.replace("Answer B:", "Answer A:"),
        "shows `second` without B before it",
    ),
    "one verdict": ("judge", MINE.replace(" or Verdict: B", ""), "may name B"),
    "no verdict": ("judge", MINE.replace("Verdict: ", "Winner: "), "a line `Verdict: …`"),
    "syntax": ("judge", MINE + "{% if %}", "line 10: Expected an expression"),
    "filter": ("judge", MINE + "{{ first | shout }}", "line 10: No filter named 'shout'"),
    "drawn": ("judge", MINE + "{{ [1, 2] | random }}", "No filter named 'random'"),
    "include": ("judge", MINE + "{% include 'judge.jinja' %}", "includes, imports or extends"),
    "import": ("judge", MINE + "{% import 'a' as x %}", "includes, imports or extends"),
    "fails": ("judge", MINE + "{{ first / 0 }}", "fails: unsupported operand"),
    "fails shown nothing": ("judge", MINE + "{{ parts[0].text }}", "fails: .* has no element 0"),
    "escapes": ("judge", MINE + "{{ first.__class__.__mro__ }}", "fails: .*unsafe"),
    "endless": (
        "judge",
        MINE + "{% for k in range(10 ** 9) %}{% endfor %}",
        "fails: Range too big",
    ),
    "no response": ("rating", RATES.replace("response", "about"), "leaves out `response`"),
    "no rating": ("rating", RATES.replace("Rating", "Score"), "a line `Rating: …`"),
    "no scale": ("rating", RATES.replace("{{ high }}", "ten"), "may name 9"),
    "no aspect": ("rubric-judge", ASPECT.replace("{{ aspect }}", ""), "leaves out `aspect`"),
    "half a scale": ("rubric-judge", ASPECT.replace("0, 1 or 2", "0 or 1"), "may name 2"),
    "nobody": ("persona", "Describe somebody.", "leaves out a shown post"),
    "no plan's question": ("plan", "{% for p in parts %}{{ p.text }}{% endfor %}", "`question`"),
    "a plan for nobody": ("plan", "{{ question }}", "leaves out a shown post"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_its_name_and_in_one_line(name: str) -> None:
    kind, text, reason = BROKEN[name]
    with pytest.raises(SpecError, match=reason) as caught:
        Wording.of(kind, file_of(text), form="text", **SCALES.get(kind, {}))
    assert str(caught.value).startswith("prompt mine.jinja: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("kind", "text"), [("rating", RATES), ("rubric-judge", ASPECT)])
def test_what_the_broken_files_were_made_of_is_whole(kind: str, text: str) -> None:
    Wording.of(kind, file_of(text), form="text", **SCALES[kind])
    Wording.of(kind, file_of(text), form="letter", **SCALES[kind])


def test_a_file_that_fails_on_a_real_text_says_so() -> None:
    made = Wording.of("judge", file_of(MINE + "{{ 1 / (question | length - 14) }}"), form="text")
    with pytest.raises(SpecError, match=r"^prompt mine.jinja: fails: division by zero$"):
        pair_prompt(make_slate("Tea.", "Mate", shown=["I like it."]), 1, 0, "text", made)


PLAIN = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\u2028\u2029\x85\x0b\x0c"), min_size=1
)


@given(first=PLAIN, second=PLAIN, post=PLAIN, question=PLAIN)
def test_every_prompt_of_a_copy_is_the_shipped_one(
    first: str, second: str, post: str, question: str
) -> None:
    slate = make_slate(first, second, shown=[post], question=question)
    copies = {kind: Wording(kind, file_of(described(kind), "copy.jinja")) for kind in PROMPTS}
    parts = (Part(kind="post", text=post),)
    aspect = RubricAspect(aspect=second, reason=post)

    def prompts(words: dict[str, Wording]) -> list[Any]:
        return [
            pair_prompt(slate, 0, 1, "text", *_of(words, "judge")),
            rating_prompt(slate, 0, "letter", 1, 5, *_of(words, "rating")),
            aspect_prompt(question, post, first, aspect, "text", *_of(words, "rubric-judge")),
            persona_prompt(parts, *_of(words, "persona")),
            plan_prompt(question, parts, *_of(words, "plan")),
        ]

    assert prompts(copies) == prompts({})


def _of(words: dict[str, Wording], kind: str) -> tuple[Wording, ...]:
    return (words[kind],) if words else ()


@pytest.fixture
def rows() -> palate.Dataset:
    pairs = [
        palate.PreferencePair(
            id=f"r{k}",
            user_id=f"u{k % 3}",
            text=f"Which tea on day {k}?",
            chosen="Assam, hot." if k % 2 else "No tea, thanks.",
            rejected="Mint <b>tea</b>, cold & sweet.",
            profile=[palate.Post(id=f"p{k}", text=f"I wrote {k} letters about tea.")],
        )
        for k in range(6)
    ]
    return palate.Dataset("teas", tuple(pairs))


@pytest.mark.parametrize("scorer", ["judge", "rating"])
def test_a_copy_of_the_shipped_file_gives_the_same_bytes_of_scores(
    tiny: Any, rows: palate.Dataset, tmp_path: Path, scorer: str
) -> None:
    copy = tmp_path / "copy.jinja"
    copy.write_text(shipped(scorer))
    other = tmp_path / "other.jinja"
    other.write_text(shipped(scorer).replace("Judge", "Tell").replace("Rate", "Tell"))
    folder = tiny.model()
    texts = {}
    for name in (None, copy, other):
        options = {"verdict": "logits"} | ({} if name is None else {"prompt": str(name)})
        spec = str(Spec(kind=scorer, reference=str(folder), options=options))
        with Session(store=tmp_path / f"store-{name and name.stem}") as session:
            run = palate.evaluate(
                rows, spec, "profile:1", root=tmp_path / f"of-{name and name.stem}", session=session
            )
        texts[name] = (run.folder / "rows.jsonl").read_bytes(), run
    assert texts[None][0] == texts[copy][0] != texts[other][0]
    for file in (copy, other):
        pin = sha256(file.read_bytes()).hexdigest()[:8]
        assert f"prompt={file}@{pin}" in texts[file][1].summary.scorer
    prints = [
        build_scorer(run.summary.scorer, default_session()).info.fingerprint
        for _, run in texts.values()
    ]
    assert prints[0] == prints[1] != prints[2]


def test_a_run_of_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(MINE)
    session = default_session()
    pinned = build_scorer(f"judge:{API}&prompt={file}", session).canonical
    assert build_scorer(pinned, session).canonical == pinned
    file.write_text(MINE + "Think first.")
    with pytest.raises(SpecError, match=rf"^prompt {file}: its content has changed: ") as caught:
        build_scorer(pinned, session)
    assert sha256(file.read_bytes()).hexdigest()[:8] in str(caught.value)


def test_a_name_that_ends_like_a_pin_is_the_file_of_that_name(tmp_path: Path) -> None:
    file = tmp_path / "mine@0123abcd"
    file.write_text(MINE)
    made = Spec.parse(f"judge:m?prompt={file}").file("prompt")
    assert made is not None
    assert (made.path, made.text) == (str(file), MINE)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"\xff\xfe", "can't decode"), ("folder", "Is a directory")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: Any, reason: str) -> None:
    file = tmp_path / "mine.jinja"
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    with pytest.raises(SpecError, match=rf"^prompt {file}: .*{reason}"):
        build_scorer(f"rating:{API}&prompt={file}", default_session())


@pytest.mark.parametrize("kind", PROMPTS)
def test_every_kind_takes_a_file_and_names_it(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(shipped(kind).replace("You will see", "Here is"))
    session, spec = default_session(), f"{kind}:{API}&prompt={file}"
    if kind in ("judge", "rating"):
        scorers = [build_scorer(text, session) for text in (spec, f"{kind}:{API}")]
        names = [scorer.canonical for scorer in scorers]
        prints = [scorer.info.fingerprint for scorer in scorers]
    else:
        build = build_quality if kind == "rubric-judge" else build_context
        made = [build(text, session) for text in (spec, f"{kind}:{API}")]
        names, prints = [it.spec for it in made], [it.fingerprint for it in made]
    pin = sha256(file.read_bytes()).hexdigest()[:8]
    assert f"prompt={file}@{pin}" in names[0]
    assert "prompt" not in names[1]
    assert prints[0] != prints[1]


def test_the_judge_of_released_scripts_has_its_own_words_for_all_titles(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(ASPECT)
    with pytest.raises(SpecError, match="unknown option 'prompt'"):
        build_quality(f"rubric-judge:{API}&protocol=paper&prompt={file}", default_session())


@pytest.mark.parametrize("kind", PROMPTS)
def test_show_prints_every_variable_and_a_file_to_start_from(kind: str, tmp_path: Path) -> None:
    done = typed("show", "--template", kind, cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    for name in PROMPTS[kind].variables.split():
        assert sum(line.split() == [name, *VARIABLES[name].split()] for line in lines) == 1
    Wording.of(kind, file_of(done.stdout), form="text", **SCALES.get(kind, {}))


def test_show_refuses_a_template_that_does_not_exist(tmp_path: Path) -> None:
    done = typed("show", "--template", "jury", cwd=tmp_path)
    assert done.returncode == 2
    assert "--template jury: no such prompt; it is one of judge, rating" in done.stderr


def test_a_broken_file_ends_the_command_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text(MINE.replace("{{ second }}", ""))
    spec = f"judge:{API}&prompt=mine.jinja"
    done = typed("evaluate", "-b", "tasting", "-s", spec, "-c", "none", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "prompt mine.jinja: leaves out `second`" in done.stderr
