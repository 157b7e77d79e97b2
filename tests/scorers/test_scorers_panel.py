"""A panel of judges: votes, shares and margins by hand, members as they are by themselves."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import palate as package
from endpoints import ScriptedChat
from pairs import register_all, scored
from palate.answers import Sample, Samples
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import compare, evaluate
from palate.engines import Reply
from palate.errors import SpecError
from palate.records import Judgement, Outcome, ScorerInfo
from palate.runs import JOURNAL, read_manifest
from palate.scorers import build_scorer
from palate.seeding import unit
from palate.session import default_session
from palate.verification import DataOfRuns, verify_run
from tiny import make_slate

API = "judge:api:{}?base_url=http://127.0.0.1:9/v1"
SLATE = make_slate("GOOD tea.", "BAD coffee.")
ANN = "panel:panel.toml"
ROOT = Path(__file__).resolve().parents[2]


class Scripted:
    """A judge by a function of the slate's two responses."""

    def __init__(self, name, judgement, **info):
        self.info = ScorerInfo(fingerprint=name, exact=True, pairs_only=True, **info)
        self.judgement, self.asked = judgement, 0

    def judge(self, slates):
        for k, slate in enumerate(slates):
            self.asked += 1
            yield k, self.judgement(slate)


def drawn(name):
    """Return a judge of random margins that depend on both responses, and on their order."""

    def judgement(slate):
        a, b = (unit(name, text) for text in slate.candidates)
        return Judgement(margin=0.0 if abs(a - b) < 0.05 else round(a - b, 3))

    return Scripted(name, judgement)


@pytest.fixture
def judges(monkeypatch, tmp_path):
    """Let names be specs of judges, of members and of runs alike; give the folder of files."""
    known = {}
    register_all(monkeypatch, known)
    monkeypatch.chdir(tmp_path)
    return known


def panel(by, *members, file="panel.toml", **named):
    """Return a panel of these members, written to a file."""
    text = f"by = {by!r}\n"
    if members:
        text += f"members = {json.dumps(members)}\n"
    else:
        text += "[members]\n" + "".join(f'{name} = "{spec}"\n' for name, spec in named.items())
    Path(file).write_text(text)
    return build(f"panel:{file}")


def build(text):
    return build_scorer(text, default_session())


def said(*margins):
    """Return judges that say the same of every pair: a margin, or both orders'."""
    return {
        f"j{k}": Scripted(
            f"j{k}",
            lambda slate, m=m: (
                m
                if isinstance(m, Judgement)
                else Judgement(margin=float(np.mean(m)), orders=m if isinstance(m, tuple) else ())
            ),
        )
        for k, m in enumerate(margins)
    }


HAND = [
    # margins of three judges; by majority, by share, by margin
    ((1.0, 1.0, -1.0), 1.0, 1 / 3, 1 / 3),
    ((0.2, 0.1, -3.0), 1.0, 1 / 3, -0.9),
    ((1.0, 0.0, -1.0), 0.0, 0.0, 0.0),
    ((0.0, 0.0, -1.0), -1.0, -1 / 3, -1 / 3),
    ((-1.0, -0.5, -0.5), -1.0, -1.0, -2 / 3),
    (((1.0, -1.0), 1.0, 1.0), 1.0, 2 / 3, 2 / 3),
    # Orders that disagree are a tie among votes, whatever their mean; by margin the mean counts.
    (((1.2, -0.2), -0.3, 0.0), -1.0, -1 / 3, 0.2 / 3),
]


@pytest.mark.parametrize(("margins", "majority", "share", "margin"), HAND)
def test_three_judges_by_hand(judges, margins, majority, share, margin):
    judges |= said(*margins)
    for by, expected in {"majority": majority, "share": share, "margin": margin}.items():
        ((place, judgement),) = panel(by, *judges).judge([SLATE])
        assert place == 0
        assert judgement.margin == pytest.approx(expected, abs=1e-12)
        assert judgement.orders == ()
        outcome = judgement.verdict(0).outcome
        assert (
            outcome
            is {1: Outcome.CHOSEN, 0: Outcome.TIE, -1: Outcome.REJECTED}[
                int(np.sign(round(expected, 9)))
            ]
        )


def test_votes_of_every_three_judges_equal_a_count(judges):
    for votes in product((-1.0, 0.0, 1.0), repeat=3):
        judges.clear()
        judges |= said(*votes)
        first, second = votes.count(1.0), votes.count(-1.0)
        (_, majority), (_, share) = (
            next(iter(panel(by, *judges).judge([SLATE]))) for by in ("majority", "share")
        )
        assert majority.margin == (first > second) - (first < second)
        assert (1 + share.margin) / 2 == pytest.approx((first + votes.count(0.0) / 2) / 3)


def test_a_member_that_fails_leaves_the_row_unscored_with_its_name(judges):
    lost = Judgement(margin=None, orders=(1.0, None), reason="unreadable: no verdict")
    gone = Judgement(margin=None, reason="HTTP 503", outage=True)
    judges |= said(1.0, lost, gone, float("nan"))
    ((_, one),) = panel("majority", sure="j0", vague="j1").judge([SLATE])
    assert (one.margin, one.reason, one.outage) == (None, "vague: unreadable: no verdict", False)
    ((_, two),) = panel("share", "j0", "j2", "j1", "j3").judge([SLATE])
    assert two.reason == "j2: HTTP 503; j1: unreadable: no verdict; j3: not a number"
    assert two.outage
    assert two.verdict(0).outcome is Outcome.UNSCORED


def test_a_run_by_share_holds_the_shares_and_its_accuracy_is_the_members_mean(judges):
    judges |= {name: drawn(name) for name in "abc"}
    panel("share", *"abc")
    data = load_benchmark("tasting")
    run = evaluate(data, ANN, "none", root="runs")
    alone = [evaluate(data, name, "none", root="runs") for name in "abc"]
    shares = np.mean([each.verdicts.values for each in alone], axis=0)
    assert np.allclose(run.verdicts.values, shares)
    assert np.isnan(run.verdicts.margins).all()
    assert run.verdicts.shared
    assert {row.outcome for row in run.verdicts.rows} >= {Outcome.CHOSEN, Outcome.REJECTED}
    for member, other in zip(run.summary.members.members, alone, strict=True):
        assert member.accuracy == other.summary.accuracy


def test_agreement_is_alpha_of_the_members_choices(judges):
    judges |= {name: drawn(name) for name in "abc"}
    panel("majority", *"abc")
    pairs = load_benchmark("tasting").limit(20)
    run = evaluate(pairs, ANN, "none", root=None)
    choices = [
        np.sign(evaluate(pairs, name, "none", root=None).verdicts.values - 0.5) for name in "abc"
    ]
    # Krippendorff: observed over expected disagreement, every row also the other way round.
    units = [tuple(votes) for votes in np.array(choices).T]
    units += [tuple(-v for v in votes) for votes in units]
    observed = np.mean([a != b for votes in units for a, b in combinations(votes, 2)])
    every = [vote for votes in units for vote in votes]
    expected = np.mean([a != b for a, b in combinations(every, 2)])
    agreed = run.summary.members.agreement
    assert agreed.value == pytest.approx(1 - observed / expected)
    assert agreed.n == len(pairs.pairs)
    assert run.summary.members.by == "majority"


@pytest.mark.parametrize("first", ["panel", "members"])
def test_members_and_the_panel_share_what_is_cached(judges, first):
    judges |= {name: drawn(name) for name in "abc"}
    panel("majority", *"abc")
    pairs = load_benchmark("tasting").limit(10)
    specs = [ANN, "a", "b", "c"] if first == "panel" else ["a", "b", "c", ANN]
    for spec in specs:
        evaluate(pairs, spec, "none", root="runs")
    distinct = len({frozenset((pair.chosen, pair.rejected)) for pair in pairs.pairs})
    assert [judge.asked for judge in judges.values()] == [distinct] * 3
    by_spec = {
        json.loads(path.read_text())["identity"]["scorer"]: path.parent
        for path in Path("runs").rglob("manifest.json")
    }
    whole = next(folder for spec, folder in by_spec.items() if spec.startswith("panel"))
    passes = [read_manifest(by_spec[name]).passes for name in "abc"]
    assert read_manifest(whole).passes == tuple(of for (of,) in passes)
    assert all((folder / JOURNAL).is_file() for folder in by_spec.values())


def test_another_panel_asks_nobody_again_and_has_a_run_of_its_own(judges):
    judges |= {name: drawn(name) for name in "abc"}
    pairs, folders = load_benchmark("tasting").limit(6), set()
    for by in ("majority", "share", "margin"):
        panel(by, *"abc")
        folders.add(evaluate(pairs, ANN, "none", root="runs").folder)
        before = judges["a"].asked
    assert len(folders) == 3
    assert judges["a"].asked == before == 6


def test_what_the_file_says_is_in_the_name(judges):
    judges |= {name: drawn(name) for name in "abc"}
    named = panel("majority", *"abc").canonical
    assert named.startswith(f"{ANN}@")
    assert len(named) == len(ANN) + 9
    Path("panel.toml").write_text("# A remark.\n" + Path("panel.toml").read_text())
    assert build(ANN).canonical == build(named).canonical == named
    others = {panel("share", *"abc").canonical, panel("majority", *"ab").canonical}
    assert len(others | {panel("majority", x="a", y="b", z="c").canonical, named}) == 4
    with pytest.raises(SpecError, match=r"panel.toml says something else now: it is @"):
        build(named)


def test_a_member_without_a_shown_part_is_unscored_by_name(judges):
    judges |= {"a": drawn("a"), "shy": Scripted("shy", drawn("x").judgement, skips_unshown=True)}
    panel("majority", "a", "shy")
    bare = Dataset.from_rows(
        "bare",
        [
            {"id": "1", "user_id": "ann", "question": "Tea?", "chosen": "Yes.", "rejected": "No."},
            {
                "id": "2", "user_id": "bob", "question": "Milk?", "chosen": "Much.",
                "rejected": "None.", "profile": [{"id": "p", "text": "I like milk a lot."}],
            },
        ],
    )  # fmt: skip
    run = evaluate(bare, ANN, "profile:1", root=None)
    assert run.summary.unscored_reasons == {"shy: nothing shown": 1}
    assert [member.accuracy.n for member in run.summary.members.members] == [2, 1]


def test_compare_the_page_and_verify_take_a_panel(judges, tmp_path):
    judges |= {name: drawn(name) for name in "abc"}
    named = panel("margin", x="a", y="b", z="c").canonical
    data = load_benchmark("tasting")
    run = evaluate(data, ANN, "none", root="runs")
    evaluate(data, "longest", "none", root="runs")
    evaluate(data, "a", "none", root="runs")
    compared = compare("runs")
    assert {run.summary.scorer for run in compared.runs} == {named, "longest", "a"}
    assert "members of panels and mixes" in " ".join(str(run).split())
    assert "by margin: members agree by α" in " ".join(str(run).split())
    schema = json.loads((ROOT / "docs" / "schemas" / "run.json").read_text())
    Draft202012Validator(schema).validate(run.document())
    checked = verify_run(run.folder, DataOfRuns())
    assert checked.problems == []
    sections = package.report("runs", tmp_path / "page.html")
    assert "members" in [section.name for section in sections]
    page = (tmp_path / "page.html").read_text()
    assert "members of panels and mixes" in page
    assert str(tmp_path) not in page


def test_a_panel_scores_samples_by_its_margins_against_each_other(judges):
    judges |= {name: drawn(name) for name in "abc"}
    panel("majority", *"abc")
    pairs = load_benchmark("tasting").limit(2)
    texts = ["One tea.", "Two teas, please.", "Three teas for me."]
    drawn_texts = tuple(tuple(map(Sample, texts)) for _ in pairs.rows)
    samples = Samples("p", tuple(row.id for row in pairs.rows), drawn_texts)
    for row in scored(ANN, samples, pairs).rows:
        for text, score in zip(texts, row.scores, strict=True):
            votes = [
                np.sign(sum(np.sign(margin_by(name, text, other)) for name in "abc"))
                for other in texts
                if other != text
            ]
            assert score == pytest.approx(np.mean(votes))


def margin_by(name, text, other):
    a, b = unit(name, text), unit(name, other)
    return 0.0 if abs(a - b) < 0.05 else round(a - b, 3)


def test_judges_behind_an_endpoint_are_members(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    made = panel("majority", plain=API.format("m"), other=API.format("n"))
    for member, side in zip(made.members, "AB", strict=True):
        member.scorer.answers.model.endpoint = ScriptedChat(
            lambda ask, s=side: Reply(f"Verdict: {s}")
        )
    ((_, judgement),) = made.judge([SLATE])
    assert judgement.margin == 0.0  # both prefer a place, not a response: two ties
    assert len(made.prompts(SLATE)) == 4
    assert [member.name for member in made.members] == ["plain", "other"]


BAD = {
    "one": ('members = ["random"]\nby = "share"', "`members` names 1; expected 2 or more"),
    "none": ('members = []\nby = "share"', "`members` names 0; expected 2 or more"),
    "itself": (
        'members = ["a", "panel:panel.toml"]\nby = "share"',
        "member 'panel:panel.toml': it is made of members itself; name those",
    ),
    "twice": ('members = ["a", "a"]\nby = "share"', "member 'a' is the same scorer as 'a'"),
    "twice by name": (
        'by = "share"\n[members]\nx = "a"\ny = "a"',
        "member 'y' (a) is the same scorer as 'x'; leave one out",
    ),
    "scorers": ('members = ["a", "longest"]\nby = "share"', "member 'longest' is a scorer; mix:"),
    "no judge": ('members = ["longest", "random"]\nby = "share"', "member 'longest' is a scorer"),
    "by": ('members = ["a", "b"]\nby = "mean"', "by: input should be 'majority', 'share' or"),
    "no by": ('members = ["a", "b"]', "by: field required"),
    "no members": ('by = "share"', "members: field required"),
    "unknown key": ('members = ["a", "b"]\nby = "share"\nseed = 1', "seed: extra inputs are not"),
    "no text": ('members = ["a", 3]\nby = "share"', "should be a valid string"),
    "no name": ('by = "share"\n[members]\n" " = "a"\ny = "b"', "a member's name is empty"),
    "no TOML": ("members = [", "panel.toml: "),
    "unknown kind": (
        'by = "share"\n[members]\nx = "jugde:m"\ny = "a"',
        "member 'x' (jugde:m): unknown scorer 'jugde'; did you mean judge?",
    ),
    "paper": (
        f'by = "share"\nmembers = ["a", "{API.format("m")}&protocol=paper"]',
        "has protocol=paper, of one judge alone",
    ),
    "units": (
        f'by = "margin"\nmembers = ["a", "{API.format("m")}&verdict=logits"]',
        "by = 'margin' adds margins of one unit; those of 'judge:api:m?base_url=",
    ),
    "states": ('members = ["a", "s"]\nby = "share"', "member 's' keeps a state for each user"),
}


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_in_one_line(judges, text, problem):
    judges |= {"a": drawn("a"), "b": drawn("b")}
    judges["s"] = Scripted("s", drawn("s").judgement, needs_user=True)
    Path("panel.toml").write_text(text)
    with pytest.raises(SpecError) as error:
        build(ANN)
    assert problem in str(error.value)
    assert str(error.value).startswith("panel.toml: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("panel", "spec 'panel' needs a reference, as in panel:members.toml"),
        ("panel:gone.toml", "gone.toml: [Errno 2] No such file or directory"),
        ("panel:panel.toml?by=share", "unknown option 'by' (known: none)"),
    ],
)
def test_a_bad_spec_is_refused_in_one_line(judges, spec, problem):
    with pytest.raises(SpecError) as error:
        build(spec)
    assert problem in str(error.value)


def test_the_command_line_refuses_in_one_line(palate, tmp_path):
    (tmp_path / "panel.toml").write_text('members = ["random", "longest"]\nby = "share"\n')
    code, out, err = palate("evaluate", "-b", "tasting", "-s", ANN)
    assert (code, out) == (2, "")
    assert err.endswith("panel.toml: member 'random' is a scorer; mix:FILE adds scores")
