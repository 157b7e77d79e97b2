"""The one public door: complete, sorted, light."""

import subprocess
import sys
from types import ModuleType

import palate


def test_all_is_sorted_and_complete() -> None:
    modules = {name for name, value in vars(palate).items() if isinstance(value, ModuleType)}
    public = {name for name in vars(palate) if not name.startswith("_")} - modules
    assert sorted(public) == sorted(palate.__all__)
    assert sorted(palate.__all__, key=lambda n: (n.islower(), n)) == palate.__all__


def test_importing_palate_loads_no_heavy_library() -> None:
    heavy = ("torch", "transformers", "trl", "sentence_transformers", "pyarrow", "datasets")
    code = f"import palate, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
