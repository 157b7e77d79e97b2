"""A measure of quality as a guide: it reads gold, so what it guides is an upper bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.quality import QualityMetric, build_quality
from palate.quality.protocol import QuestionResponse
from palate.records import Message, Question, ScorerInfo, Scores, Settings, Slate, user_key
from palate.seeding import digest
from palate.session import Session

KIND = "oracle:"


class OracleGuide:
    """Rates texts by a measure of quality; marked oracle, never ranked."""

    oracle = True

    def __init__(self, metric: QualityMetric, pairs: Dataset) -> None:
        metric.check(pairs.rows)
        self.metric, self.spec = metric, f"{KIND}{metric.spec}"
        self.info = ScorerInfo(
            fingerprint=digest("oracle", metric.fingerprint, pairs.content_hash),
            exact=True,
            needs_user=True,
            details=metric.details,
        )
        self._rows: dict[tuple[tuple[Message, ...], str | None], Question] = {}
        for row in pairs.rows:
            first = self._rows.setdefault((row.messages, user_key(row.user_id)), row)
            if first.gold != row.gold:
                raise UsageError(
                    f"{self.spec}: rows {first.id} and {row.id} are one user's same question with "
                    "different gold; leave one out"
                )

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the quality of every candidate for the slate's user."""
        items = [
            QuestionResponse(self._rows[slate.question, slate.user], text)
            for slate in slates
            for text in slate.candidates
        ]
        rated = dict(self.metric.rate(items))
        at = 0
        for k, slate in enumerate(slates):
            scores = [rated[at + j] for j in range(len(slate.candidates))]
            at += len(scores)
            reasons = tuple(score.reason if score.value is None else None for score in scores)
            yield k, Scores(values=tuple(score.value for score in scores), reasons=reasons)


def build_oracle(text: str, pairs: Dataset, session: Session, settings: Settings) -> OracleGuide:
    """Return the oracle of `oracle:MEASURE`, such as `oracle:overlap:rouge-1`."""
    return OracleGuide(build_quality(text.removeprefix(KIND), session, settings), pairs)
