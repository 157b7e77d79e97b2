"""What is a control is read in `contexts` and `scorers`; no other room reads a spec for it."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "palate"
ROOMS = ("contexts", "scorers")
OPTIONS = {"of", "state", "same"}


def reads(tree: ast.AST) -> Iterator[int]:
    """Yield the lines where an option of a control is read from a spec, or put into one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            named = {keyword.arg for keyword in node.keywords}
            words = {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
            if node.func.attr == "having" and named & OPTIONS:
                yield node.lineno
            if node.func.attr in ("get", "choice", "pop") and words & OPTIONS:
                yield node.lineno
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            of_options = ast.unparse(node.value).endswith("options")
            if of_options and node.slice.value in OPTIONS:
                yield node.lineno
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and text.partition("?")[2] == "of=stranger":
            yield node.lineno


def test_no_spec_is_read_for_a_control_elsewhere() -> None:
    past = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ROOMS
        for line in reads(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not past, "ask palate.contexts or palate.scorers: " + ", ".join(past)


def test_the_check_sees_what_it_looks_for() -> None:
    code = "spec.having(of='x'); spec.options.get('state'); spec.options['of']; 'a?of=stranger'"
    assert len([*reads(ast.parse(code))]) == 4
