"""palate measures whether a reward model knows whom it is judging for.

>>> import palate
>>> run = palate.evaluate("longest", "tasting", "none", root=None)
>>> run.accuracy
0.5
"""

from palate.benchmarks import Benchmark, Dataset, LoadOptions, load_benchmark, mirrors
from palate.comparison import compare, evaluate_grid
from palate.curves import learning_curve
from palate.downstream import best_of_n
from palate.errors import PalateError
from palate.evaluation import Options, evaluate
from palate.learning import adapt, train
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
    ScorerInfo,
    Scores,
    Settings,
    Shown,
    Slate,
    User,
    UserPool,
    Verdict,
)
from palate.runs import Result, Run, load, load_all
from palate.validity import validity

__all__ = [
    "Benchmark",
    "Choice",
    "Context",
    "Dataset",
    "Gold",
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
    "ScorerInfo",
    "Scores",
    "Settings",
    "Shown",
    "Slate",
    "User",
    "UserPool",
    "Verdict",
    "adapt",
    "best_of_n",
    "compare",
    "evaluate",
    "evaluate_grid",
    "learning_curve",
    "load",
    "load_all",
    "load_benchmark",
    "mirrors",
    "train",
    "validity",
]
