"""The words of palate, frozen, and the protocols between its floors."""

from palate.records.others import MOST_STRANGERS, NO_STRANGER, Others, partners_of, third_users
from palate.records.pairs import PreferencePair
from palate.records.protocols import (
    Case,
    Context,
    Judge,
    Scorer,
    Settings,
    Shown,
    Term,
    Traits,
    read_by,
    terms_of,
    traits_of,
)
from palate.records.slates import Message, Part, Slate, candidate_order
from palate.records.users import Choice, Post, Record, RubricAspect, User, user_key
from palate.records.verdicts import Judgement, Outcome, Scores, Verdict, margin_of, sign

__all__ = [
    "MOST_STRANGERS",
    "NO_STRANGER",
    "Case",
    "Choice",
    "Context",
    "Judge",
    "Judgement",
    "Message",
    "Others",
    "Outcome",
    "Part",
    "Post",
    "PreferencePair",
    "Record",
    "RubricAspect",
    "Scorer",
    "Scores",
    "Settings",
    "Shown",
    "Slate",
    "Term",
    "Traits",
    "User",
    "Verdict",
    "candidate_order",
    "margin_of",
    "partners_of",
    "read_by",
    "sign",
    "terms_of",
    "third_users",
    "traits_of",
    "user_key",
]
