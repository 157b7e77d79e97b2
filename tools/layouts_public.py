"""Files as annotation tools, crowds, surveys and spreadsheets export them: cases of `layouts.py`.

Forms are those of public files and reports; the texts are made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from layouts import BLACK, GREEN, HILL, SEA, TEA, WALK, Case, Read, bot, user

from palate.data import parse_votes

Rows = Sequence[Mapping[str, Any]]
PAIR, OTHER = (TEA, GREEN, BLACK), (WALK, SEA, HILL)
FOUR = (("ann", *PAIR, 0), ("bob", *PAIR, 1), ("ann", *OTHER, 1), ("bob", *OTHER, 1))
"""Votes as (person, question, first, second, which of the two); a couple on tea."""
VOTES = Read("vote", 4, 2, 0, 1, 0)
NO_LAYOUT = "no layout fits"


def told(
    name: str,
    rows: Rows,
    refusal: str,
    expected: Read,
    *columns: str,
    votes: Sequence[str] = (),
    file: str = "file.jsonl",
) -> Iterator[Case]:
    """Yield a file that is refused, and the same with the flags that read it."""
    yield Case(name, rows, refusal, file=file)
    yield Case(f"{name}, told", rows, expected, file=file,
               options={"columns": columns, "votes": parse_votes(votes)})  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield every case."""
    yield from crowds()
    yield from tools()
    yield from sheets()
    yield from lists()


def crowds() -> Iterator[Case]:
    """Yield results of MTurk, Toloka, arenas and paid labelers."""
    mturk = [{"HITId": q, "WorkerId": u, "AssignmentStatus": "Approved", "Input.prompt": q,
              "Input.response_a": a, "Input.response_b": b, "Answer.preference": "AB"[k]}
             for u, q, a, b, k in FOUR]  # fmt: skip
    yield Case("MTurk's batch results", mturk, VOTES, file="batch.csv")
    toloka = [{"INPUT:prompt": q, "INPUT:response_left": a, "INPUT:response_right": b,
               "OUTPUT:result": ("left", "right")[k], "ASSIGNMENT:worker_id": u}
              for u, q, a, b, k in FOUR]  # fmt: skip
    yield from told("Toloka's assignments", toloka, NO_LAYOUT, VOTES, "winner=OUTPUT:result",
                    file="assignments.tsv")  # fmt: skip
    worth = [{"prompt": q, "response1": a, "response2": b, "net_utility": n, "labeler": u}
             for (u, q, a, b, _), n in zip(FOUR, (2.0, -1.0, -2.5, -4.0), strict=True)]  # fmt: skip
    signs = ("winner=net_utility",)
    yield Case("CardinalPrefs: dollars", worth, "--vote -=second --vote +=first",
               options={"columns": signs})  # fmt: skip
    both = {"columns": signs, "votes": parse_votes(["-=second", "+=first"])}
    yield Case("CardinalPrefs, told", worth, VOTES, options=both)
    weak = [{"context": [user(q)], "response1": a, "response2": b, "overall_preference": (-1, 1)[k],
             "annotator": u} for u, q, a, b, k in FOUR]  # fmt: skip
    yield Case("HelpSteer 3: −1 and 1 beside 1 and 2", weak, VOTES)
    arena = [{"model_a_name": "x", "model_b_name": "y", "conversation_a": [user(q), bot(a)],
              "conversation_b": [user(q), bot(b)], "chosen_model_name": ("x", "y", None)[k],
              "both_equal": k == 2, "visitor_id": u}
             for u, q, a, b, k in (*FOUR[:3], ("bob", *OTHER, 2))]  # fmt: skip
    tied = VOTES._replace(ties=1)
    yield from told("compar:IA: a model's name, or both equal", arena, NO_LAYOUT, tied,
                    "winner=chosen_model_name", "tie=both_equal")  # fmt: skip

    def votes(*given: tuple[str, str]) -> list[dict[str, str]]:
        return [{"evaluator": who, "helpful_pref": "Tie", "overall_pref": p} for who, p in given]

    multipref = [{"text": TEA, "completion_a": GREEN, "completion_b": BLACK,
                  "normal_worker_annotations": votes(("n1", "A-is-slightly-better"), ("n2", "Tie")),
                  "expert_worker_annotations": votes(("e1", "B-is-clearly-better"))}]  # fmt: skip
    yield from told("MultiPref: two lists of votes", multipref, "say which it is with",
                    Read("vote", 3, 3, 1, 1, 0), "question=text")  # fmt: skip


def tools() -> Iterator[Case]:
    """Yield exports of annotation tools."""
    prodigy = [{"text": q, "options": [{"id": 0, "text": a}, {"id": 1, "text": b}], "accept": [k],
                "answer": "accept", "_annotator_id": u} for u, q, a, b, k in FOUR]  # fmt: skip
    left = [{**prodigy[0], "accept": [], "answer": "ignore"}, {**prodigy[1], "answer": "reject"}]
    yield Case("Prodigy's choices", [*prodigy, *left], Read("choice", 4, 2, 0, 1, 0))
    minimal = [{"id": q, "prompt": q, "answer1": a, "answer2": b, "annotator": u,
                "side": ("left", "right")[k]} for u, q, a, b, k in FOUR]  # fmt: skip
    yield from told("Label Studio's JSON_MIN", minimal, NO_LAYOUT, VOTES, "winner=side",
                    file="min.json")  # fmt: skip
    dialogue = [{"pair_id": q, "dialogue": f"User: {q}", "reply_A": a, "reply_B": b, "annotator": u,
                 "better": ("A", "b ")[k]} for u, q, a, b, k in FOUR]  # fmt: skip
    yield from told("a dialogue as the question", dialogue, "--map question=dialogue", VOTES,
                    "question=dialogue")  # fmt: skip
    judge = [{"instruction": f"Which is better for: {q} A: {a} B: {b}", "orig_instruction": q,
              "orig_response_A": a, "orig_response_B": b, "orig_preference": "AB"[k], "rater": u}
             for u, q, a, b, k in FOUR]  # fmt: skip
    names = ("response_a=orig_response_A", "response_b=orig_response_B", "winner=orig_preference")
    yield from told("Prometheus: a judge's prompt", judge, NO_LAYOUT, VOTES,
                    "question=orig_instruction", *names)  # fmt: skip
    ids = [{"question": q, "ID1": f"1 {q}", "text1": a, "ID2": f"2 {q}", "text2": b, "rater": u,
            "better": f"{k + 1} {q}"} for u, q, a, b, k in FOUR]  # fmt: skip
    yield Case("the id of the better sample", ids, VOTES)


def sheets() -> Iterator[Case]:
    """Yield spreadsheets and surveys."""
    scores = (("4,5", "2,0"), ("1,5", "4,0"), ("2,5", "10,0"), ("3,0", "3,5"))
    german = [{"user_id": u, "prompt": q, "response_a": a, "response_b": b, "score_a": x,
               "score_b": y} for (u, q, a, b, _), (x, y) in zip(FOUR, scores, strict=True)
              ]  # fmt: skip
    yield Case("decimal commas", german, VOTES, file="Bewertungen.csv")
    thousands = [{**row, "score_a": "1,234"} for row in german]
    yield Case("a comma before three digits", thousands, "expected a number", file="t.csv")
    units = ((PAIR, 1, 2), (OTHER, 2, 2), (("Tea?", "Yes.", "No."), "*", 1))
    coders = [{"prompt": q, "response_a": a, "response_b": b, "anna": x, "ben": y}
              for (q, a, b), x, y in units]  # fmt: skip
    yield from told("coders by name, with stars", coders, NO_LAYOUT, Read("vote", 5, 2, 0, 1, 0),
                    "votes=anna,ben", votes=["1=first", "2=second"], file="coders.csv")  # fmt: skip
    three = [{"Evaluator_ID": u, "Prompt": q, "Response_A": a, "Response_B": b, "Response_C": "No.",
              "Best": "ABC"[k]} for u, q, a, b, k in (*FOUR[:3], ("bob", *OTHER, 2))]  # fmt: skip
    yield from told("one of three responses", three, NO_LAYOUT, Read("choice", 8, 2, 0, 2, 0),
                    "winner=Best", file="Results.csv")  # fmt: skip
    chinese = [{"问题": q, "回答A": a, "回答B": b, "偏好": ("A", "B", "平局")[k], "标注员": u}
               for u, q, a, b, k in (*FOUR[:3], ("bob", *OTHER, 2))]  # fmt: skip
    names = (
        "question=问题",
        "response_a=回答A",
        "response_b=回答B",
        "winner=偏好",
        "user_id=标注员",
    )
    yield from told("columns in Chinese", chinese, NO_LAYOUT, VOTES._replace(ties=1), *names,
                    votes=["平局=tie"], file="votes.csv")  # fmt: skip
    header = {**dict.fromkeys(("prompt", "response_a", "response_b")), "vote": "Response"}
    survey = [header, *({"prompt": q, "response_a": a, "response_b": b, "vote": "ab"[k]}
                        for _, q, a, b, k in FOUR)]  # fmt: skip
    yield Case("SurveyMonkey's second header", survey, "missing", file="survey.csv")


def lists() -> Iterator[Case]:
    """Yield responses in lists of many forms."""
    posts = [{"question": q, "answers": [{"author": "kim", "pm_score": 3 - k, "text": a},
                                         {"author": "lee", "pm_score": 1 + k, "text": b}]}
             for _, q, a, b, k in FOUR[1:3]]  # fmt: skip
    yield Case("Stack Exchange: pm_score", posts, Read("rated", 2, 2, 2, 0, 0))
    eli5 = [{"title": q, "answers": {"a_id": ["x", "y"], "text": [a, b], "score": [5, 2]}}
            for q, a, b in (PAIR, OTHER)]  # fmt: skip
    yield from told("ELI5: an object of lists", eli5, NO_LAYOUT, Read("rated", 2, 2, 0, 0, 0),
                    "question=title")  # fmt: skip
    images = [{"id": k, "image_path": f"{k // 2}.jpg", "instruction": "What is it?", "answer": a,
               "score": str(k)} for k, a in enumerate((GREEN, BLACK, SEA, HILL), 2)]  # fmt: skip
    yield from told("one question about two images", images, "differs where the question",
                    Read("rated-rows", 2, 2, 0, 0, 0), "input=image_path")  # fmt: skip
    null = [{"prompt": f'["{TEA}"]', "response_a": "[null]", "response_b": f'["{BLACK}"]',
             "winner_model_a": 0, "winner_model_b": 1}]  # fmt: skip
    yield Case("null in a list of answers", null, "expected a text or a conversation")
    evals = [{"question": TEA, "answer_matching_behavior": " Yes",
              "answer_not_matching_behavior": " No"}]  # fmt: skip
    yield Case("persona files, told", evals, Read("contract", 1, 1, 0, 0, 0), options={"columns": [
        "chosen=answer_matching_behavior", "rejected=answer_not_matching_behavior"]})  # fmt: skip
