"""Findings and ranks that noise could turn: on planted margins, through summaries and gains."""

import numpy as np
import pytest

from palate.comparison import Grid, compare, findings_of, gains_of
from palate.comparison.redraws import HOLDS
from palate.evaluation import summarise
from palate.metrics import paired_difference
from palate.records import Judgement
from palate.reports import comparison_tables, grid_tables, screens
from palate.runs import Run, VerdictRow, Verdicts, noise_of

OWN, STRANGER = "profile:3", "profile:3?of=stranger"


def rows(margins, users=30, questions=1000):
    """Return unmirrored rows, shared questions where there are few."""
    for k, margin in enumerate(margins):
        verdict = Judgement(margin=float(margin)).verdict(0)
        yield VerdictRow(
            id=f"{k:05}", content_hash=str(k),
            question_hash=VerdictRow.hash_of(str(k % questions)),
            response_hashes=(VerdictRow.hash_of(f"{k}a"), VerdictRow.hash_of(f"{k}b")),
            user=f"u{k % users}", subset="", mirror_of=None, outcome=verdict.outcome,
            margin=verdict.margin, own_words=9, lengths=(9, 8),
        )  # fmt: skip


def run(scorer, context, first, again=None, sample=(), kind="rounding", **more):
    """Return a run; `again` are the second margins, of which the sample is known."""
    verdicts, twice, noise = Verdicts(rows(first, **more)), None, None
    if again is not None:
        twice = Verdicts(rows(again, **more)).take(np.asarray(sample))
        noise = noise_of(verdicts, twice, kind, "bfloat16" if kind == "rounding" else None)
    summary = summarise(verdicts, benchmark="b", scorer=scorer, context=context, noise=noise)
    return Run(summary, verdicts, again=twice)


def grid_of(*runs):
    return Grid(tuple(runs), (), tuple(gains_of(runs)))


def pair(scorer, gain, error, seed=0, n=300, sample=range(16), kind="rounding"):
    """Return runs of the user's own and a stranger's, and whether float32 shows a gain."""
    rng = np.random.default_rng(seed)
    exact = rng.standard_normal((2, n)) + np.array([[gain], [0.0]])
    half = exact + error * rng.standard_normal((2, n))
    contexts = OWN, STRANGER
    sides = [
        run(scorer, c, h, e, sample, kind) for c, h, e in zip(contexts, half, exact, strict=True)
    ]
    return sides, [run(scorer, c, e) for c, e in zip(contexts, exact, strict=True)]


def identity_of(grid):
    (identity,) = [gain for gain in grid.gains if gain.kind == "identity"]
    return identity


def word(runs):
    return next(f.word for f in findings_of(grid_of(*runs)) if f.context == OWN)


def without_noise(runs):
    return [Run(r.summary.model_copy(update={"noise": None}), r.verdicts) for r in runs]


def borderline(error=0.5, kind="rounding"):
    """Return runs whose *yes* float32 does not share."""
    for seed in range(400):
        half, exact = pair("lift:./m", 0.15, error, seed, kind=kind)
        if word(without_noise(half)) == "yes" and word(exact) == "not shown":
            return half, exact
    raise AssertionError("no such seed")


def test_a_yes_that_float32_does_not_share_reads_rounding():
    half, _ = borderline()
    grid = grid_of(*half)
    identity = identity_of(grid)
    assert identity.p_holm < 0.05 and 0 < identity.survival < HOLDS
    assert word(half) == "rounding"
    (screen,) = screens(grid)
    text = screen.text()
    assert "  rounding" in text and "rounding: p < 0.05, but rounding in half" in text
    assert "could turn +0." in text and "run it with --dtype float32." in " ".join(text.split())
    assert "No scorer is shown to know whom it is judging for." in " ".join(text.split())
    assert all(len(line) <= 100 for line in text.splitlines())
    details = "\n".join(t.text() for t in grid_tables(grid))
    assert "bfloat16 moves a margin by 0." in details and "verdicts flip in float32" in details


def test_a_clear_gain_stays_and_says_how_surely():
    half, exact = pair("lift:./m", 1.0, 0.2)
    identity = identity_of(grid_of(*half))
    assert (word(half), word(exact), identity.survival) == ("yes", "yes", 1.0)
    assert all(g.survival is None for g in grid_of(*exact).gains)


def test_with_every_row_in_float32_the_finding_is_float32s():
    for seed in range(12):
        half, exact = pair("lift:./m", 0.2, 0.5, seed, sample=range(300))
        words = word(half), word(exact)
        identity = identity_of(grid_of(*half))
        assert identity.survival in (None, 0.0, 1.0)
        assert words[0] in (words[1], "rounding", "not shown")
        assert (words[0] == "yes") <= (words[1] == "yes")


def test_a_stranger_s_gain_and_replies_that_change():
    half, _ = pair("lift:./m", -1.2, 0.2)
    assert word(half) == "stranger's"
    half, _ = borderline(kind="asking again")
    assert word(half) == "unsteady"
    text = " ".join(screens(grid_of(*half))[0].text().split())
    assert "Asking again could turn" in text and "--dtype" not in text


def test_what_is_drawn_does_not_depend_on_the_file_s_order():
    half, _ = borderline()
    back = np.arange(len(half[0].verdicts))[::-1]
    turned = [Run(each.summary, each.verdicts.take(back), again=each.again) for each in half]
    a, b = (grid_of(*runs).gains for runs in (half, turned))
    assert [g.survival for g in a] == [g.survival for g in b]


def test_exact_scorers_are_tested_beside_noisy_ones_and_have_no_survival():
    half, _ = pair("lift:./m", 1.0, 0.2)
    _, exact = pair("other:./m", 1.0, 0.2, seed=5)
    gains = grid_of(*half, *exact).gains
    assert [g.survival is None for g in gains] == [g.scorer == "other:./m" for g in gains]


def test_ranks_leave_open_what_rounding_could_turn():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        exact = rng.standard_normal((2, 200)) + np.array([[0.35], [0.0]])
        half = exact + 0.5 * rng.standard_normal((2, 200))
        sides = [
            run(f"{n}:./m", "none", h, e, range(16))
            for n, h, e in zip(("first", "second"), half, exact, strict=True)
        ]
        (test,) = compare(sides).tests
        if test.p_holm < 0.05 and test.survival < HOLDS:
            break
    comparison = compare(sides)
    assert [(r.best, r.worst) for r in comparison.groups[0].ranking] == [(1, 2), (1, 2)]
    text = "\n".join(t.text() for t in comparison_tables(comparison))
    assert "Noise could turn first − second" in text.replace("\n", " ")
    assert "bfloat16 is expected to turn" in text
    bare = without_noise(sides)
    assert [(r.best, r.worst) for r in compare(bare).groups[0].ranking] == [(1, 1), (2, 2)]
    assert "survival" not in compare(bare).to_json()


@pytest.mark.parametrize("questions", [1000, 12])
def test_redraws_of_nothing_give_the_observed_test(questions):
    # Without an error every redraw is the run itself.
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((2, 120)) + np.array([[0.9], [0.0]])
    made = [
        run("s:x", context, margins, margins, range(16), questions=questions)
        for context, margins in ((OWN, first), (STRANGER, second))
    ]
    for each in made:
        noise = each.summary.noise
        assert (noise.sd, noise.expected_flips, noise.flips_seen) == (None, 0.0, 0)
    identity = identity_of(grid_of(*made))
    assert identity.survival == 1.0
    x, y = (each.verdicts.values for each in made)
    assert identity.value == paired_difference(x, y, made[0].verdicts.clusters).value


def test_many_rows_are_drawn_in_blocks_of_bounded_memory(monkeypatch):
    from palate.comparison import redraws

    sizes = []
    usual = redraws.NoisySide.drawn

    def drawn(self, block, draws):
        sizes.append(draws * len(self.verdicts))
        return usual(self, block, draws)

    monkeypatch.setattr(redraws.NoisySide, "drawn", drawn)
    half, _ = pair("lift:./m", 0.3, 0.2, n=3000)
    identity = identity_of(grid_of(*half))
    assert identity.survival == 1.0 and max(sizes) <= 1 << 20 and len(sizes) > 4
