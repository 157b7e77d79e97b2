"""No screen is wider than its terminal, whatever kind of result it shows, and nothing is cut."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from every_kind import save_every_kind
from inline_snapshot import snapshot
from rich.cells import cell_len

import palate
from palate.benchmarks import list_benchmarks, load_benchmark
from palate.comparison import Grid, compare, groups_of, ratings_of
from palate.reports import Form, Table, comparison_tables, grid_tables, render, screens
from palate.reports.aligned import fitted, wrapped
from palate.runs import load_runs, result_folders
from reports.grids import STRANGER, demo, gain, run, three

LONG = {
    "words": "personal:./models/a_reward_model_of_a_long_name?users=states/of/march.safetensors",
    "wide": "分类器：一个名字很长很长的奖励模型，它还有一个很长的版本号码",
    "short": "",
}


def rated(folder: Path) -> Path:
    file = folder / "rated.jsonl"
    rows = [
        {"id": k, "user_id": f"u{k % 6}", "question": f"Which, {k}?", "category": f"c{k % 2}",
         "chosen": "yes " * (k % 5 + 2), "rejected": "no", "chosen_rating": 3 + k % 3,
         "rejected_rating": 1 + k % 2}
        for k in range(48)
    ]  # fmt: skip
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def every_table(tmp_path_factory) -> dict[str, list[Table]]:
    root: Path = tmp_path_factory.mktemp("kinds")
    save_every_kind(root)
    tables: dict[str, list[Table]] = {}
    for folder in result_folders(root):
        result = palate.load(folder)
        tables.setdefault(result.kind, []).extend(result.tables())
    runs = load_runs(root / "runs")
    tables["compare"] = comparison_tables(compare(runs))
    grid = palate.evaluate(rated(root), ["longest", "shortest"], "none", root=root / "rated")
    groups, ratings = groups_of(grid.runs, ["category"]), ratings_of(grid.runs)
    tables["subgroups, ratings"] = grid_tables(
        replace(grid, groups=tuple(groups), ratings=tuple(ratings))
    )
    rows = [[b.name, b.description, b.licence] for b in list_benchmarks()]
    names = ["name", "what it is", "licence"]
    tables["list"] = [Table("benchmarks", names, rows, (), 3, prose=True)]
    return tables


def of_longer_names(table: Table, name: str) -> Table:
    rows = [[cell + name if k < table.left else cell for k, cell in enumerate(row)]
            for row in table.rows]  # fmt: skip
    return replace(table, rows=rows, title=table.title + name)


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", LONG.values(), ids=LONG)
def test_tables_of_every_kind_fit(every_table, name, width):
    kinds = {"best-of-n", "decode", "policy-accuracy", "ppo", "validity", "audit", "agreement",
             "learning-curve", "run", "pairs", "own-text", "compare", "list"}  # fmt: skip
    assert kinds <= {*every_table}
    for kind, tables in every_table.items():
        for table in tables:
            shown = of_longer_names(table, name)
            text = render([shown], Form.TABLE, width=width)
            for line in text.splitlines():
                assert cell_len(line) <= width, f"{kind}: {line}"
            whole = [
                shown.title,
                *shown.columns,
                *shown.notes,
                *(c for row in shown.rows for c in row),
            ]
            letters = Counter("".join("".join(whole).split()))
            assert not letters - Counter(text), f"{kind}: something is cut"


def uneven(name=""):
    """Unmirrored pairs under two contexts, which no two columns of a screen share."""
    runs, gains = [], []
    for scorer in ("longest", f"similarity:pypi:mini{name}", f"judge:{name or 'pypi:small'}"):
        for context in ("profile:3", "examples:4"):
            other = STRANGER if context == "profile:3" else "examples:4?of=stranger"
            runs += [run(scorer, c, v, mirrored=False) for c, v in ((context, 0.6), (other, 0.5))]
            gains.append(gain(scorer, "identity", 0.1, 0.05, 0.02, context=context, against=other))
        runs.append(run(scorer, "none", 0.55, mirrored=False))
    return Grid(tuple(runs), (), tuple(gains))


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", LONG.values(), ids=LONG)
def test_first_screens_fit_and_no_word_of_a_heading_is_torn(name, width):
    alone = Grid(tuple(three(f"longest{name}", 0.5, None, None, mirrored=False)), (), ())
    for grid in (demo(), uneven(name), alone):
        (screen,) = screens(grid, Path("runs"), hint=True)
        lines = screen.text(width).splitlines()
        assert max(map(cell_len, lines)) <= width
        words = {"context", *(word for line in lines for word in line.split())}
        assert {word for column in screen.columns for word in column.name.split()} <= words
        figures = {cell for row in screen.rows for cell in row[2:] if cell[-1:].isdigit()}
        assert figures <= words


def test_unmirrored_pairs_under_two_contexts_at_80_columns():
    (screen,) = screens(uneven(), Path("runs"))
    assert screen.text(80).partition("\n\n")[2].partition("\n\nsim")[0] == snapshot("""\
                                       accuracy when
                                       shown
 scorer                    context       own  stranger's  by user  same length
 ─────────────────────────────────────────────────────────────────────────────
 similarity and 2 like it  profile:3   0.600       0.500    0.590        0.580
 similarity and 2 like it  examples:4  0.600       0.500    0.590        0.580

                                       identity gain
 scorer                    context       gain         p  finding
 ───────────────────────────────────────────────────────────────
 similarity and 2 like it  profile:3   +0.100     0.020  yes
 similarity and 2 like it  examples:4  +0.100     0.020  yes\
""")


def test_a_table_without_room_is_folded_into_parts_that_name_their_rows():
    columns = ["scorer", "context", *(f"best of {2**k}" for k in range(8)), "gain [95 %]"]
    row = ["longest", "profile:3", *("0.500",) * 8, "+0.100 [0.050, 0.150]"]
    table = Table("best of 128", columns, [row], ["A note."], 2)
    assert render([table], Form.TABLE, width=60) == snapshot("""\
best of 128

                        best   best of   best of   best of
 scorer    context      of 1         2         4         8
 ─────────────────────────────────────────────────────────
 longest   profile:3   0.500     0.500     0.500     0.500


                        best   best of   best of   best of
 scorer    context     of 16        32        64       128
 ─────────────────────────────────────────────────────────
 longest   profile:3   0.500     0.500     0.500     0.500


 scorer    context               gain [95 %]
 ───────────────────────────────────────────
 longest   profile:3   +0.100 [0.050, 0.150]

A note.
""")


def test_every_kind_at_80_columns(every_table):
    shown = [
        f"{kind}:\n" + "\n".join(render(tables[:1], Form.TABLE, width=80).splitlines()[2:6])
        for kind, tables in every_table.items()
    ]
    assert re.sub(r"\d\.\d s", "0.0 s", "\n".join(shown)) == snapshot("""\
agreement:
        figure         n            value [95 %]
 ───────────────────────────────────────────────
 none   percent       12    0.639 [0.297, 0.981]
 none   α nominal     12   0.285 [−0.390, 0.961]
audit:
 check          a row fails where                             checked   failed
 ─────────────────────────────────────────────────────────────────────────────
 format         an answer is empty, a refusal, or names its        24        0
                model
run:
 scorer    context   accuracy [95 %]   concordance [95 %]   ties   unscored
 ──────────────────────────────────────────────────────────────────────────
 longest   none                0.500                0.500      0          0
                      [0.500, 0.500]       [0.500, 0.500]
best-of-n:
                               best of   best of   best of
 scorer              context         1         2         4       gain [95 %]
 ───────────────────────────────────────────────────────────────────────────
 longest             none        0.650     0.733    ≈0.800        +0.083 [–]
scores:
 scorer    context   rows   samples   unscored
 ─────────────────────────────────────────────
 longest   none        24        96          0

validity:
 benchmark   metric              n   τ [95 %]   p / Holm   reliability
 ─────────────────────────────────────────────────────────────────────
 tasting     mirrored accuracy   3          –      – / –             –

own-text:
 split   rows   users   inputs   against authors   against the model
 ───────────────────────────────────────────────────────────────────
 adapt      8       4        4                 8                   0
 test       8       4        4                 8                   0
learning-curve:
 model   users    n        0 choices                2                4
 ─────────────────────────────────────────────────────────────────────
 heads   all     12            0.500            1.000            1.000
                      [0.500, 0.500]   [0.590, 1.000]   [0.590, 1.000]
forecast:
 scorer     context         of   accuracy     skill [90 %]   best of 2 [90 %]
 ────────────────────────────────────────────────────────────────────────────
 longest    none      contrast      0.500            0.000              0.000
                                            [0.000, 0.000]     [0.000, 0.000]
pairs:
 pairs   couples   users   questions
 ───────────────────────────────────
     8         4       6           4

decode:

 context      quality      gain [95 %]       p   over stranger [95 %]   p
 ────────────────────────────────────────────────────────────────────────
 no guide       0.300                –       –                      –   –
policy-accuracy:
 scorer    context     reward   policy   steered      gain [95 %]       p   w
 ────────────────────────────────────────────────────────────────────────────
 judge     profile:5    0.600    0.500     0.600           +0.100   0.080   1
                                                   [0.000, 0.200]
ppo:

                              before   after             gain [95 %]       p
 ───────────────────────────────────────────────────────────────────────────
 reward                        0.000   0.400   +0.400 [0.300, 0.500]   0.040
compare:
 scorer          accuracy [95 %]       rank
 ──────────────────────────────────────────
 longest    0.500 [0.500, 0.500]   baseline
 random     0.500 [0.500, 0.500]   baseline
subgroups, ratings:
                            accuracy      by     same
 scorer     context           [95 %]    user   length   ties   unscored    time
 ──────────────────────────────────────────────────────────────────────────────
 longest    none               1.000   1.000        –      0          0   0.0 s
list:
 name                       what it is                 licence
 ──────────────────────────────────────────────────────────────────────────────
 community-alignment        choices of 3,500 people    CC BY 4.0 (dataset card)
                            among four responses;\
""")


def test_printing_in_python_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    found = compare(
        palate.evaluate(load_benchmark("tasting", limit=6), ["longest", "shortest"], "none").runs
    )
    assert max(map(cell_len, str(found).splitlines())) <= 60


def test_a_command_to_copy_keeps_its_path_whole():
    assert wrapped(f"next: palate report {'a/long/path' * 9}", 40)[1] == "a/long/path" * 9


def test_a_word_without_end_is_broken_rather_than_cut():
    ((_, widths),) = fitted([["x" * 90], ["0.5"]], [[1]], 40, 3)
    assert sum(widths) + 3 <= 40
