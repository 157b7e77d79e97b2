"""Alarms on the screen, in `compare` and on the page; and scorers blind across cells."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from grids import demo, run, text, three
from inline_snapshot import snapshot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from planted_sick import PlantedScorer, healthy, noise, posts, sick

import palate
from pairs import pair_of
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import Grid, evaluate
from palate.metrics import alarms
from palate.records import Post, ScorerInfo, Scores
from palate.reports import comparison_tables
from palate.reports.verdict import WORDS, alarm_lines, alarms_of, fact_and_meaning
from palate.runs import load_runs

Alarm = alarms.Alarm
SHOWN = {
    "constant": Alarm(check="constant", n=192, of=192, value=0.5),
    "coarse": Alarm(check="coarse", n=1204, of=1436, value=0.0625),
    "saturated": Alarm(check="saturated", n=180, of=192),
    "ties": Alarm(check="ties", n=90, of=96),
    "unscored": Alarm(check="unscored", n=40, of=96, reason="unreadable: no number"),
    "one side": Alarm(check="one side", n=95, of=96),
    "length": Alarm(check="length", n=96, of=96, value=0.997),
    "blind": Alarm(check="blind", n=48, of=48),
    "cut": Alarm(check="cut", n=30, of=48),
}


def with_alarms(grid, **checks):
    """Return a grid of which some scorers raise an alarm in every cell."""
    runs = list(grid.runs)
    for scorer, check in checks.items():
        runs += three(f"{scorer}:./m", 0.5, 0.5, 0.5, alarms=(SHOWN[check],))
    return Grid(tuple(runs), (), grid.gains)


def test_at_100_columns_each_alarm_is_one_line():
    found = text(with_alarms(demo(), classifier="constant", rating="blind"))
    assert found == snapshot("""\
couples · 48 mirrored couples of 32 users · a scorer that ignores the user gets 0.500

                                accuracy when shown         identity gain
 scorer              context    nothing    own  stranger's    gain       p  finding
 ────────────────────────────────────────────────────────────────────────────────────
 similarity          profile:3        –  0.750       0.469  +0.281  <0.001  yes
 lift                profile:3        –  0.635       0.500  +0.135   0.142  not shown
 likelihood          profile:3    0.500  0.531       0.510  +0.021   0.331  not shown
 classifier, rating  profile:3        –  0.500           –       –       –  –
 longest, random     profile:3    0.500  0.500       0.500  +0.000       –  blind

classifier: all 192 scores are 0.5; usually no head is loaded, or no response is read.
rating: 48 of 48 margins do not change with the user; usually it never reads the user.
look: palate show -b couples -s classifier:./m -c 'profile:3?of=stranger'
similarity knows whom it is judging for: the right posts add +0.281 [0.169, 0.393].
Not shown is not absent: a gain of 0.05 needs 34 (likelihood) to 847 (lift) couples like these.

yes: identity gain above 0, p < 0.05 (Holm, baselines apart).
not shown: p of the identity gain is 0.05 or more.   blind: the same for every user.
similarity = similarity:pypi:mini; lift = lift:pypi:small; likelihood = likelihood:pypi:small;
classifier = classifier:./m; rating = rating:./m.
next: palate report runs -o report.html    every figure: --details\
""")


def test_at_80_columns_no_line_is_torn_within_a_word():
    found = text(with_alarms(demo(), classifier="saturated"), 80)
    assert max(map(len, found.splitlines())) <= 80
    assert "classifier: 180 of 192 scores lie at 0 or 1; usually a softmax or sigmoid" in found


@pytest.mark.parametrize("check", WORDS)
def test_every_check_has_words_that_fit_one_line(check):
    fact, meaning = fact_and_meaning(SHOWN[check])
    (line, look) = alarm_lines(
        [run("a-model-of-24-characters", "none", 0.5, alarms=(SHOWN[check],))], str
    )
    assert line == f"a-model-of-24-characters, none: {fact}; usually {meaning}."
    assert len(line) <= 115
    assert look == "look: palate show -b couples -s a-model-of-24-characters -c none"


def test_one_line_tells_all_contexts_of_a_scorer_by_the_worst():
    worse = SHOWN["ties"].model_copy(update={"n": 96})
    runs = [
        run("judge:./m", "none", 0.5, alarms=(SHOWN["ties"],)),
        run("judge:./m", "profile:3", 0.5, alarms=(worse,)),
    ]
    first, _ = alarm_lines(runs, lambda spec: spec.partition(":")[0])
    assert first.startswith("judge, none, profile:3: 96 of 96 pairs are ties;")


@pytest.fixture(scope="module")
def planted_root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name, planted in (("sick", sick(0)["blind to the user"]), ("well", healthy(1)["a score"])):
        for context in ("none", "profile:2", "stranger:2"):
            scorer = PlantedScorer(planted)
            scorer.info = ScorerInfo(fingerprint=name)
            evaluate("tasting", scorer, context, root=root, name=name)
    return root


def test_compare_marks_the_scorer_and_says_why(planted_root):
    comparison = palate.compare(planted_root)
    tables = comparison_tables(comparison)
    (ranking,) = [t for t in tables if "profile:2" in t.title and "paired" not in t.title]
    assert [row[0] for row in ranking.rows if "sick" in row[0]] == ["sick ‡"]
    assert [row[0] for row in ranking.rows if "well" in row[0]] == ["well"]
    notes = [note for table in tables for note in table.notes if note.startswith("‡")]
    assert notes == [
        "‡ sick, profile:2: 48 of 48 margins do not change with the user; "
        "usually it never reads the user.",
        "‡ look: palate show -b tasting -s sick -c profile:2",
    ]
    assert r"$\ddagger$" in comparison.to_latex()
    (document,) = [
        summary
        for summary in comparison.document()["runs"]
        if summary["scorer"] == "sick" and summary["context"] == "profile:2"
    ]
    assert [alarm["check"] for alarm in document["alarms"]] == ["blind"]


def test_the_page_marks_the_scorer_and_says_not_to_use_it(planted_root, tmp_path):
    palate.report(planted_root, output=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<span class='tag'>look</span>") == 1
    before, _, rest = page.partition("48 of 48 margins do not change with the user")
    assert before.rstrip().endswith('data-label="figure">')
    assert "sick, profile:2" in before[-200:]
    assert "usually it never reads the user" in rest[:200]
    assert "do not use" in rest[:600]


def test_a_run_alone_prints_its_alarms(planted_root):
    (blind,) = [r for r in load_runs(planted_root) if r.cell[1:] == ("sick", "profile:2")]
    assert "48 of 48 margins do not change with the user" in str(blind)


UNMIRRORED = Dataset(
    "own questions",
    tuple(
        pair_of(
            text=f"Question {k}?", id=str(k), user_id=f"u{k % 20}", chosen=f"yes {k}",
            rejected=f"no {k}", profile=(Post(id=f"p{k % 20}", text=f"I am user {k % 20}."),),
        )
        for k in range(60)
    ),
)  # fmt: skip


def unmirrored_runs(score, name="mine"):
    class Own:
        info = ScorerInfo(fingerprint=name)

        def score(self, slates):
            for k, slate in enumerate(slates):
                yield k, Scores(values=tuple(score(slate, text) for text in slate.candidates))

    contexts = ("none", "profile:1", "stranger:1")
    return [evaluate(UNMIRRORED, Own(), context, root=None, name=name) for context in contexts]


def test_where_no_two_users_share_a_question_cells_are_held_against_each_other():
    blind = unmirrored_runs(lambda slate, text: noise(text))
    assert all(run.summary.alarms == () for run in blind)
    ((of, alarm),) = alarms_of(blind)
    assert (of.summary.context, alarm.check, alarm.n, alarm.of) == ("profile:1", "blind", 60, 60)
    assert [*alarms_of(blind[1:])] and not [*alarms_of(blind[:1] + blind[2:])]


def test_a_row_that_another_cell_lacks_does_not_hide_that_a_scorer_is_blind():
    def score(slate, text):
        return None if text == "no 7" and not slate.shown else noise(text)

    blind = unmirrored_runs(score)[:2]
    ((_, alarm),) = alarms_of(blind)
    assert (alarm.check, alarm.n, alarm.of) == ("blind", 59, 59)


@pytest.mark.parametrize(
    ("score", "name"),
    [
        (lambda slate, text: noise(posts(slate), text), "mine"),
        (lambda slate, text: noise(text) + 1e-9 * noise(posts(slate), text), "mine"),
        (lambda slate, text: round(3 * noise(text)), "mine"),
        (lambda slate, text: noise(text), "random"),
        (lambda slate, text: noise(text), "personal:./m"),
    ],
    ids=["reads the user", "hardly moved", "few values", "a baseline", "reads choices"],
)
def test_none_of_these_is_blind(score, name):
    assert not [*alarms_of(unmirrored_runs(score, name))]


def test_real_baselines_have_no_alarm_on_any_cell():
    tasting = load_benchmark("tasting")
    runs = [
        evaluate(tasting, scorer, context, root=None)
        for scorer in ("random", "longest", "shortest")
        for context in ("none", "profile:2", "stranger:2")
    ]
    assert not [*alarms_of(runs)]
