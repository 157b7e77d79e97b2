"""What palate keeps between two calls is a session's: modules hold no state of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src" / "palate"
ALLOWED = {
    "session.py: global _default": "the one session of a program that names none",
    "session.py: _lock is a Lock": "several threads that ask for it first get one",
    "engines/local_attention.py: _now is a local": (
        "transformers calls attention by a name, so a pass hands its layout over by thread"
    ),
    "engines/local_attention.py: _now is changed": "by the same hand-over",
    "engines/local_compile.py: _compiling is a Lock": (
        "a process has one compiler, which several threads may not use at once"
    ),
    "trainers/trl_hooks.py: fused_head is changed": (
        "TRL's own module decides what its head reads; it is put back after training"
    ),
    "models/runtime.py: _turn is a RLock": (
        "warnings and loggers are the whole process's, so one load is listened to at a time"
    ),
    "learning/solvers.py: _limited is a Lock": (
        "BLAS has one number of threads for the whole process, so one caller at a time sets it"
    ),
    "__init__.py: globals()": (
        "a cache of imports: a name holds what importing it at the top would have bound"
    ),
}
CACHED = {
    "engines/template_source.py: _dropped": "ids of a tokenizer and its size",
    "engines/local_kernels.py: _linear_by_onednn": "a name that PyTorch registers once",
    "engines/local_kernels.py: onednn_is_faster": "what the processor can, which stays",
    "engines/local_kernels.py: products_are_fast": "what the processor can, which stays",
    "retrieval.py: _import_bm25s": "an import",
    "models/runtime.py: import_torch": "an import",
    "models/runtime.py: import_transformers": "an import",
    "learning/personal_policy.py: _user_tokens": "a class, made where torch is there",
    "trainers/export.py: _environment": "templates, which come with palate",
    "prompts/rendering.py: source_of": "templates, which come with palate",
    "prompts/rendering.py: sandbox": "a Jinja environment, with one setting",
    "prompts/rendering.py: compiled": "templates of texts, at most 64",
    "prompts/wording.py: _planted": "texts of names",
    "prompts/rendering.py: about": "texts of texts",
    "specs.py: _registered": "entry points, of what is installed where",
    "reports/table.py: _environment": "templates, which come with palate",
    "study/page_rendering.py: _parser": "a parser of Markdown, with one setting",
    "html.py: colours": "a style sheet, which comes with palate",
    "marks.py: prompt_end": "where a prompt ends",
    "contexts/recorded.py: _plain": "texts of texts",
    "records/dates.py: read_date": "instants of texts",
    "quality/overlap.py: _latest_characters": "counts of one text",
    "metrics/ranks.py: all_orders": "an array of a number, changed by nobody",
}
"""Caches that outlive a call, each of a function of its arguments, and what they hold."""

STATEFUL = {
    "ContextVar", "Counter", "LifoQueue", "OrderedDict", "PriorityQueue", "ProcessPoolExecutor",
    "Queue", "SimpleQueue", "ThreadPoolExecutor", "WeakKeyDictionary", "WeakSet",
    "WeakValueDictionary", "count", "cycle", "defaultdict", "deque", "finalize", "local",
}  # fmt: skip
LOCKS = {"Barrier", "Condition", "Event", "Lock", "RLock", "Semaphore"}
CHANGES = {
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert",
    "intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse",
    "setdefault", "sort", "symmetric_difference_update", "update",
}  # fmt: skip
CACHES = {"cache", "cached", "lru_cache", "memoize"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def last_name(node: ast.AST) -> str:
    """Return the last word of a name, of an attribute, or of what is called."""
    while isinstance(node, ast.Call):
        node = node.func
    return str(getattr(node, "attr", getattr(node, "id", "")))


def root(node: ast.AST) -> str:
    """Return the name that a chain of attributes and subscripts begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a module is imported: bodies of classes too, of functions not."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, FUNCTIONS):
            yield from outside_functions(node)


def stored_names(nodes: Iterator[ast.AST]) -> set[str]:
    """Return the names that these nodes bind by assignment, loop, `with` or definition."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("palate"):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def local_names(scope: ast.AST) -> set[str]:
    """Return what a function or comprehension binds, so that no module's name is meant."""
    names = stored_names(outside_functions(scope))
    if isinstance(scope, FUNCTIONS):
        given = scope.args
        listed = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        names |= {it.arg for it in listed if it is not None}
        decorators = getattr(scope, "decorator_list", [])
        if any(last_name(it) == "classmethod" for it in decorators):
            names.discard("cls")
    return names


def changed(node: ast.AST) -> str:
    """Return the name of what a node changes in place, "" where it changes nothing."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return root(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return root(node.func) if node.func.attr in CHANGES else ""
    return ""


def changes(scope: ast.AST, names: set[str], inside: bool = False) -> Iterator[str]:
    """Yield the names among these that functions change."""
    for node in ast.iter_child_nodes(scope):
        if inside and changed(node) in names:
            yield changed(node)
        if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)):
            deeper = inside or isinstance(node, FUNCTIONS)
            yield from changes(node, names - local_names(node), deeper)
        else:
            yield from changes(node, names, inside)


def state(source: str) -> set[str]:
    """Return the state that a module holds between two calls."""
    tree = ast.parse(source)
    module = list(outside_functions(tree))
    faults = {f"{name} is changed" for name in changes(tree, {*stored_names(iter(module)), "cls"})}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            faults |= {f"global {name}" for name in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            faults |= {"globals()"} if node.func.id == "globals" else set()
    for node in module:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            made = last_name(node.value)
            names = stored_names(ast.walk(node))
            faults |= {f"{name} is a {made}" for name in names if made in STATEFUL | LOCKS}
    return faults


def caches(source: str) -> set[str]:
    """Return the caches that outlive a call: of a module's functions, of methods, and calls."""
    found = set()
    for node in outside_functions(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= {node.name for it in node.decorator_list if last_name(it) in CACHES}
        elif (
            isinstance(node, ast.Assign | ast.AnnAssign) and last_name(node.value or node) in CACHES
        ):
            found |= stored_names(ast.walk(node))
    return found


def reads_base_url(source: str) -> bool:
    """Tell whether a module takes a base URL from anything but what a model says of itself."""
    tree = ast.parse(source)
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            allowed |= {key for key in node.keys if key is not None}
        elif isinstance(node, ast.Subscript) and last_name(node.value) == "details":
            allowed.add(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            allowed |= set(node.args) if last_name(node.func.value) == "details" else set()
    return any(
        isinstance(node, ast.Constant) and node.value == "base_url" and node not in allowed
        for node in ast.walk(tree)
    )


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SRC.rglob("*.py")):
        yield path.relative_to(SRC).as_posix(), path.read_text(encoding="utf-8")


def test_modules_hold_no_state_but_what_is_allowed_with_a_reason() -> None:
    there = {f"{path}: {fault}" for path, source in modules() for fault in state(source)}
    assert there == set(ALLOWED)


def test_caches_that_outlive_a_call_are_of_functions_of_their_arguments() -> None:
    there = {f"{path}: {name}" for path, source in modules() for name in caches(source)}
    assert there == set(CACHED)


def test_one_place_reads_the_base_url_of_a_spec() -> None:
    assert [path for path, source in modules() if reads_base_url(source)] == [
        "engines/http_requests.py"
    ]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = 0\ndef f():\n    global x\n    x += 1", "global x"),
        ("def f():\n    globals()['x'] = 1", "globals()"),
        ("x = {}\ndef f(k):\n    x[k] = 1", "x is changed"),
        ("x: dict = {}\ndef f(k):\n    del x[k]", "x is changed"),
        ("x = {}\ndef f(k):\n    x[k] += 1", "x is changed"),
        ("x = [0]\nclass A:\n    def f(self):\n        x.append(1)", "x is changed"),
        ("x = {}\ndef f(k):\n    x.setdefault(k, []).append(1)", "x is changed"),
        ("x = {}\ndef f(k):\n    x[k].names.add(1)", "x is changed"),
        ("x = Thing()\ndef f():\n    x.held = 1", "x is changed"),
        ("x = set()\ndef f():\n    def g(y):\n        x.add(y)\n    return g", "x is changed"),
        ("x = []\nf = lambda y: x.append(y)", "x is changed"),
        ("def f():\n    f.calls = 1", "f is changed"),
        ("class A:\n    x = {}\n    def f(self):\n        A.x[1] = 2", "A is changed"),
        ("class A:\n    @classmethod\n    def f(cls):\n        cls.x = 2", "cls is changed"),
        ("from palate.a import x\ndef f():\n    x.update(a=1)", "x is changed"),
        ("if True:\n    x = threading.local()", "x is a local"),
        ("x: Any = WeakKeyDictionary()", "x is a WeakKeyDictionary"),
        ("class A:\n    x = threading.RLock()", "x is a RLock"),
    ],
)
def test_state_is_seen(source: str, fault: str) -> None:
    assert fault in state(source)


@pytest.mark.parametrize(
    "source",
    [
        "x = {}\nx['a'] = 1",
        "x = {}\ndef f(x):\n    x['a'] = 1",
        "x = []\ndef f():\n    x = []\n    x.append(1)",
        "x = []\ndef f():\n    return [x.append(1) for x in ([], [])]",
        "def f():\n    lock = threading.Lock()\n    return lock",
        "class A:\n    def f(self):\n        self.x = threading.local()",
        "X = frozenset({1})\ndef f(k):\n    return k in X",
    ],
)
def test_what_ends_with_a_call_is_no_state(source: str) -> None:
    assert state(source) == set()


def test_caches_and_base_urls_are_seen() -> None:
    assert caches("@cache\ndef f(x): ...") == {"f"}
    assert caches("class A:\n    @functools.lru_cache(maxsize=1)\n    def f(self): ...") == {"f"}
    assert caches("f = lru_cache(maxsize=1)(g)") == {"f"}
    assert caches("class A:\n    @cached_property\n    def f(self): ...") == set()
    assert caches("def f():\n    @cache\n    def g(x): ...\n    return g") == set()
    assert reads_base_url("spec.options.get('base_url')")
    assert reads_base_url("options = spec.options\nurl = options['base_url']")
    assert reads_base_url("known = 'base_url' in spec.options")
    assert not reads_base_url("{'base_url': model.details['base_url']}")
    assert not reads_base_url("model.details.get('base_url')")
