"""What public functions take: the same kinds in the same places; anything else is refused."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack, get_args, get_origin, get_type_hints

import pytest

import palate
from measures import Planted
from palate.answers import Sample, Samples
from palate.errors import UsageError
from palate.evaluation import WorkOptions
from palate.records import checked

pandas = pytest.importorskip("pandas")
FUNCTIONS = [name for name in palate.__all__ if inspect.isfunction(getattr(palate, name))]
ROWS = [
    {"id": f"{who}{k}", "user_id": who, "question": f"Drink {k}?", "chosen": a, "rejected": b}
    for k in range(4)
    for who, a, b in (("ann", "Tea, hot.", "Coffee."), ("bob", "Coffee.", "Tea, hot."))
]


class Mine:
    """A scorer of one's own."""

    info = palate.ScorerInfo(fingerprint="mine-1", exact=True)

    def score(self, slates: Sequence[palate.Slate]) -> Iterator[tuple[int, palate.Scores]]:
        for position, slate in enumerate(slates):
            yield position, palate.Scores(values=tuple(float(len(c)) for c in slate.candidates))


def tealike(question: str, response: str, user: tuple[str, ...]) -> float:
    return float("Tea" in response) + len(user)


def longness() -> Planted:
    """Return a measure of quality."""
    return Planted("longness", lambda question, text: 1 / (1 + len(text)))


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each kind of argument, by name."""
    folder = tmp_path_factory.mktemp("given")
    frame = pandas.DataFrame(ROWS)
    frame.to_csv(folder / "votes.csv", index=False)
    dataset = palate.Dataset.of(ROWS, "drinks").select()
    grid = palate.evaluate(dataset, ["longest", "random"], ["none"], root=folder / "runs")
    return {
        "spec": "longest",
        "path text": str(folder / "votes.csv"),
        "path": folder / "votes.csv",
        "object": Mine(),
        "class": Mine,
        "function": tealike,
        "frame": frame,
        "rows": ROWS,
        "dataset": dataset,
        "grid": grid,
        "run": grid.runs[0],
        "none": None,
        "number": 3,
        "bytes": b"longest",
        "list of numbers": [1, 2],
        "mixed list": ["longest", Mine(), tealike],
        "generator": lambda: (name for name in ("longest", "random")),
        "folder": folder,
    }


def base(name: str, given: dict[str, Any], place: Path) -> dict[str, Any]:
    """Arguments of a call that works, or that asks for a model that is not there."""
    dataset, runs = given["dataset"], given["folder"] / "runs"
    texts = tuple((Sample("Tea, hot."), Sample("Tea.")) for _ in dataset.rows)
    samples = Samples("file", tuple(row.id for row in dataset.rows), texts)
    nowhere, rated = "./nowhere", {"qualities": [longness()], "root": None}
    return {
        "alignment": {"reward": 0.5, "rating": 0.5},
        "best_of_n": {"benchmark": dataset, "policy": samples, "scorers": "longest", **rated},
        "build_own_text": {"source": given["path"], "output": place / "o.jsonl", "layout": "rows"},
        "compare": {"runs": runs},
        "decode": {"benchmark": dataset, "policy": nowhere, "scorers": "longest", **rated},
        "evaluate": {"benchmark": dataset, "scorers": "longest", "contexts": "none", "root": None},
        "export": {
            "benchmark": dataset,
            "policy": nowhere,
            "scorer": "longest",
            "to": "trl",
            "output": place / "trainer",
        },
        "learning_curve": {"benchmark": dataset, "models": nowhere, "root": None},
        "load": {"path": runs},
        "load_benchmark": {"name": given["path"]},
        "policy_accuracy": {"benchmark": dataset, "policy": nowhere, "root": None},
        "ppo": {"benchmark": dataset, "policy": nowhere, "scorer": "longest", "root": place},
        "report": {"runs": runs, "output": place / "page.html"},
        "reward": {"scorer": "longest"},
        "serve": {"scorer": "longest"},
        "train": {
            "method": "bradley-terry",
            "data": dataset,
            "output": place / "model",
            "embedders": nowhere,
        },
        "validity": {"results": runs, "root": None},
    }[name]


PLACES = [
    (name, place)
    for name in FUNCTIONS
    for place, hint in get_type_hints(getattr(palate, name)).items()
    if place != "return"
]
DATA = {"path text", "path", "frame", "rows", "dataset"}
RATERS = {"spec", "object", "function", "mixed list", "generator"}
FINISHED = {"grid"}
WORK = {
    ("best_of_n", "benchmark"): {"dataset"},  # other forms have other rows than the samples
    ("best_of_n", "scorers"): RATERS,
    ("compare", "runs"): FINISHED,
    ("evaluate", "benchmark"): DATA,
    ("evaluate", "scorers"): RATERS,
    ("evaluate", "contexts"): {"none"},
    ("load_benchmark", "name"): {"path text", "path"},
    ("report", "runs"): {*FINISHED, "run"},
    ("reward", "benchmark"): {*DATA, "none"},
    ("reward", "scorer"): RATERS - {"mixed list", "generator"},
    ("serve", "benchmark"): {*DATA, "none"},
    ("serve", "scorer"): RATERS - {"mixed list", "generator"},
}
"""Which kinds work in places that take more than texts and numbers."""


def test_the_table_walks_all_public_functions() -> None:
    assert len({name for name, _ in PLACES}) == len(FUNCTIONS) >= 16
    assert {*WORK} <= {*PLACES}


def takes_a_function(name: str, place: str) -> bool:
    hint = get_type_hints(getattr(palate, name))[place]
    parts = [hint, *get_args(hint)]
    return place not in ("scorer", "scorers", "models", "baselines") and any(
        get_origin(part) is Callable for part in parts
    )


@pytest.mark.parametrize(("name", "place"), PLACES, ids=[f"{n}-{p}" for n, p in PLACES])
def test_each_kind_of_argument_works_or_is_refused_in_one_line(
    name: str, place: str, given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    served = import_module("palate.serve.app")
    monkeypatch.setattr(served, "run_server", lambda load, *args, **more: load())
    works, function = set(), getattr(palate, name)
    for kind, value in given.items():
        if kind in ("folder",) or (kind == "function" and takes_a_function(name, place)):
            continue  # a function may be called with anything
        named = base(name, given, tmp_path / kind.replace(" ", "-"))
        named[place] = value() if kind == "generator" else value
        try:
            function(**named)
            works.add(kind)
        except UsageError as error:
            assert "\n" not in str(error) and len(str(error)) < 500, (kind, error)
    assert works >= WORK.get((name, place), set()), (name, place, works)
    assert "bytes" not in works and "class" not in works


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "alignment"])  # of numbers
def test_what_is_wrong_is_named_with_what_is_expected(name: str) -> None:
    first, *_ = inspect.signature(getattr(palate, name)).parameters
    others = dict.fromkeys(
        [
            p.name
            for p in inspect.signature(getattr(palate, name)).parameters.values()
            if p.default is p.empty
        ],
        "x",
    )
    with pytest.raises(UsageError, match=rf"^{name}: {first}=3 is of int; expected "):
        getattr(palate, name)(**{**others, first: 3})


def test_own_scorers_stand_in_one_grid_with_others(given: Any) -> None:
    grid = palate.evaluate(given["dataset"], [Mine(), tealike, "longest"], ["none"], root=None)
    by_name = {run.summary.scorer: run for run in grid.runs}
    assert [*by_name] == ["Mine", "tealike", "longest"]
    mine, longest = by_name["Mine"].verdicts, by_name["longest"].verdicts
    assert mine.values.tolist() == longest.values.tolist()
    assert [*by_name["tealike"].verdicts.values] == [1.0, 0.0] * 4
    alone = palate.evaluate(given["dataset"], tealike, "none", root=None)
    assert isinstance(alone, palate.Run) and alone.summary.scorer == "tealike"


def test_without_contexts_an_own_scorer_gets_the_first_screen() -> None:
    shown: list[tuple[str, ...]] = []

    def spy(question: str, response: str, user: tuple[str, ...]) -> float:
        shown.append(user)
        return len(response)

    grid = palate.evaluate(palate.load_benchmark("tasting", limit=3), spy, root=None)
    contexts = [run.summary.context for run in grid.runs]
    assert contexts == ["none", "profile:5", "profile:5?of=stranger"]
    assert () in shown and {len(user) for user in shown} >= {0, 5}
    assert "identity gain" in str(grid)


def test_own_contexts_stand_beside_others(given: Any) -> None:
    class Titles:
        spec, oracle, empty = "titles", False, False

        def shown(self, view: Any, user: Any, pool: Any, gold: Any = None) -> palate.Shown:
            return palate.Shown()

    grid = palate.evaluate(given["dataset"], ["longest"], ["none", Titles()], root=None)
    assert [run.summary.context for run in grid.runs] == ["none", "titles"]
    with pytest.raises(UsageError, match="two contexts are named titles"):
        palate.evaluate(given["dataset"], ["longest"], [Titles(), Titles()], root=None)


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        ([1.0, 2.0], r"Odd.score gave \[1.0, 2.0\]: expected to yield \(position, palate.Scores\)"),
        ((0, [1.0, 2.0]), r"Odd.score gave \(0, \[1.0, 2.0\]\): expected to yield"),
        ((0, palate.Scores(values=(1.0,))), "1 scores for 2 candidates"),
        ((7, palate.Scores(values=(1.0, 2.0))), "gave position 7 twice or out of range"),
    ],
)
def test_what_an_own_scorer_gives_is_checked(gives: Any, says: str, given: Any) -> None:
    class Odd:
        def score(self, slates: Any) -> Any:
            yield gives

    with pytest.raises(UsageError, match=says):
        palate.evaluate(given["dataset"], Odd(), "none", root=None)


def test_a_scorer_that_forgot_to_yield_is_told_so(given: Any) -> None:
    class Silent:
        def score(self, slates: Any) -> None:
            return None

    with pytest.raises(UsageError, match=r"Silent.score gave None: expected to yield"):
        palate.evaluate(given["dataset"], Silent(), "none", root=None)
    with pytest.raises(UsageError, match=r"Silent.score gave None: expected to yield"):
        palate.reward(Silent())("Tea?", "Yes.", palate.User(id="ann"))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda question, response: 1.0, r"expected a function f\(question, response, user\)"),
        (lambda question, response, user: "high", "gave 'high': expected a number"),
        (lambda question, response, user: (1, 2), r"gave \(1, 2\): expected a number"),
    ],
)
def test_a_function_that_is_no_scorer_is_refused(function: Any, says: str, given: Any) -> None:
    with pytest.raises(UsageError, match=says):
        palate.evaluate(given["dataset"], function, "none", root=None)


def test_a_function_that_gives_none_leaves_the_response_unscored(given: Any) -> None:
    def nothing(question: str, response: str, user: tuple[str, ...]) -> None:
        return None

    run = palate.evaluate(given["dataset"], nothing, "none", root=None)
    assert run.summary.unscored_reasons == {"no score": 8}


def test_two_scorers_of_one_name_are_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="two scorers are named Mine"):
        palate.evaluate(given["dataset"], [Mine(), Mine()], "none", root=None)
    with pytest.raises(UsageError, match="stands for one object, not for 2"):
        palate.evaluate(given["dataset"], [Mine(), tealike], "none", root=None, name="x")


def test_an_own_scorer_without_info_is_refused_where_runs_are_kept(
    given: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="tealike declares no `info`"):
        palate.evaluate(given["dataset"], ["longest", tealike], "none", root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists(), "before anything is computed"


def test_a_function_with_info_is_kept(given: Any, tmp_path: Path) -> None:
    def mine(question: str, response: str, user: tuple[str, ...]) -> int:
        return len(response)

    mine.info = palate.ScorerInfo(fingerprint="mine-2", exact=True)  # type: ignore[attr-defined]
    first = palate.evaluate(given["dataset"], mine, "none", root=tmp_path)
    assert first.fingerprints and palate.load(first.folder).summary == first.summary


def test_a_dataset_prints_in_a_few_lines() -> None:
    text = str(palate.load_benchmark("tasting"))
    assert text.startswith("Dataset tasting: 96 rows, 32 users, 48 mirrored couples, split all")
    assert len(text.splitlines()) <= 6 and max(map(len, text.splitlines())) <= 100


def test_ties_are_counted_as_soon_as_they_are_read() -> None:
    rows = [*ROWS, {**ROWS[0], "id": "t", "user_id": "cy", "tie": True}]
    data = palate.Dataset.of(rows)
    assert (data.ties, data.select().ties, len(data.select().rows)) == (1, 1, 8)
    assert palate.Dataset.from_rows("x", rows).ties == 1
    assert "1 undecided" in str(data)


POSTS = [
    {"user_id": "ann", "text": "I drink tea only.", "date": "2026-01-02"},
    {"user_id": "bob", "text": "Coffee keeps me going.", "date": "2026-01-03"},
]


@pytest.mark.parametrize("form", ["path", "path text", "frame", "rows"])
def test_posts_are_given_beside_a_frame(form: str, tmp_path: Path) -> None:
    pandas.DataFrame(POSTS).to_csv(tmp_path / "posts.csv", index=False)
    posts: Any = {
        "path": tmp_path / "posts.csv",
        "path text": str(tmp_path / "posts.csv"),
        "frame": pandas.DataFrame(POSTS),
        "rows": POSTS,
    }[form]
    data = palate.Dataset.of(pandas.DataFrame(ROWS), posts=posts)
    assert [post.text for post in data.rows[0].profile] == ["I drink tea only."]
    assert [post.date for post in data.rows[1].profile] == ["2026-01-03"]


def test_several_data_sets_in_any_form_make_one_grid(given: Any) -> None:
    other = palate.Dataset.of(ROWS, "other")
    grid = palate.evaluate([given["frame"], other], "longest", "none", root=None)
    assert [run.summary.benchmark for run in grid.runs] == ["frame", "other"]
    (alone,) = palate.evaluate([other], "longest", "none", root=None).runs
    assert alone.summary.benchmark == "other"


def test_a_page_is_made_of_a_grid_in_memory(given: Any, tmp_path: Path) -> None:
    grid = palate.evaluate(given["dataset"], ["longest", Mine()], ["none"], root=None)
    sections = palate.report(grid, str(tmp_path / "page.html"))
    assert "Mine" in (tmp_path / "page.html").read_text(encoding="utf-8") and sections


def test_a_checked_function_keeps_its_signature_and_pythons_own_refusals() -> None:
    @checked
    def twice(n: int, *, by: float = 2.0) -> float:
        """Return it."""
        return n * by

    assert str(inspect.signature(twice)) == "(n: int, *, by: float = 2.0) -> float"
    assert twice(2) == 4.0 and twice(2, by=3) == 6
    with pytest.raises(TypeError, match=r"twice\(\) got an unexpected keyword argument 'bi'"):
        twice(2, bi=3)  # type: ignore[call-arg]
    for wrong in (True, 2.5, "2", None):
        with pytest.raises(UsageError, match=r"twice: n=.*; expected int"):
            twice(wrong)  # type: ignore[arg-type]


def test_options_that_verbs_share_are_arguments_like_others() -> None:
    @checked
    def verb(n: int, **options: Unpack[WorkOptions]) -> WorkOptions:
        """Return them."""
        return options

    shared = list(inspect.signature(verb).parameters)
    assert shared == ["n", "session", "settings", "root", "retry_unscored", "start"]
    assert get_type_hints(verb)["retry_unscored"] is bool
    assert verb(1) == dict.fromkeys(shared[1:]) | {"root": "runs", "retry_unscored": False}
    assert verb(1, root=None)["root"] is None
    with pytest.raises(UsageError, match=r"verb: retry_unscored=1 is of int; expected bool"):
        verb(1, retry_unscored=1)  # type: ignore[typeddict-item]
    with pytest.raises(TypeError, match=r"verb\(\) got an unexpected keyword argument 'rot'"):
        verb(1, rot=None)  # type: ignore[call-arg]
