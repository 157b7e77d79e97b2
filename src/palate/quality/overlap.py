"""Overlap with the user's own reference text: ROUGE, chrF and BERTScore."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

from palate.engines import even_parts
from palate.errors import ModelError, SpecError
from palate.models import import_torch
from palate.quality.measure import QualityMetricBase, QualityScore, QuestionResponse, require
from palate.records import Question, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec
from palate.words import one_form, plain_words

FORMAT = 1
"""Raised when a measure's values change: ratings that were kept are then asked for again."""
ROUGE_N = {"rouge-1": 1, "rouge-2": 2}
NAMES = (*ROUGE_N, "rouge-l", "chrf", "bertscore")
WORD = re.compile(r"[a-z0-9]+")
OTHER_ALPHABETS = (
    "\u0370-\u1cff\u1f00-\u1fff\u2c80-\u2dff\u3005-\ua6ff\ua800-\uab2f\uab70-\ufaff\ufb13-\ufeff"
    "\uff66-\uffdc\U00010000-\U0001d3ff\U0001e000-\U0003ffff"
)
OTHER = re.compile(rf"[{OTHER_ALPHABETS}](?<=\w)")
PART = re.compile(rf"[a-z0-9]+|[{OTHER_ALPHABETS}]+")
ORDERS, BETA = 6, 2
AROUND = 2
"""Tokens around a text, which are not matched: one before it and one after."""


def overlap(spec: Spec, session: Session, settings: Settings) -> AgainstReference:
    """How close an answer is to the user's own text.

    Overlap with the user's own text: `overlap:rouge-1|rouge-2|rouge-l|chrf|bertscore`.

    Only BERTScore has an option, `?model=REF`.

    Raises `SpecError` for another name or option.
    """
    name = spec.need_reference("overlap:rouge-l")
    if name not in NAMES:
        raise SpecError(f"{spec}: {name!r} is not one of {', '.join(NAMES)}")
    spec.only({"model"} if name == "bertscore" else ())
    if name == "bertscore":
        return BertScore(spec, session, settings)
    return Chrf(spec) if name == "chrf" else Rouge(spec, name)


class AgainstReference(QualityMetricBase):
    """A number in [0, 1] for a response beside the row's `reference`.

    Subclasses give `value`, and `unusable` and `reads` where some references cannot be read.
    """

    needs = ("reference",)
    unusable: str | None = None
    """What a reference is that `reads` refuses."""

    def __init__(self, spec: Spec, details: dict[str, Any]) -> None:
        self.spec = str(spec)
        self.details = details | {"format": FORMAT}
        self.fingerprint = digest("overlap", self.details)

    @abstractmethod
    def value(self, response: str, reference: str) -> float:
        """Return how far two texts that are not blank overlap, from 0 to 1."""

    def reads(self, reference: str) -> bool:
        """Say whether this measure finds anything in a reference."""
        return bool(reference.strip())

    def check(self, rows: Sequence[Question]) -> None:
        """Raise `BenchmarkError` where rows have no reference, or one that is not read."""
        advice = "give every row its `reference`, or leave these rows out"
        require(rows, lambda row: not (row.gold.reference or "").strip(), "no `reference`", advice)
        if self.unusable is not None:
            advice = "take another measure, or leave these rows out"
            require(
                rows, lambda row: not self.reads(row.gold.reference or ""), self.unusable, advice
            )

    def _read(self, item: QuestionResponse) -> tuple[object, ...]:
        return (item.question.gold.reference, item.response)

    def _rated(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        # By reference, so that what is computed of one is kept only while it is read.
        for k in sorted(range(len(items)), key=lambda k: items[k].question.gold.reference or ""):
            overlap = self.value(items[k].response, items[k].question.gold.reference or "")
            yield k, QualityScore(value=min(1.0, max(0.0, overlap)))


class Rouge(AgainstReference):
    """`overlap:rouge-1|rouge-2|rouge-l`: F = 2PR / (P + R) of common n-grams, or of the longest
    common subsequence (Lin 2004).

    Words are runs of a–z and 0–9 in lower case, as in `rouge_score`, and those of `palate.words` in
    alphabets other than the Latin; there is no stemmer.
    """

    def __init__(self, spec: Spec, name: str) -> None:
        self.n = ROUGE_N.get(name)
        self.unusable = f"a `reference` without {self.n or 1} or more words"
        super().__init__(spec, {"measure": name, "use_stemmer": False})

    def reads(self, reference: str) -> bool:
        """Say whether the reference has words enough."""
        return len(_words(reference)) >= (self.n or 1)

    def value(self, response: str, reference: str) -> float:
        """Return the F-measure."""
        ours, theirs = _words(response), _words(reference)
        if self.n is not None:
            return _f_score(_ngrams(ours, self.n), _ngrams(theirs, self.n), beta=1)
        return 2 * _longest_common(ours, theirs) / (len(ours) + len(theirs))


class Chrf(AgainstReference):
    """`overlap:chrf`: the mean over n = 1 … 6 of F_n = (1 + β²) P R / (β² P + R), β = 2
    (Popović 2015, 2017).

    P and R are the shares of the response's and the reference's character n-grams that the other
    has too, each as often as both have it. White space plays no part, case does. An order that a
    text is too short for counts as 0 (sacrebleu's `eps_smoothing`).
    """

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, {"measure": "chrf", "orders": ORDERS, "beta": BETA})

    def value(self, response: str, reference: str) -> float:
        """Return the mean F."""
        pairs = zip(_characters(response), _latest_characters(reference), strict=True)
        return sum(_f_score(ours, theirs, BETA) for ours, theirs in pairs) / ORDERS


class BertScore(AgainstReference):
    """`overlap:bertscore?model=REF`: F1 of the tokens' best cosines (arXiv 1904.09675, section 3).

    Last hidden states in float32, no idf, no rescaling with a baseline; the tokens around a text
    are not matched. A text longer than the window is read in windows. A cosine below 0 counts, an
    F1 below 0 is 0.
    """

    unusable = "a `reference` of which the encoder's tokenizer makes no token"

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        if "model" not in spec.options:
            raise SpecError(
                f"{spec}: which encoder? Give one, as in overlap:bertscore?model=ORG/MODEL"
            )
        self.reference = Reference.parse(spec.options["model"])
        self.session = session
        exact = settings.model_copy(update={"dtype": "float32"})
        self._reader = session.reader(self.reference, exact)
        content, _, device = self._reader.weights
        # Of a reference: the responses to one come after another.
        self._latest_tokens = lru_cache(maxsize=1)(self._tokens)
        details = {"measure": "bertscore", "content": content, "device": device}
        super().__init__(spec, details | {"dtype": "float32", "layer": "last"})

    def reads(self, reference: str) -> bool:
        """Say whether the reference has a token; raises `ModelError` as `value` does."""
        return bool(self._frame and self._ids(reference))

    def value(self, response: str, reference: str) -> float:
        """Return F1, 0 without a token; raises `ModelError` for a model not read like BERT."""
        ours, theirs = self._tokens(response), self._latest_tokens(reference)
        if not (len(ours) and len(theirs)):
            return 0.0
        cosines = ours @ theirs.T
        precision = float(cosines.amax(dim=1).mean())
        recall = float(cosines.amax(dim=0).mean())
        if min(precision, recall) <= 0:
            return 0.0
        return 2 * precision * recall / (precision + recall)

    @cached_property
    def _frame(self) -> tuple[int, int]:
        """The tokens before and after a text."""
        bare, ids = self._ids("a"), self._reader.tokenizer("a", verbose=False)["input_ids"]
        if len(ids) != len(bare) + AROUND or ids[1:-1] != bare:
            raise ModelError(
                f"{self.reference}: BERTScore needs an encoder whose tokenizer puts one token "
                "before a text and one after it, as BERT's does"
            )
        return ids[0], ids[-1]

    def _ids(self, text: str) -> list[int]:
        ids = self._reader.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return [int(token) for token in ids]

    def _tokens(self, text: str) -> Any:
        """Return the text's own tokens as unit vectors (tokens × width)."""
        torch, (before, after) = import_torch(), self._frame
        encoder = self.session.model_of(self._reader, "encoder")
        ids = self._ids(text)
        room = None if encoder.window is None else max(1, encoder.window - AROUND)
        states = []
        with encoder.in_use(), encoder.turns.of(), torch.no_grad():
            for start, end in even_parts(len(ids), room):
                framed = torch.tensor([[before, *ids[start:end], after]], device=encoder.device)
                states.append(encoder.model(input_ids=framed).last_hidden_state[0, 1:-1])
        return torch.nn.functional.normalize(torch.cat(states), dim=-1)


def _words(text: str) -> tuple[str, ...]:
    text = one_form(text).lower()
    if text.isascii() or not OTHER.search(text):
        return tuple(WORD.findall(text))
    return tuple(word for part in PART.findall(text) for word in plain_words(part))


def _ngrams(items: str | tuple[str, ...], n: int) -> Counter[Any]:
    return Counter(items[k : k + n] for k in range(len(items) - n + 1))


def _characters(text: str) -> list[Counter[Any]]:
    bare = "".join(text.split())
    return [_ngrams(bare, n) for n in range(1, ORDERS + 1)]


_latest_characters = lru_cache(maxsize=1)(_characters)
"""Of a reference: the responses to one come after another."""


def _f_score(ours: Counter[Any], theirs: Counter[Any], beta: int) -> float:
    hits = sum(min(count, theirs[gram]) for gram, count in ours.items() if gram in theirs)
    if not hits:
        return 0.0
    precision, recall = hits / ours.total(), hits / theirs.total()
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def _longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, a row of its table in one integer.

    Bit j of a row is 0 where the length grows from b[:j] to b[:j + 1] (Hyyrö 2004).
    """
    places: dict[str, int] = defaultdict(int)
    for j, word in enumerate(b):
        places[word] |= 1 << j
    every = row = (1 << len(b)) - 1
    for word in a:
        matched = row & places[word]
        row = ((row + matched) | (row - matched)) & every
    return len(b) - row.bit_count()
