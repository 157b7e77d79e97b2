"""palate measures whether a reward model knows whom it is judging for.

>>> import palate
>>> run = palate.evaluate("longest", "tasting", "none", root=None)
>>> run.accuracy
0.5
"""

from palate.benchmarks import Benchmark, Dataset, LoadOptions, load_benchmark, mirrors
from palate.comparison import (
    Comparison,
    Grid,
    by_group,
    compare,
    evaluate_ratings,
    plan_grid,
    run_grid,
    users_who_lose,
)
from palate.errors import PalateError
from palate.evaluation import Options, evaluate
from palate.records import (
    Choice,
    Context,
    Gold,
    Judge,
    Judgement,
    Part,
    Post,
    PreferencePair,
    Question,
    QuestionView,
    Scorer,
    Scores,
    Settings,
    Shown,
    Slate,
    Traits,
    User,
    UserPool,
    Verdict,
)
from palate.runs import Result, Run, load, load_all
from palate.training import train_classifier, train_planner

__all__ = [
    "Benchmark",
    "Choice",
    "Comparison",
    "Context",
    "Dataset",
    "Gold",
    "Grid",
    "Judge",
    "Judgement",
    "LoadOptions",
    "Options",
    "PalateError",
    "Part",
    "Post",
    "PreferencePair",
    "Question",
    "QuestionView",
    "Result",
    "Run",
    "Scorer",
    "Scores",
    "Settings",
    "Shown",
    "Slate",
    "Traits",
    "User",
    "UserPool",
    "Verdict",
    "by_group",
    "compare",
    "evaluate",
    "evaluate_ratings",
    "load",
    "load_all",
    "load_benchmark",
    "mirrors",
    "plan_grid",
    "run_grid",
    "train_classifier",
    "train_planner",
    "users_who_lose",
]
