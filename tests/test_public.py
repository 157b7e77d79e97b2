"""The public names: complete, sorted, and imported when they are used."""

import ast
import inspect
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import palate

HEAVY = (
    "numpy", "scipy", "pydantic", "torch", "pandas", "transformers", "trl",
    "sentence_transformers", "pyarrow", "datasets", "matplotlib",
)  # fmt: skip
STUB = Path(palate.__file__).with_suffix(".pyi")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_those_of_the_stub() -> None:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(tree.body) - 1, "a docstring and imports, nothing else"
    assert all(len(node.names) == 1 for node in imports), "one name a line"
    names = [(node.names[0].name, node.names[0].asname) for node in imports]
    assert all(name == alias for name, alias in names), "only `as` exports a name of a stub"
    assert palate.__all__ == sorted(name for name, _ in names)
    assert len(set(palate.__all__)) == len(palate.__all__) >= 36


@pytest.mark.parametrize("name", palate.__all__)
def test_every_public_name_is_there_and_is_no_module(name: str) -> None:
    value = getattr(palate, name)
    assert not inspect.ismodule(value)
    assert getattr(palate, name) is value
    assert name in dir(palate)
    assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize("code", ["import palate", "import palate; dir(palate); palate.__all__"])
def test_importing_palate_loads_no_heavy_library(code: str) -> None:
    assert run(f"{code}\nimport sys; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


def test_everything_can_be_imported_at_once_and_is_documented() -> None:
    names = "sorted(name for name in globals() if name[0] != '_')"
    assert run(f"from palate import *\nprint({names})") == str(palate.__all__)
    text = pydoc.plain(pydoc.render_doc(palate))
    assert "evaluate(" in text and "class PreferencePair" in text


@pytest.mark.parametrize(
    "first",
    [
        "palate.validity",
        "from palate import *",
        "import palate.validity",
        "import palate.validity.result",
        "import palate.cli.uses",
    ],
)
def test_the_function_wins_over_the_package_of_its_name(first: str) -> None:
    check = (
        "from palate import validity; import palate.validity as same\n"
        "from palate.validity import METRICS, validity as inner\n"
        "assert palate.validity is validity is same is inner and callable(validity)\n"
        "assert sys.modules['palate.validity'].METRICS is METRICS\n"
    )
    run(f"import sys, palate\n{first}\n{check}import palate.validity\n{check}")


def test_a_public_name_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(palate, "validity", len)
    assert palate.validity is len


def test_packages_are_there_without_an_import_of_them() -> None:
    assert run("import palate; print(palate.runs.Run.__name__)") == "Run"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("evalute", "palate has no attribute 'evalute'; did you mean evaluate?"),
        ("zzz", "palate has no attribute 'zzz'"),
        ("_zzz", "palate has no attribute '_zzz'"),
        ("__main__", "palate has no attribute '__main__'"),
    ],
)
def test_an_unknown_name_is_refused_with_its_near_misses(name: str, says: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(palate, name)
    assert (str(caught.value), caught.value.name) == (says, name)


def test_an_import_of_an_unknown_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'evalute'"):
        exec("from palate import evalute")


FUNCTIONS = [name for name in palate.__all__ if inspect.isfunction(getattr(palate, name))]
ORDER = (
    "benchmark", "benchmarks", "policy", "model", "models", "method", "scorer", "scorers",
    "context", "contexts", "qualities", "output",
)  # fmt: skip


def test_there_are_at_most_seventeen_functions() -> None:
    assert len(FUNCTIONS) <= 17, FUNCTIONS


def positional(name: str) -> list[str]:
    parameters = inspect.signature(getattr(palate, name)).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_what_they_share_in_one_order(name: str) -> None:
    shared = [ORDER.index(given) for given in positional(name) if given in ORDER]
    assert shared == sorted(shared)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_kept_under_runs_unless_another_folder_is_named(name: str) -> None:
    root = inspect.signature(getattr(palate, name)).parameters.get("root")
    assert root is None or root.default == "runs"
