"""The first screen: snapshots, words, and nothing torn."""

import re
import string
from pathlib import Path

import pytest
from grids import demo, gain, run, shown, text, three
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len

from palate.comparison import Grid, findings_of
from palate.reports import Form, printable, render, screens


def test_at_100_columns():
    assert text(demo()) == snapshot("""\
couples · 48 mirrored couples of 32 users · a scorer that ignores the user gets 0.500

                             accuracy when shown         identity gain over a stranger's
 scorer           context    nothing    own  stranger's     0         0.4    gain       p  finding
 ───────────────────────────────────────────────────────────────────────────────────────────────────
 similarity       profile:3        –  0.750       0.469     ┊    ├──●───┤  +0.281  <0.001  yes
 lift             profile:3        –  0.635       0.500     ├───●────┤     +0.135   0.142  not shown
 likelihood       profile:3    0.500  0.531       0.510     ├●┤            +0.021   0.331  not shown
 longest, random  profile:3    0.500  0.500       0.500     ●              +0.000       –  blind

similarity knows whom it is judging for: the right posts add +0.281 [0.169, 0.393].
Not shown is not absent: a gain of 0.05 needs 34 (likelihood) to 847 (lift) couples like these.

yes: identity gain above 0, p < 0.05 (Holm, baselines apart).
not shown: p of the identity gain is 0.05 or more.   blind: the same for every user.
similarity = similarity:pypi:mini; lift = lift:pypi:small; likelihood = likelihood:pypi:small.
next: palate report runs -o report.html    every figure: --details""")


def test_at_80_columns_the_drawing_goes_and_no_figure():
    assert text(demo(), 80) == snapshot("""\
couples · 48 mirrored couples of 32 users · a scorer that ignores the user gets
0.500

                  accuracy, profile:3         identity gain
 scorer           nothing    own  stranger's    gain       p  finding
 ──────────────────────────────────────────────────────────────────────
 similarity             –  0.750       0.469  +0.281  <0.001  yes
 lift                   –  0.635       0.500  +0.135   0.142  not shown
 likelihood         0.500  0.531       0.510  +0.021   0.331  not shown
 longest, random    0.500  0.500       0.500  +0.000       –  blind

similarity knows whom it is judging for: the right posts add +0.281
[0.169, 0.393].
Not shown is not absent: a gain of 0.05 needs 34 (likelihood) to 847 (lift)
couples like these.

yes: identity gain above 0, p < 0.05 (Holm, baselines apart).
not shown: p of the identity gain is 0.05 or more.
blind: the same for every user.
similarity = similarity:pypi:mini; lift = lift:pypi:small; likelihood =
likelihood:pypi:small.
next: palate report runs -o report.html    every figure: --details""")


def test_wider_than_100_is_as_100():
    assert text(demo(), 200) == text(demo(), 100)


def test_shown_nothing_alone():
    assert shown([run("longest", "none", 0.5), run("a:./m", "none", 0.6)]) == snapshot("""\
couples · 48 mirrored couples of 32 users · a scorer that ignores the user gets 0.500

          accuracy when shown
 scorer               nothing
 ────────────────────────────
 a                      0.600
 longest                0.500

a = a:./m.
next: -c profile:5 -c stranger:5 tell whether it has to be the right user's posts; where the data
has none, --posts FILE adds them\
""")


def test_unmirrored_pairs_have_accuracy_by_user_and_of_the_same_length():
    runs = three("a:./m", 0.6, 0.7, 0.62, mirrored=False)
    gains = (gain("a:./m", "identity", 0.08, 0.05, 0.01), gain("a:./m", "gain", 0.1, 0.05, 0.01))
    assert shown(runs, *gains) == snapshot("""\
couples · 96 pairs of 32 users

                    accuracy when shown                               identity gain
 scorer  context    nothing    own  stranger's  by user  same length    gain      p  finding
 ───────────────────────────────────────────────────────────────────────────────────────────
 a       profile:3    0.600  0.700       0.620    0.690        0.680  +0.080  0.010  yes

a knows whom it is judging for: the right posts add +0.080 [0.030, 0.130].

yes: identity gain above 0, p < 0.05 (Holm, baselines apart).
a = a:./m.
next: palate report runs -o report.html    every figure: --details""")


def test_states_of_a_personal_scorer_are_one_row():
    specs = ["personal:./m", "personal:./m?state=prior", "personal:./m?state=stranger"]
    runs = [run(spec, "none", value) for spec, value in zip(specs, (0.7, 0.5, 0.4), strict=True)]
    more = {"context": "none", "p_holm": 0.01}
    gains = (
        gain(specs[0], "gain", 0.2, against="state=prior", **more),
        gain(specs[0], "identity", 0.3, against="state=stranger", **more),
    )
    assert shown(runs, *gains) == snapshot("""\
couples · 48 mirrored couples of 32 users · a scorer that ignores the user gets 0.500

                    accuracy when shown         identity gain over a stranger's
 scorer    context  nothing    own  stranger's  0               0.4    gain      p  finding
 ──────────────────────────────────────────────────────────────────────────────────────────
 personal  state      0.500  0.700       0.400  ┊        ├───●────┤  +0.300  0.010  yes

personal knows whom it is judging for: the right user's state adds +0.300 [0.200, 0.400].

yes: identity gain above 0, p < 0.05 (Holm, baselines apart).
state: what a personal model knows of nobody (nothing), the user or a stranger.
personal = personal:./m.
next: palate report runs -o report.html    every figure: --details""")


@pytest.mark.parametrize(
    ("identity", "p", "over_nothing", "ties", "word"),
    [
        (0.2, 0.01, 0.2, 0, "yes"),
        (-0.2, 0.01, 0.0, 0, "stranger's"),
        (0.02, 0.6, 0.2, 0, "anyone's"),
        (0.02, 0.6, -0.2, 0, "not shown"),
        (0.0, 1.0, 0.0, 96, "all ties"),
    ],
)
def test_words(identity, p, over_nothing, ties, word):
    runs = three("a", 0.5, 0.6, 0.55, ties=ties)
    gains = (gain("a", "identity", identity, 0.1, p), gain("a", "gain", over_nothing, 0.1, 0.01))
    (finding,) = findings_of(Grid(tuple(runs), (), gains))
    assert finding.word == word
    assert [finding.nothing, finding.run, finding.stranger] == runs


def test_the_same_result_for_every_user_is_blind():
    gains = (gain("a", "identity", 0.0, 0.0, 1.0),)
    (finding,) = findings_of(Grid(tuple(three("a", 0.5, 0.5, 0.5)), (), gains))
    assert finding.word == "blind"


def test_upper_bounds_and_what_was_left_out_are_one_line_each():
    runs = [
        *three("a:./m", 0.5, 0.6, 0.5, unscored=3, leaks_dropped=2, undecided_rows=72),
        run("a:./m", "rubric", 0.8, oracle=True),
    ]
    lines = shown(runs, gain("a:./m", "identity", 0.1, 0.1, 0.3)).splitlines()
    assert "Upper bound, shown gold: a 0.800 (rubric)." in lines
    assert lines.count("Of the rows read, 72 are undecided and have no verdict.") == 1
    left_out = [line for line in lines if "rows unscored" in line]
    assert left_out == [
        f"{context}: 3 rows unscored (a); 2 shown parts dropped that held the answer (a)."
        for context in ("none", "profile:3", "stranger:3")
    ]


@pytest.mark.parametrize(("n", "told"), [(None, False), (4, False), (5, True)])
def test_searches_without_a_word_in_common_are_told_from_a_tenth_on(n: int | None, told: bool):
    runs = three("a", 0.5, 0.6, 0.5, n_pairs=40, searches_unmatched=n)
    told_of = shown(runs, gain("a", "identity", 0.1, 0.1, 0.3))
    line = f"{n} searches without a word in common, which show the latest posts (a)"
    assert (line in " ".join(told_of.split())) == told


def test_markdown_and_latex_hold_the_same_cells():
    (screen,) = screens(demo())
    assert (
        "| similarity | profile:3 | – | 0.750 | 0.469 | +0.281 [0.169, 0.393] | <0.001 | yes |"
        in render([screen.table()], Form.MARKDOWN)
    )
    assert "0.750 & 0.469" in render([screen.table()], Form.LATEX)


def test_documents_have_no_hint_of_the_shell_and_latex_has_spanning_heads_and_a_label():
    (screen,) = screens(demo(), Path("runs"), hint=True)
    assert "next: palate report" in screen.text()
    for form in (Form.MARKDOWN, Form.LATEX):
        assert "palate report" not in render([screen.table()], form)
    latex = render([screen.table()], Form.LATEX)
    head = r" &  & \multicolumn{3}{c}{accuracy when shown} &  &  &  \\"
    names = r"scorer & context & nothing & own & stranger's & identity gain [95 \%] & p & finding"
    assert f"{head}\n\\cmidrule(lr){{3-5}}\n{names}" in latex
    assert r"\label{tab:couples}" in latex
    assert "$<$0.001" in latex
    assert not re.search("[^\x00-\x7f]", latex), "pdflatex knows no such letter in OT1"


NAMES = st.text(string.ascii_letters + "-_. é漢", min_size=1, max_size=60)


def test_a_terminal_gets_no_escape_of_a_name():
    scorer = "classifier:./\x1b]0;gone\x07"
    shown = printable(text(Grid((run(scorer, "none", 0.5, benchmark="\x9b2J"),), (), ())))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert "�]0;gone�" in shown


@settings(max_examples=60)
@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.sampled_from([80, 100, 200]))
def test_no_line_is_wider_than_100_and_no_figure_is_torn(names, width):
    scorers = [f"classifier:./{re.sub(r'[?&=:/]', '', name) or 'x'}" for name in names]
    runs = [r for k, s in enumerate(scorers) for r in three(s, 0.5, 0.6 + k / 100, 0.5)]
    gains = [gain(s, "identity", 0.1 + k / 100, 0.1, 0.2) for k, s in enumerate(scorers)]
    table = text(Grid(tuple(runs), (), tuple(gains)), width).split("\n\n")[1].split("\n")
    assert all(cell_len(line) <= 100 for line in table)
    for k in range(len(set(scorers))):
        assert any(f"+0.{100 + 10 * k}" in line for line in table)


@pytest.mark.parametrize(("n_users", "warned"), [(9, True), (10, False)])
def test_findings_on_few_users_carry_a_warning(n_users, warned):
    runs = three("a:./m", None, 1.0, 0.4, n_users=n_users)
    told = shown(runs, gain("a:./m", "identity", 0.6, 0.1, 0.01))
    assert ("9 users are too few to rely on: a finding needs dozens." in told) is warned


def test_a_gain_that_one_scorer_misses_needs_so_many_couples():
    runs = three("a:./m", None, 0.53, 0.51)
    told = shown(runs, gain("a:./m", "identity", 0.02, 0.05, 0.4))
    assert "a gain of 0.05 needs 95 couples like these (a)." in told


def test_nothing_is_said_of_knowing_where_nothing_could_be_measured():
    runs = three("judge:api:dead", 0.5, 0.5, 0.5)
    dead = gain("judge:api:dead", "identity", 0.0).model_copy(update={"value": None})
    assert "whom it is judging for" not in shown(runs, dead)
    unclear = gain("judge:api:dead", "identity", 0.0, p_holm=0.9)
    assert "No scorer is shown to know" in shown(runs, unclear)


def test_all_ties_of_a_judge_say_that_both_orders_pick_one_side():
    one_side = {"first_twice": 90, "second_twice": 4, "n": 96, "consistent": 0.02}
    runs = three("judge:m", 0.5, 0.5, 0.5, ties=96, position_consistency=one_side)
    zero = gain("judge:m", "identity", 0.0, 0.0)
    line = "all ties: decides no pair: in 94 of 96 both orders pick the side, not"
    assert line in shown(runs, zero).replace("\n", " ")
    runs = three("rating:m", 0.5, 0.5, 0.5, ties=96)
    alone = gain("rating:m", "identity", 0.0, 0.0)
    assert "all ties: decides no pair." in shown(runs, alone)
