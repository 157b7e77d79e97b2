"""The words of palate, frozen, and the protocols between its floors."""

from palate.records.conversations import Message, conversation, of_user, question_key
from palate.records.dates import Instant, date_text, read_date
from palate.records.lazy import Lazy
from palate.records.normal_form import DistinctNames, normal_form
from palate.records.pools import (
    MOST_STRANGERS,
    NO_STRANGER,
    UserPool,
    mirror_users_of,
    third_users,
)
from palate.records.prepared import (
    Encoded,
    Prepared,
    packed,
    prepare,
    prepared_slates,
    results_of,
    unpacked,
    without_worst,
)
from palate.records.protocols import (
    Component,
    Context,
    ContextInput,
    Judge,
    Progress,
    Scorer,
    ScorerInfo,
    Settings,
    Shown,
    components_of,
    info_of,
)
from palate.records.questions import Gold, PreferencePair, Question, QuestionView, choices_of
from palate.records.record import Record, problem_of
from palate.records.slates import Part, Slate, candidate_order
from palate.records.users import Choice, Post, RubricAspect, User, user_key
from palate.records.verdicts import Judgement, Outcome, Scores, Verdict, margin_of

__all__ = [
    "MOST_STRANGERS",
    "NO_STRANGER",
    "Choice",
    "Component",
    "Context",
    "ContextInput",
    "DistinctNames",
    "Encoded",
    "Gold",
    "Instant",
    "Judge",
    "Judgement",
    "Lazy",
    "Message",
    "Outcome",
    "Part",
    "Post",
    "PreferencePair",
    "Prepared",
    "Progress",
    "Question",
    "QuestionView",
    "Record",
    "RubricAspect",
    "Scorer",
    "ScorerInfo",
    "Scores",
    "Settings",
    "Shown",
    "Slate",
    "User",
    "UserPool",
    "Verdict",
    "candidate_order",
    "choices_of",
    "components_of",
    "conversation",
    "date_text",
    "info_of",
    "margin_of",
    "mirror_users_of",
    "normal_form",
    "of_user",
    "packed",
    "prepare",
    "prepared_slates",
    "problem_of",
    "question_key",
    "read_date",
    "results_of",
    "third_users",
    "unpacked",
    "user_key",
    "without_worst",
]
