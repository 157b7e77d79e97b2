"""palate agreement as a person uses it: the tables, the words for a paper, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from command_line import palate
from palate.study import AnswerRow
from study.planted_answers import answer, check, panel_of


@pytest.fixture
def rows() -> list[AnswerRow]:
    """Four raters who look, and one who does not."""
    blind = [answer(4, item, excluded=True, choice="same", ratings={}) for item in range(8)]
    return [
        *panel_of(4, 8, 2), *blind, *(check(4, k, passed=False, excluded=True) for k in range(4))
    ]  # fmt: skip


def write(folder: Path, rows: list[AnswerRow]) -> None:
    text = "".join(f"{row.model_dump_json()}\n" for row in rows)
    (folder / "people.jsonl").write_text(text, encoding="utf-8")


def test_one_person_is_no_people(tmp_path: Path) -> None:
    write(tmp_path, [answer(1, item) for item in (1, 2)])
    done = palate("agreement", "people.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 person gave 2 answers to 2 items." in " ".join(done.stdout.split())
    write(tmp_path, [answer(1, 1), answer(2, 1, choice="second")])
    printed = palate("agreement", "people.jsonl", cwd=tmp_path).stdout
    assert "Raters part on 1 item;" in printed and "to 1 item." in " ".join(printed.split())


def test_it_prints_agreement_equality_items_and_the_words_for_a_paper(
    rows: list[AnswerRow], tmp_path: Path
) -> None:
    write(tmp_path, rows)
    done = palate("agreement", "people.jsonl", "--margin", "0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == snapshot("""\
choices: 4 raters

        figure         n            value [95 %]
 ───────────────────────────────────────────────
 none   percent        8    0.500 [0.000, 1.000]
 none   α nominal      8   0.016 [−1.000, 1.000]
 none   as the gold   32    0.625 [0.463, 0.787]

α: Krippendorff's, over both orders of the two answers. n: items; of the gold, answers.

ratings from 1 to 5: 4 raters

               figure        n            value [95 %]
 ─────────────────────────────────────────────────────
 correctness   percent      16    0.406 [0.216, 0.597]
 correctness   α ordinal    16   0.416 [−0.249, 1.000]
 correctness   α interval   16   0.405 [−0.286, 1.000]

 relevance     percent      16    0.406 [0.216, 0.597]
 relevance     α ordinal    16   0.416 [−0.249, 1.000]
 relevance     α interval   16   0.405 [−0.286, 1.000]

 helpfulness   percent      16    0.406 [0.216, 0.597]
 helpfulness   α ordinal    16   0.416 [−0.249, 1.000]
 helpfulness   α interval   16   0.405 [−0.286, 1.000]

α: Krippendorff's. n: texts that several raters rated.

equal quality, within 0.5 points: 4 raters

               figure               n             value [95 %]       p     finding
 ─────────────────────────────────────────────────────────────────────────────────
 correctness   chosen − rejected   32   +0.156 [−0.314, 0.626]   0.051   not shown
 correctness   on checks           16    +2.625 [1.967, 3.283]       –

 relevance     chosen − rejected   32   +0.156 [−0.314, 0.626]   0.051   not shown
 relevance     on checks           16    +2.625 [1.967, 3.283]       –

 helpfulness   chosen − rejected   32   +0.156 [−0.314, 0.626]   0.051   not shown
 helpfulness   on checks           16    +2.625 [1.967, 3.283]       –

p: the larger of two one-sided tests. n: answers, of raters with rated checks if any has.
correctness; relevance; helpfulness: not shown: the value is near the margin.

choices, with the excluded: 5 raters

        figure         n             value [95 %]
 ────────────────────────────────────────────────
 none   percent        8     0.300 [0.000, 0.910]
 none   α nominal      8   −0.080 [−0.581, 0.421]
 none   as the gold   40     0.600 [0.470, 0.730]

α: Krippendorff's, over both orders of the two answers. n: items; of the gold, answers.

ratings from 1 to 5, with the excluded: 5 raters

               figure        n            value [95 %]
 ─────────────────────────────────────────────────────
 correctness   percent      16    0.406 [0.216, 0.597]
 correctness   α ordinal    16   0.416 [−0.249, 1.000]
 correctness   α interval   16   0.405 [−0.286, 1.000]

 relevance     percent      16    0.406 [0.216, 0.597]
 relevance     α ordinal    16   0.416 [−0.249, 1.000]
 relevance     α interval   16   0.405 [−0.286, 1.000]

 helpfulness   percent      16    0.406 [0.216, 0.597]
 helpfulness   α ordinal    16   0.416 [−0.249, 1.000]
 helpfulness   α interval   16   0.405 [−0.286, 1.000]

α: Krippendorff's. n: texts that several raters rated.

equal quality, within 0.5 points, with the excluded: 5 raters

               figure               n             value [95 %]       p     finding
 ─────────────────────────────────────────────────────────────────────────────────
 correctness   chosen − rejected   32   +0.156 [−0.314, 0.626]   0.051   not shown
 correctness   on checks           16    +2.625 [1.967, 3.283]       –

 relevance     chosen − rejected   32   +0.156 [−0.314, 0.626]   0.051   not shown
 relevance     on checks           16    +2.625 [1.967, 3.283]       –

 helpfulness   chosen − rejected   32   +0.156 [−0.314, 0.626]   0.051   not shown
 helpfulness   on checks           16    +2.625 [1.967, 3.283]       –

p: the larger of two one-sided tests. n: answers, of raters with rated checks if any has.
correctness; relevance; helpfulness: not shown: the value is near the margin.

to adjudicate

 item               choices             disagree
 ───────────────────────────────────────────────
 11cd63dfacf2cf01   2 first, 2 second      0.667
 76927c6328cc9e3f   2 first, 2 second      0.667
 9e8a78edb4fb9a2d   2 first, 2 second      0.667
 08410662af5b7895   1 first, 3 second      0.500
 2840856c3dc5df06   1 first, 3 second      0.500
 b52eb22b9547f4e5   3 first, 1 second      0.500
 ce35233b376736a1   3 first, 1 second      0.500

Raters part on 7 items; rows.jsonl of the result has every item.

for the paper: 4 people gave 32 answers to 8 items. Left out since they failed too many checks: 1.
Choices: none (percent 0.500 [0.000, 1.000], n 8; α nominal 0.016 [−1.000, 1.000], n 8; as the gold
0.625 [0.463, 0.787], n 32). α: Krippendorff's, over both orders of the two answers. n: items; of
the gold, answers. Ratings from 1 to 5: correctness (percent 0.406 [0.216, 0.597], n 16; α ordinal
0.416 [−0.249, 1.000], n 16; α interval 0.405 [−0.286, 1.000], n 16), relevance (percent 0.406
[0.216, 0.597], n 16; α ordinal 0.416 [−0.249, 1.000], n 16; α interval 0.405 [−0.286, 1.000], n
16), helpfulness (percent 0.406 [0.216, 0.597], n 16; α ordinal 0.416 [−0.249, 1.000], n 16; α
interval 0.405 [−0.286, 1.000], n 16). α: Krippendorff's. n: texts that several raters rated. Equal
quality, within 0.5 points: correctness (chosen − rejected +0.156 [−0.314, 0.626], n 32, p 0.051,
not shown; on checks +2.625 [1.967, 3.283], n 16), relevance (chosen − rejected +0.156
[−0.314, 0.626], n 32, p 0.051, not shown; on checks +2.625 [1.967, 3.283], n 16), helpfulness
(chosen − rejected +0.156 [−0.314, 0.626], n 32, p 0.051, not shown; on checks +2.625
[1.967, 3.283], n 16). p: the larger of two one-sided tests. n: answers, of raters with rated checks
if any has. correctness; relevance; helpfulness: not shown: the value is near the margin. Intervals
are 95 %, by the jackknife over raters and pairs of answers.
""")


def test_json_is_the_document_that_is_kept(rows: list[AnswerRow], tmp_path: Path) -> None:
    write(tmp_path, rows)
    done = palate("agreement", "people.jsonl", "--format", "json", "-o", "kept", cwd=tmp_path)
    document = json.loads(done.stdout)
    (summary,) = tmp_path.glob("kept/people/agreement/people-*/summary.json")
    assert document == json.loads(summary.read_text(encoding="utf-8"))
    assert (document["kind"], document["margin"], document["excluded"]) == ("agreement", 0.25, 1)
    for form in ("markdown", "latex"):
        assert palate("agreement", "people.jsonl", "--format", form, cwd=tmp_path).returncode == 0


def test_a_collection_prints_what_repeats_tell(tmp_path: Path) -> None:
    first = [answer(user, item, contexts=(), gold=None) for user in range(4) for item in range(8)]
    again = [
        row.model_copy(
            update={
                "again": True,
                "choice": "second" if k % 8 > 5 or k == 0 else "first",
                "date": f"2026-{'12-27' if k % 8 > 3 else '11-28'}T10:00:00Z",
            }
        )
        for k, row in enumerate(first)
    ]
    write(tmp_path, [*first, *again])
    done = palate("agreement", "people.jsonl", cwd=tmp_path)
    words = " ".join(done.stdout.partition("for the paper: ")[2].split())
    assert words.startswith("4 people gave 32 answers to 8 items. Choices: all (percent 1.000")
    assert "failed" not in words and "as the gold" not in words
    assert "chose alike in 0.719" in words
    assert "of 32 repeats, so the best scorer is right in 0.719 to 0.831; 0 without" in words
    assert "after 14 days (n 16) beyond what changes before: +0.438" in words


def test_refusals_are_one_line(rows: list[AnswerRow], tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text('{"rater": 1}\n', encoding="utf-8")
    done = palate("agreement", "people.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "people.jsonl" in done.stderr
    done = palate("agreement", "nothing", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    write(tmp_path, rows)
    done = palate("agreement", "people.jsonl", "--margin", "0", cwd=tmp_path)
    assert done.stderr == "palate: --margin 0: the margin is a number above 0\n"
    palate("evaluate", "-b", "tasting", "-s", "longest", "-c", "none", cwd=tmp_path)
    done = palate("agreement", "people.jsonl", "runs", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "scored an item of two raters" in done.stderr
