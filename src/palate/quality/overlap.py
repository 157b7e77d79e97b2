"""Which measure of overlap with the user's own text a spec names."""

from __future__ import annotations

from palate.errors import SpecError
from palate.quality.against_reference import AgainstReference
from palate.quality.bertscore import BertScore
from palate.quality.ngrams import ROUGE, Chrf, Rouge
from palate.records import Settings
from palate.session import Session
from palate.specs import Spec

NAMES = (*ROUGE, "chrf", "bertscore")


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
