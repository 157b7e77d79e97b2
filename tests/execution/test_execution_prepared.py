"""Each text is tokenised once within the planner's room and twice beyond it, in any script."""

from collections import Counter

import pytest

from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.engines import ChatTemplate, chat_template
from palate.execution import plan as planning
from palate.records import Settings
from policies import untrained
from tiny import ENDS_WITH_EOS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
SETTINGS = Settings(dtype="float32")
WORDS = {
    "ascii": ("Which tea on a cold day?", "Tea, hot and black.", "Coffee, by the fire."),
    "greek": ("Ποιο τσάι μια κρύα μέρα;", "Τσάι, ζεστό και μαύρο.", "Καφέ, δίπλα στη φωτιά."),
    "han": ("寒い日にはどのお茶がいいですか", "熱い紅茶を一杯どうぞ。", "火のそばでコーヒーを。"),
}


def dataset(script: str) -> Dataset:
    question, tea, coffee = WORDS[script]
    rows = []
    for user in ("ann", "bob", "eve"):
        posts = [
            {"id": f"{user}{k}", "text": f"{user} {k}: {tea} {coffee} " * (2 + k)} for k in range(3)
        ]
        for k in range(2):
            texts = (f"{tea} {k}", f"{coffee} {k}")[:: 1 if user == "ann" else -1]
            rows.append({
                "id": f"{user}-{k}", "user_id": user, "question": f"{question} {k}",
                "chosen": texts[0], "rejected": texts[1], "profile": posts,
            })  # fmt: skip
    return Dataset.from_rows(script, rows)


@pytest.fixture
def counted(monkeypatch):
    """How often each tokenizer met each text; what is remembered of late is a row's own."""
    monkeypatch.setattr(chat_template, "REMEMBERED", 2)
    counts = Counter()
    for kind, method in (
        (transformers.PreTrainedTokenizerBase, "__call__"), (ChatTemplate, "_tokens"),
    ):  # fmt: skip
        made = getattr(kind, method)

        def counting(self, text, *rest, made=made, **named):
            assert isinstance(text, str)
            counts[id(self), text] += 1
            return made(self, text, *rest, **named)

        monkeypatch.setattr(kind, method, counting)
    return counts


def specs(tiny, **config):
    base = {**config, "template": ENDS_WITH_EOS}
    other = tiny.model(**base, rms_norm_eps=1e-3)
    model, head = tiny.model(**base), tiny.classifier(**config)
    return {
        "likelihood": f"likelihood:{model}",
        "lift": f"lift:{model}",
        "classifier": f"classifier:{head}",
        "autoregressive": f"autoregressive:{model}",
        "implicit": f"implicit:{model}?reference={other}",
        "judge": f"judge:{model}?max_tokens=2",
        "judge by logits": f"judge:{model}?verdict=logits",
        "rating": f"rating:{model}?max_tokens=2",
        "rating by logits": f"rating:{model}?verdict=logits",
    }


KINDS = [
    "likelihood", "lift", "classifier", "autoregressive", "implicit", "judge", "judge by logits",
"rating", "rating by logits",
]  # fmt: skip


def run(spec, script):
    return evaluate(dataset(script), spec, "profile:3", root=None, settings=SETTINGS)


def told(run):
    return run.summary.model_dump_json(), list(run.lines())


def times(counts, script):
    """How often texts of one row were tokenised; without posts they are other rows' too."""
    return Counter(
        n for (_, text), n in counts.items() if WORDS[script][0] in text and "<post>" in text
    )


def tokenised_once(spec, script, counted, monkeypatch, beyond=2):
    """Return a run within the planner's room; beyond it texts are met so often."""
    counted.clear()
    within = run(spec, script)
    assert set(times(counted, script)) == {1}
    counted.clear()
    monkeypatch.setattr(planning, "KEPT_BYTES", 0)
    again = run(spec, script)
    assert max(times(counted, script)) == beyond
    assert told(again) == told(within)
    return within


@pytest.mark.parametrize(
    ("script", "kind"),
    [*(("ascii", kind) for kind in KINDS), ("greek", "lift"), ("greek", "judge")],
)
def test_a_text_is_tokenised_once(tiny, counted, monkeypatch, kind, script):
    tokenised_once(specs(tiny)[kind], script, counted, monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_that_cuts_costs_no_text_twice(tiny, counted, monkeypatch, kind):
    monkeypatch.setattr(chat_template, "REMEMBERED", 8)
    spec = specs(tiny, max_position_embeddings=700)[kind]
    assert tokenised_once(spec, "han", counted, monkeypatch).summary.parts_dropped


@pytest.mark.parametrize("kind", ["likelihood", "judge"])
def test_what_bytes_prove_to_fit_is_not_tokenised_for_planning(tiny, counted, monkeypatch, kind):
    monkeypatch.setattr(planning, "KEPT_BYTES", 0)
    run(specs(tiny, max_position_embeddings=16_384)[kind], "han")
    assert set(times(counted, "han")) == {1}


@pytest.mark.parametrize(
    ("options", "passes"), [("state=prior", 1), ("state=prior&minus=prior", 2)]
)
def test_a_personal_policy_and_what_is_taken_off_tokenise_once(
    tiny, counted, monkeypatch, tmp_path, options, passes
):
    pytest.importorskip("peft")
    policy, _ = untrained(tiny, tmp_path / "p")
    tokenised_once(f"personal:{policy.folder}?{options}", "greek", counted, monkeypatch, 1 + passes)
