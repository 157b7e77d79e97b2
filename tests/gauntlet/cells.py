"""The cells of the gauntlet: what a scorer gives for a family, held against plain transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from families import FAMILIES
from plain import Neighboured, Plain
from shelf import Shelf
from variants import END, EOS, VARIANTS, copied, new_end, variant

from palate.engines import LocalModel, ReadMode
from palate.errors import PalateError
from palate.prompts import render
from palate.records import Settings, Slate
from palate.scorers import build_scorer
from palate.session import Session
from palate.specs import Reference
from tiny import make_slate

TOLERANCE = 1e-4
SHOWS = 1e-3
"""What a wrong reading must differ by at least."""
POSTS = (
    "I cook on an open fire, eat late, and cannot stand recipes that need a scale.",
    "My kettle sings at midnight.",
)
LONG = "A slow stew of beans, left on the embers until midnight. " * 12
"""Longer than the windows and limits of positions that the families have."""
SLATES = (
    make_slate("Tea.", "Coffee, black, in a tin mug.", "Neither: " + "late " * 9, shown=POSTS),
    make_slate("Tea, then.", "Coffee?", shown=POSTS),
    make_slate("Beans.", LONG, shown=POSTS[1:], question="What is for dinner?"),
    make_slate("Black tea at 7.", "A scale", shown=POSTS[:1], question="Béans or rice?"),
)
"""Two share what is shown; one response is longer than all else together."""
MARKED = tuple(
    make_slate(
        "<b>Tea</b>, at 7.", "A <br> scale", shown=POSTS[k:], question="<b>Béans</b> or rice?"
    )
    for k in (0, 1)
)
"""With marks of HTML, which are text."""
PAIRS = tuple(
    slate.replace(candidates=two) for slate in SLATES for two in combinations(slate.candidates, 2)
)
DENSE = ReadMode(False, "told so")
FLOAT32 = Settings(dtype="float32")
"""On an accelerator too, where the default is bfloat16."""
WHOLE = 4096
REPLY = 8
"""Tokens of a reply."""
LONG_REPLY = 24
"""Tokens among which one is no part of a prompt."""

Numbers = Sequence[Sequence[float]]


class Wrong(AssertionError):
    """Numbers that differ from those of plain transformers."""


class Column(NamedTuple):
    """A scorer: the folder it reads, its spec, and the same number by plain transformers."""

    folder: Callable[[Shelf, str, str | None], str]
    spec: str
    number: Callable[[Plain, Slate], list[float]]
    head: str = "causal"
    slates: Sequence[Slate] = SLATES
    reference: bool = False
    """Whether the number of a second model is taken off."""
    cuts: Sequence[tuple[int, bool]] = ((64, False),)
    """Tokens at a time, and whether sequences are padded that could be read as a tree."""


def _rewards(outputs: int, output: int) -> Column:
    return Column(
        lambda shelf, name, tokenizer: shelf.classifier(name, outputs, tokenizer),
        "classifier:{}" if outputs == 1 else f"classifier:{{}}?head={output}",
        lambda plain, slate: plain.reward(slate, output),
        "classifier",
    )


_causal = Shelf.language_model
ALL_CUTS = ((64, False), (333, False), (333, True))
_first_reward = _rewards(1, 0)
COLUMNS = {
    "likelihood": Column(_causal, "likelihood:{}", Plain.likelihood, cuts=ALL_CUTS),
    "lift": Column(_causal, "lift:{}", Plain.lift),
    "implicit": Column(_causal, "implicit:{}?reference={}", Plain.autoregressive, reference=True),
    "autoregressive": Column(_causal, "autoregressive:{}", Plain.autoregressive),
    "judge": Column(_causal, "judge:{}?verdict=logits", Plain.judge, slates=PAIRS),
    "rating": Column(_causal, "rating:{}?verdict=logits", Plain.rating),
    "1 label": _first_reward._replace(cuts=ALL_CUTS),
    "2 labels": _rewards(2, 1)._replace(cuts=()),
    "5 labels": _rewards(5, 3)._replace(cuts=()),
    "steps": _rewards(2, 1)._replace(folder=Shelf.step_classifier),
    "similarity": Column(Shelf.embedder, "similarity:{}", Plain.similarity, "embedder"),
    "classifier of no head": _first_reward._replace(folder=_causal),
    "likelihood of a classifier": Column(
        lambda shelf, name, tokenizer: shelf.classifier(name, 1, tokenizer),
        "likelihood:{}",
        Plain.likelihood,
    ),
}
LOADERS = {
    "causal": "AutoModelForCausalLM",
    "classifier": "AutoModelForSequenceClassification",
    "embedder": "AutoModel",
}


class Cells:
    """The cells of one family, whose models are loaded once."""

    def __init__(self, shelf: Shelf, name: str, tokenizer: str | None = None) -> None:
        self.shelf, self.name, self.tokenizer = shelf, name, tokenizer
        self.session = Session(store=shelf.root / "store")
        self._plain = cache(Plain)

    def outcome(self, column: str, *, lightly: bool = False) -> str:
        """Return `equal`, or `refused: why`; raises `Wrong` where a number differs.

        The column `reads` tells how the models are read. `lightly` reads two slates, one with the
        long response, together and each alone, and makes no cuts.
        """
        if column == "reads":
            return self._reads()
        if column in VARIANTS or column == END:
            return self._varied(column)
        if column == "replies":
            folder = self._folder(_causal)
            return self._outcome(folder, lambda: self._compare_replies(folder))
        how = COLUMNS[column]
        if lightly:
            how = how._replace(slates=how.slates[-2:], cuts=())
        folder = self._folder(how.folder)
        return self._outcome(folder, lambda: self._compare(how, folder))

    def _reads(self) -> str:
        for column in ("likelihood", "1 label"):
            how = COLUMNS[column]
            with suppress(PalateError):
                return str(self._loaded(self._folder(how.folder), how.head).read_mode)
        raise AssertionError(f"{self.name}: neither a language model nor a classifier")

    def _varied(self, column: str) -> str:
        how = COLUMNS["likelihood" if FAMILIES[self.name].kind == "decoder" else "1 label"]
        if column == END:
            return self._ends()
        folder, plain = variant(column, self._folder(how.folder), self.name)
        slates = MARKED if column == "HTML tokens" else how.slates[-2:]
        light = how._replace(slates=slates, cuts=())
        return self._outcome(folder, lambda: self._compare(light, folder, plain))

    def _ends(self) -> str:
        """Make a token that the model writes the tokenizer's end: no settings of it name it."""
        folder = copied(self._folder(_causal), "ends")
        plain = Plain(folder, LOADERS["causal"], FAMILIES[self.name].kind)
        if plain.kind == "decoder":
            prompts = [render(slate.question, slate.shown) for slate in SLATES]
            end, k = new_end(plain, prompts, LONG_REPLY)
            ended = Plain(folder, LOADERS["causal"], plain.kind)
            ended.model.generation_config.eos_token_id = [EOS, end]
            if ended.reply(prompts[k], LONG_REPLY) == plain.reply(prompts[k], LONG_REPLY):
                raise Wrong("the end shows nowhere")
            plain = ended
        return self._outcome(folder, lambda: self._compare_replies(folder, plain, LONG_REPLY))

    def _folder(self, of: Callable[[Shelf, str, str | None], str]) -> str:
        return of(self.shelf, self.name, self.tokenizer)

    def _outcome(self, folder: str, compare: Callable[[], None]) -> str:
        try:
            compare()
        except PalateError as error:
            assert "\n" not in str(error)
            return f"refused: {str(error).replace(folder, 'MODEL')}"
        return "equal"

    def _loaded(self, folder: str, head: str) -> LocalModel:
        return self.session.model(Reference.parse(folder), head, FLOAT32)

    def _compare(self, how: Column, folder: str, plain: Plain | None = None) -> None:
        folders = [folder]
        if how.reference:
            folders.append(self.shelf.language_model(self.name, self.tokenizer, seed=8))
        scorer = build_scorer(how.spec.format(*folders), self.session, FLOAT32)
        together = _numbers(scorer, how.slates)  # refuses first where it refuses
        kind = FAMILIES[self.name].kind
        models = [plain or self._plain(it, LOADERS[how.head], kind) for it in folders]
        expected = _expected(how, models)
        some = how._replace(slates=how.slates[:2])
        broken = _expected(some, [Neighboured(it) for it in models])
        shows = max(_apart(a, b) for a, b in zip(expected, broken, strict=False))
        if shows < SHOWS:
            raise Wrong(f"a wrong reading would differ by {shows:.1g} alone")
        _hold("together", together, expected)
        for k in {0, len(how.slates) - 2}:  # the latter has the long response
            _hold(f"slate {k} alone", _numbers(scorer, [how.slates[k]]), expected[k : k + 1])
        if how.head == "embedder":
            return
        loaded = [self._loaded(it, how.head) for it in folders]
        own = loaded[0].read_mode
        try:
            for budget, dense in how.cuts:
                if dense and not own.tree:
                    continue
                for model in loaded:
                    model.budget, model.read_mode = budget, DENSE if dense else own
                turned = _numbers(scorer, how.slates[::-1])[::-1]
                _hold(f"{budget} tokens, {loaded[0].read_mode}", turned, expected)
        finally:
            for model in loaded:
                model.budget, model.read_mode = WHOLE, own

    def _compare_replies(
        self, folder: str, plain: Plain | None = None, tokens: int = REPLY
    ) -> None:
        model = self.session.language_model(folder, FLOAT32)
        prompts = [render(slate.question, slate.shown) for slate in SLATES]
        found = {
            k: it.text for k, _, it in model.generate([[p] for p in prompts], max_tokens=tokens)
        }
        shared = {j: it.text for _, j, it in model.generate([prompts], max_tokens=tokens)}
        alike_is_wrong = plain is None
        plain = plain or self._plain(folder, LOADERS["causal"], FAMILIES[self.name].kind)
        expected = [plain.reply(messages, tokens) for messages in prompts]
        if alike_is_wrong and len(set(expected)) == 1:
            raise Wrong("all replies are alike")
        for replies in (found, shared):
            if [replies[k] for k in range(len(prompts))] != expected:
                raise Wrong(f"replies {replies} and not {expected}")


def _expected(how: Column, models: Sequence[Plain]) -> Numbers:
    first, *others = ([how.number(it, slate) for slate in how.slates] for it in models)
    for other in others:
        first = [
            [a - b for a, b in zip(*two, strict=True)] for two in zip(first, other, strict=True)
        ]
    return first


def _numbers(scorer: Any, slates: Sequence[Slate]) -> Numbers:
    if hasattr(scorer, "judge"):
        verdicts = dict(scorer.judge(slates))
        return [[verdicts[k].margin] for k in range(len(slates))]
    scores = dict(scorer.score(slates))
    return [scores[k].values for k in range(len(slates))]


def _hold(when: str, found: Numbers, expected: Numbers) -> None:
    for k, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if not (apart := _apart(ours, theirs)) <= TOLERANCE:
            raise Wrong(f"{when}: slate {k} differs by {apart:.1g}")


def _apart(ours: Iterable[float], theirs: Iterable[float]) -> float:
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
