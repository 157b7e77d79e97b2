"""Tables as they are printed."""

from palate.benchmarks import load_benchmark
from palate.comparison import plan_grid, run_grid
from palate.records import Settings
from palate.reports import Form, Table, grid_tables, render
from palate.session import default_session

TABLE = Table(
    "b: 2 pairs",
    ["scorer", "accuracy"],
    [["a_b", "0.500"], ["c|d", "–"]],
    ["50 % ± 1"],
    1,
    frozenset({0}),
)


def test_markdown() -> None:
    assert render([TABLE], Form.MARKDOWN) == (
        "**b: 2 pairs**\n\n| scorer | accuracy |\n| --- | ---: |\n| a_b | 0.500 |\n"
        "| c\\|d | – |\n\n50 % ± 1\n"
    )


def test_latex() -> None:
    assert render([TABLE], Form.LATEX) == (
        "\\begin{table}\n\\centering\n\\begin{tabular}{lr}\n\\toprule\nscorer & accuracy \\\\\n"
        "\\midrule\na\\_b & 0.500 \\\\\n\\midrule\nc|d & -- \\\\\n\\bottomrule\n\\end{tabular}\n"
        "\\caption{b: 2 pairs. 50 \\% $\\pm$ 1}\n\\end{table}\n"
    )


def test_text() -> None:
    assert render([TABLE], Form.TABLE).splitlines() == [
        "b: 2 pairs",
        "",
        " scorer   accuracy",
        " ─────────────────",
        " a_b         0.500",
        "",
        " c|d             –",
        "",
        "50 % ± 1",
    ]


def test_a_grid_of_the_blind() -> None:
    cells = plan_grid(
        [load_benchmark("tasting")],
        ["longest"],
        ["none", "stranger:2", "rubric"],
        default_session(),
        Settings(),
    )
    grid = run_grid(cells, root=None, session=default_session(), settings=Settings())
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
