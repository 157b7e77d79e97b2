"""Tables as they are printed."""

import pytest
from grids import figure, gain, run

from palate.benchmarks import load_benchmark
from palate.comparison import Grid, plan_grid, run_grid
from palate.evaluation import Work
from palate.reports import Form, Table, grid_tables, render
from palate.reports.grid import detail_tables

ROWS = [["a_b", "0.500"], ["c|d", "–"]]
TABLE = Table("b: 2 pairs", ["scorer", "accuracy"], ROWS, ["50 % ± 1"], 1, frozenset({0}))


def test_markdown() -> None:
    assert render([TABLE], Form.MARKDOWN) == (
        "**b: 2 pairs**\n\n| scorer | accuracy |\n| --- | ---: |\n| a_b | 0.500 |\n"
        "| c\\|d | – |\n\n50 % ± 1\n"
    )


def test_latex() -> None:
    assert render([TABLE], Form.LATEX) == (
        "\\begin{table}\n\\centering\n\\begin{tabular}{lr}\n\\toprule\nscorer & accuracy \\\\\n"
        "\\midrule\na\\_b & 0.500 \\\\\n\\midrule\nc|d & -- \\\\\n\\bottomrule\n\\end{tabular}\n"
        "\\caption{b: 2 pairs. 50 \\% $\\pm$ 1}\n\\label{tab:b-2-pairs}\n\\end{table}\n"
    )


def test_text() -> None:
    assert render([TABLE], Form.TABLE) == (
        "b: 2 pairs\n\n scorer   accuracy\n ─────────────────\n a_b         0.500\n\n"
        " c|d             –\n\n50 % ± 1\n"
    )


def test_a_grid_of_the_blind() -> None:
    cells = plan_grid(
        [load_benchmark("tasting")], ["longest"], ["none", "stranger:2", "rubric"], Work.of()
    )
    grid = run_grid(cells, Work.of())
    text = render(grid_tables(grid, times=False), Form.MARKDOWN)
    exact = "0.500 [0.500, 0.500]"
    zero = "+0.000 [0.000, 0.000]"
    assert f"| longest | none | {exact} | {exact} | – | – | – | 0 | 0 |" in text
    assert f"| longest | stranger:2 | {exact} | {exact} | {zero} | – | – | 0 | 0 |" in text
    assert f"| longest | rubric †oracle | {exact} | {exact} | {zero} | – | – | 0 | 0 |" in text
    assert "†oracle: shown the gold rubric" in text


def test_sentences_wrap_where_a_terminal_is_narrow_and_names_stay_whole() -> None:
    rows = [["personalized-rewardbench", "pairs of equally good answers that differ in taste"]]
    table = Table("benchmarks", ["name", "what it is"], rows, (), 2, prose=True)
    lines = render([table], Form.TABLE, width=50).splitlines()
    assert max(map(len, lines)) <= 50
    told = " ".join(" ".join(lines[4:]).split())
    assert told == " ".join(rows[0])


@pytest.mark.parametrize(("n", "long"), [(3, False), (4, True), (12, True)])
def test_what_a_hundred_columns_do_not_hold_has_a_row_per_subset(n: int, *, long: bool) -> None:
    names = [f"A_long_name_of_a_subset_{k}" for k in range(n)]
    subsets = {name: figure(0.5 + k / 50) for k, name in enumerate(names)}
    runs = [run("longest", context, 0.6, mirrored=False, subsets=subsets)
            for context in ("none", "profile:5")]  # fmt: skip
    (_, table) = detail_tables(Grid(tuple(runs), (), ()))
    columns = ["subset", "scorer", "context", "accuracy [95 %]"]
    assert [*table.columns] == (columns if long else ["scorer", "context", *names])
    assert len(table.rows) == (2 * n if long else 2)
    lines = render([table], Form.TABLE, width=100).splitlines()
    whole = [f"{0.5 + k / 50:.3f} [{0.45 + k / 50:.3f}, {0.55 + k / 50:.3f}]" for k in range(n)]
    for k, (name, shown) in enumerate(zip(names, whole, strict=True)):
        assert sum(shown in line for line in lines) == 2, "no figure is folded"
        if long:
            assert sum(line.split()[:1] == [name] for line in lines) == 2
            assert [*table.rows[2 * k]] == [name, "longest", "none", shown]


def test_the_two_gains_have_two_names_and_length_one() -> None:
    runs = [run("longest", c, 0.6, mirrored=False) for c in ("none", "profile:3")]
    gains = (gain("longest", "gain", 0.1), gain("longest", "identity", 0.1))
    (table,) = detail_tables(Grid(tuple(runs), (), gains))
    names = {"gain over nothing [95 %]", "identity gain [95 %]", "same length"}
    assert names <= {*table.columns}
    assert not any(name.startswith("gain [") for name in table.columns)
