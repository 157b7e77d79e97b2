"""Posts shown as earlier turns, through scorers that read a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from palate.records import Message, Part, Settings, Slate, prepare
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
