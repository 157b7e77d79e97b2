"""A Stack Exchange dump: whose questions, which earlier posts, what is refused with its line."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest
from dump_shaped import post, refused, write, xml

from palate.construction import build_own_text
from palate.construction.own_text_layouts import OwnTextEntry
from palate.construction.question_sources import open_source
from palate.construction.rows import Dropped
from palate.construction.stack_exchange import dump_files, read_dump
from palate.errors import DataError, UsageError

ANN, BOB, CY = 7, 8, 9
WORDS = {name: " ".join(f"{name}{k}" for k in range(16)) for name in "abcdefgh"}
POSTS = [
    post(11, ANN, "2018-04-01", WORDS["a"], Title="Which gate?", Tags="<gates><noise>"),
    post(12, BOB, "2018-04-02", WORDS["b"], ParentId="11"),
    post(13, CY, "2018-04-03", WORDS["c"], ParentId="11", LastEditDate="2018-04-20T00:00:00.000"),
    {"Id": "14", "PostTypeId": "5", "CreationDate": "2018-04-04T00:00:00.000", "Body": "A tag."},
    post(15, None, "2018-04-05", WORDS["d"], Title="Who asks?", Tags="|noise|"),
    post(16, ANN, "2018-05-02", WORDS["e"] + " <em>$x_1$</em>", Title="Which qubit?",
         Tags="|qubits|noise|"),
    post(17, BOB, "2018-05-03", WORDS["f"], ParentId="16"),
    post(18, CY, "2018-04-10", WORDS["g"], Title="Which noise?", ContentLicense="CC BY-SA 9.9"),
    post(19, CY, "2018-05-04", WORDS["h"], ParentId="16"),
]  # fmt: skip
NAMES = {ANN: "Ann", BOB: "Bob", CY: "Cy"}


def test_a_question_has_what_its_user_wrote_before_and_did_not_edit_since(tmp_path: Path) -> None:
    with open_source(write(tmp_path / "teas", POSTS, NAMES), "stackexchange") as source:
        (question,) = source.questions()
        partner = source.partner(question, 0)
        counts = [stage.counts for stage in source.stages]
        assert source.n_askers == 1
    # Numbers in order of appearance: Ann is the first user, and the tag wiki is no post.
    assert (question.id, question.user_id, question.text) == ("5", "1", "Which qubit?")
    assert (question.category, question.subset, question.date) == (
        "qubits", "teas", "2018-05-02T00:00:00.000",
    )  # fmt: skip
    assert question.gold.narrative == f"{WORDS['e']} *$x_1$*"
    assert [(p.id, p.category, p.text) for p in question.profile] == [
        ("1", "gates", f"Which gate?\n\n{WORDS['a']}")
    ]
    assert question.gold.attribution == (
        "question: Ann (user 7, CC BY-SA 4.0); posts: Ann (user 7, CC BY-SA 3.0)"
    )
    assert [(c.stage, c.n_read, c.n_kept, dict(c.dropped)) for c in counts] == [
        ("reading", 9, 8, {"no question or answer": 1}),
        ("earlier posts", 4, 1, {"no earlier post": 1, "the author is gone": 1,
                                 "every earlier post was edited later": 1}),
        ("leaks", 1, 1, {}),
        ("profile", 1, 1, {}),
    ]  # fmt: skip
    # Cy and Bob had written before; neither asked.
    assert partner is not None and not partner.has_asked
    assert (partner.question.text, partner.question.gold.narrative) == ("Which qubit?", None)
    posts = {"2": [WORDS["b"]], "3": [WORDS["c"], f"Which noise?\n\n{WORDS['g']}"]}
    assert sorted(p.text for p in partner.question.profile) == sorted(
        posts[partner.question.user_id]
    )
    assert partner.question.gold.attribution is not None
    assert ("Bob" in partner.question.gold.attribution) == (partner.question.user_id == "2")


def test_ids_stay_where_asked_and_users_of_one_title_are_partners(tmp_path: Path) -> None:
    again = post(20, CY, "2018-06-01", WORDS["d"], Title="which  QUBIT")
    folder = write(tmp_path, [*POSTS, again])
    with open_source(folder, "stackexchange", keep_ids=True) as source:
        first, second = source.questions()
        pair = source.partner(first, 3)
        assert (first.id, first.user_id, second.id) == ("16", "7", "20")
        assert pair is not None and pair.has_asked and pair.question == second
        other = source.partner(second, 3)
        assert other is not None and other.question == first
        assert [post.id for post in second.profile] == ["13", "18", "19"]


def test_own_texts_of_a_dump_are_answers_against_other_authors(tmp_path: Path) -> None:
    posts = [
        post(1, ANN, "2018-01-01", WORDS["a"], Title="Which gate?"),
        post(2, BOB, "2018-01-02", WORDS["b"], ParentId="1"),
        post(3, CY, "2018-01-03", WORDS["c"], ParentId="1"),
        post(4, ANN, "2018-01-04", WORDS["d"], Title="Which qubit?", Tags="<q>"),
        post(5, BOB, "2018-01-05", WORDS["e"], ParentId="4"),
        post(6, ANN, "2018-01-06", WORDS["f"], ParentId="4"),
    ]
    output = tmp_path / "pairs.jsonl"
    build = build_own_text(write(tmp_path / "d", posts, NAMES), output, layout="stackexchange",
                           root=None)  # fmt: skip
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    (test,), (adapt,) = ([row for row in rows if row["split"] == s] for s in ("test", "adapt"))
    # Ann has no earlier answer; her answer is what Bob's row rejects.
    assert (test["chosen"], test["rejected"], test["category"]) == (WORDS["e"], WORDS["f"], "q")
    assert test["question"] == f"Which qubit?\n\n{WORDS['d']}"
    assert [item["text"] for item in test["profile"]] == [WORDS["b"]]
    assert test["attribution"] == (
        "question: Ann (user 7, CC BY-SA 3.0); answer: Bob (user 8, CC BY-SA 3.0); "
        "rejected: Ann (user 7, CC BY-SA 3.0)"
    )
    assert (adapt["chosen"], adapt["rejected"]) == (WORDS["b"], WORDS["c"])
    assert build.dropped["test rows"] == {"no earlier text": 3}


def test_answers_that_others_edited_last_are_counted_or_left_out(tmp_path: Path) -> None:
    # D26: of Bob's three later answers Ann edited one last, and one who is gone another.
    posts = [
        post(1, ANN, "2018-01-01", WORDS["a"], Title="Which gate?"),
        post(2, BOB, "2018-01-02", WORDS["b"], ParentId="1", LastEditorUserId=str(BOB),
             LastEditDate="2018-01-02T01:00:00.000"),
        post(3, CY, "2018-01-03", WORDS["c"], ParentId="1"),
    ]  # fmt: skip
    editors = ({"LastEditorUserId": str(ANN)}, {"LastEditorDisplayName": "gone"},
               {"LastEditorUserId": str(BOB)}, {})  # fmt: skip
    for k, editor in enumerate(editors, 1):
        body = " ".join(f"{k}x{word}" for word in WORDS["e"].split())
        other = " ".join(f"{k}y{word}" for word in WORDS["f"].split())
        more = {**editor, "LastEditDate": f"2018-02-0{k}T09:00:00.000"} if editor else {}
        posts += [
            post(10 * k, ANN, f"2018-02-0{k}", body.replace("x", "z"), Title=f"Which {k}?"),
            post(10 * k + 1, BOB, f"2018-02-0{k}", body, ParentId=str(10 * k), **more),
            post(10 * k + 2, CY, f"2018-02-0{k}", other, ParentId=str(10 * k)),
        ]
    folder, output = write(tmp_path / "d", posts, NAMES), tmp_path / "pairs.jsonl"
    chosen = {}
    for own_edits in (False, True):
        build = build_own_text(folder, output, layout="stackexchange", root=tmp_path / "runs",
                               adapt=0, own_edits=own_edits)  # fmt: skip
        rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
        bobs = [row for row in rows if "x" in row["chosen"].split()[0]]
        chosen[own_edits] = sorted(row["chosen"][0] for row in bobs)
        shown = {item["text"][:2] for row in bobs for item in row["profile"]}
        assert ({"1x", "2x"} & shown == set()) is own_edits and "3x" in shown
        assert build.summary.foreign_edits == (0 if own_edits else 2)
        dropped = {reason: n for of in build.dropped.values() for reason, n in of.items()}
        assert dropped.get("last edited by somebody else", 0) == 2 * own_edits
        output.unlink()
    assert chosen == {False: ["1", "2", "3", "4"], True: ["3", "4"]}
    assert len(list((tmp_path / "runs" / "pairs" / "own-text").iterdir())) == 2
    with pytest.raises(UsageError, match="--own-edits: a source of layout rows tells no editors"):
        build_own_text(output, output, layout="rows", own_edits=True)


@pytest.mark.parametrize(
    ("damage", "line", "words"),
    [
        (lambda t: t.replace("<posts>", "<!DOCTYPE posts>\n<posts>"), 2, "DOCTYPE"),
        (lambda t: t.replace("a0 a1", "a0 &#x0B; a1"), 3, "invalid character number"),
        (lambda t: t[: t.index("c3")], 5, "cut short"),
        (lambda t: t.replace("posts>", "users>"), 2, "expected <posts>, got <users>"),
        (lambda t: t.replace("<row", "<line", 1), 3, "expected <row> in <posts>, got <line>"),
        (lambda t: t.replace("CreationDate", "Created", 1), 3, "`CreationDate`"),
        (lambda t: t.replace('Id="12"', 'Id="11"'), 4, "there twice"),
        (lambda t: f'<?xml version="1.0" encoding="koi8-zz"?>{t}', 1, "cannot be decoded"),
        (lambda t: t.replace("2018-04-02T00:00:00.000", "4/2/18"), 4, "no date"),
    ],
)
def test_a_dump_that_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, damage: object, line: int, words: str
) -> None:
    assert callable(damage)
    path = tmp_path / "Posts.xml"
    path.write_text(damage(xml("posts", POSTS)), encoding="utf-8")
    error = refused(path, "stackexchange", words)
    assert (error.file, error.line) == (str(path), line)
    with pytest.raises(DataError, match=words) as raised:
        build_own_text(path, tmp_path / "p.jsonl", layout="stackexchange", root=None)
    assert raised.value.line == line


def test_bad_rows_are_counted_and_a_cut_stream_is_not_skipped(tmp_path: Path) -> None:
    folder = write(tmp_path, [{"Id": "1", "PostTypeId": "1"}, *POSTS])
    with open_source(folder, "stackexchange", skip_bad_rows=True) as source:
        counts = source.stages[0].counts
    assert (counts.n_read, counts.n_kept) == (10, 8)
    assert counts.dropped == {"no question or answer": 1, "cannot be read": 1}
    entries = list(read_dump(dump_files(folder)))
    assert [entry.line for entry in entries if isinstance(entry, DataError)] == [3]
    path = folder / "Posts.xml.gz"
    path.write_bytes(gzip.compress(xml("posts", POSTS).encode())[:-20])
    cut = "gzip stream is damaged or cut short"
    refused(folder, "stackexchange", cut, skip_bad_rows=True)
    path.unlink()
    with pytest.raises(UsageError, match="expected Posts"), open_source(folder, "stackexchange"):
        pass


def test_html_that_is_nested_too_deeply_for_markdown_is_read_bare(tmp_path: Path) -> None:
    deep = post(1, ANN, "2018-01-01", "<b>" * 5000 + "x &amp; y" + "</b>" * 5000, Title="Deep?")
    folder = write(tmp_path, [deep, post(2, ANN, "2018-01-02", "Why?", Title="Why?")])
    with open_source(folder, "stackexchange") as source:
        (question,) = source.questions()
    assert [earlier.text for earlier in question.profile] == ["Deep?\n\nx & y"]


def test_a_date_that_cannot_be_read_names_its_column(tmp_path: Path) -> None:
    edited = post(1, ANN, "2018-01-01", "Why?", Title="Why?", LastEditDate="4/2/18")
    folder = write(tmp_path, [edited])
    error = refused(folder, "stackexchange")
    assert error.field == "edited" and "--order-as-in-file" not in error.problem


def test_the_real_dump_gives_the_known_counts(real_data: Path) -> None:
    folder = real_data / "quantumcomputing_dump"
    with open_source(folder, "stackexchange") as source:
        reading, earlier = (stage.counts for stage in source.stages)
        assert (reading.n_read, reading.n_kept) == (1986, 612 + 1060)
        assert (earlier.n_read, earlier.n_kept, source.n_askers) == (612, 375, 89)
        questions = list(source.questions())
        leaks, profile = (stage.counts for stage in source.stages[2:])
        assert sum(profile.dropped.values()) == 375 - len(questions)
        assert sum(len(q.profile) for q in questions) == leaks.n_kept
    entries = list(read_dump(dump_files(folder)))
    assert sum(isinstance(entry, Dropped) for entry in entries) == 1
    answers = [entry for entry in entries if isinstance(entry, OwnTextEntry)]
    authors = defaultdict(set)
    for answer in answers:
        authors[answer.question].add(answer.user)
    rows = [a for a in answers if a.earlier and len(authors[a.question]) > 1]
    assert (len(rows), len({row.user for row in rows})) == (620, 77)


def test_a_row_that_never_ends_is_refused_before_it_is_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palate.construction.stack_exchange.MAX_LINE", 2**20)
    path = tmp_path / "Posts.xml"
    path.write_text(f'<posts>\n<row Id="1" Body="{"a" * 2**22}', encoding="utf-8")
    assert refused(path, "stackexchange", "the row is over 1 MiB").line == 2


def test_a_dump_without_authors_has_no_question(tmp_path: Path) -> None:
    folder = write(tmp_path, [post(1, None, "2018-01-01", "Why?", Title="Why?")])
    with open_source(folder, "stackexchange") as source:
        assert (list(source.questions()), source.n_askers) == ([], 0)
        assert source.stages[1].counts.dropped == {"the author is gone": 1}
