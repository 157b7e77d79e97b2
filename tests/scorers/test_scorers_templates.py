"""What a chat template changes in scorers: days, thoughts, and models that are compared."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path

import pytest
import torch
import transformers

from palate import evaluate
from palate.benchmarks import load_benchmark
from palate.errors import ModelError
from palate.prompts import render
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session, default_session
from tiny import ENDS_WITH_EOS, change_json, make_slate

TOLERANCE = 1e-3
RESPONSES = ("Tea.", "Coffee, black, in a tin mug by the fire.", "Neither; it is late.")
POSTS = ("I roast my own beans.",)
SLATE = make_slate(*RESPONSES, shown=POSTS)
CLOCK = (
    "{{ strftime_now('%Y-%m-%d') }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKS = ENDS_WITH_EOS.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
HEADS = ("likelihood", "autoregressive", "judge", "classifier")


def values(spec, slate=SLATE, **settings):
    scorer = build_scorer(spec, default_session(), Settings(dtype="float32", **settings))
    return dict(scorer.score([slate]))[0].values


def info(spec, **settings):
    return build_scorer(spec, default_session(), Settings(dtype="float32", **settings)).info


def another(folder, target, **changes):
    """Copy a model, with other files of its tokenizer."""
    shutil.copytree(folder, target)
    for name, text in changes.items():
        file = target / name.replace("__", ".")
        file.unlink() if text is None else file.write_text(text)
    return str(target)


def log_p(folder, ids, start):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return sum(float(logp[k - 1, ids[k]]) for k in range(start, len(ids)))


def spec_of(head, tiny, template):
    if head == "classifier":
        return f"classifier:{tiny.model('LlamaForSequenceClassification', template, num_labels=1)}"
    return f"{head}:{tiny.model(template=template)}"


@pytest.mark.parametrize("head", HEADS)
def test_the_day_of_a_template_that_reads_the_clock_is_part_of_a_fingerprint(tiny, head):
    days = {}, {"template_date": date(2024, 7, 26)}, {"template_date": date(2025, 3, 4)}
    usual, same, other = (info(spec_of(head, tiny, CLOCK), **day) for day in days)
    assert usual == same
    assert usual.details["template_date"] == "2024-07-26"
    assert other.details["template_date"] == "2025-03-04"
    assert other.fingerprint != usual.fingerprint


@pytest.mark.parametrize("head", HEADS)
def test_the_day_of_a_template_without_a_clock_changes_nothing(tiny, head):
    spec = spec_of(head, tiny, None)
    assert info(spec) == info(spec, template_date=date(2025, 3, 4))
    assert "template_date" not in info(spec).details


def test_the_day_changes_the_numbers_and_no_clock_does(tiny):
    spec = spec_of("likelihood", tiny, CLOCK)
    usual, other = values(spec), values(spec, template_date=date(2025, 3, 4))
    assert max(abs(a - b) for a, b in zip(usual, other, strict=True)) > TOLERANCE
    prompts = build_scorer(spec, default_session()).prompts(SLATE)
    assert all(text.startswith("2024-07-26<|im_start|>") for text in prompts)


def test_a_run_holds_its_day(tiny, tmp_path):
    pairs, spec = load_benchmark("tasting", limit=2), spec_of("likelihood", tiny, CLOCK)
    runs = [
        evaluate(pairs, spec, "none", root=tmp_path, settings=Settings(template_date=day))
        for day in (None, date(2025, 3, 4))
    ]
    assert runs[0].folder != runs[1].folder
    manifest = json.loads((Path(runs[1].folder) / "manifest.json").read_text())
    assert manifest["details"][0]["template_date"] == "2025-03-04"


def test_one_models_weights_under_two_templates_are_one_model(tiny, tmp_path):
    policy = tiny.model()
    other = another(policy, tmp_path / "other", chat_template__jinja=ENDS_WITH_EOS + "\n")
    assert values(f"implicit:{policy}?reference={other}") == (None, None, None)
    assert values(f"implicit:{other}?reference={policy}") == (None, None, None)


def test_a_reference_without_a_template_reads_the_policys_tokens(tiny, tmp_path):
    policy = tiny.model()
    plain = another(tiny.model(rms_norm_eps=1e-2), tmp_path / "base", chat_template__jinja=None)
    change_json(Path(plain) / "tokenizer_config.json", chat_template=None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(policy)
    turns = [{"role": m.role, "content": m.content} for m in render(SLATE.question, SLATE.shown)]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    n = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    expected = []
    for text in RESPONSES:
        closed = [*turns, {"role": "assistant", "content": text}]
        whole = tokenizer.apply_chat_template(closed, tokenize=False)
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        expected.append(log_p(policy, ids, n) - log_p(plain, ids, n))
    assert values(f"implicit:{policy}?reference={plain}") == pytest.approx(expected, abs=TOLERANCE)


def test_a_reference_with_other_tokens_is_refused_in_a_line(tiny, tmp_path):
    policy = tiny.model()
    made = json.loads((Path(policy) / "tokenizer.json").read_text())
    vocabulary = made["model"]["vocab"]
    vocabulary["t"], vocabulary["q"] = vocabulary["q"], vocabulary["t"]
    other = another(policy, tmp_path / "other", tokenizer__json=json.dumps(made))
    with pytest.raises(ModelError, match=r"have other tokens \(id \d+: 't' and 'q'; id \d+: .*on"):
        build_scorer(f"implicit:{policy}?reference={other}", default_session())


def test_a_pad_token_that_only_the_policy_has_is_never_read(tiny, tmp_path):
    reference = tiny.model()
    policy = tmp_path / "policy"
    shutil.copytree(tiny.model(rms_norm_eps=1e-3), policy)
    tokenizer = transformers.AutoTokenizer.from_pretrained(policy)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(policy)
    scorer = build_scorer(f"implicit:{policy}?reference={reference}", default_session())
    plain = build_scorer(f"autoregressive:{reference}", default_session())
    assert scorer.models[1].info.fingerprint == plain.info.fingerprint


def test_a_reference_of_the_same_template_keeps_its_fingerprint(tiny):
    policy, reference = tiny.model(), tiny.model(rms_norm_eps=1e-2)
    scorer = build_scorer(f"implicit:{policy}?reference={reference}", default_session())
    alone = build_scorer(f"autoregressive:{reference}", default_session())
    assert scorer.models[1].info == alone.info


@pytest.mark.parametrize("head", ["likelihood", "autoregressive"])
def test_a_response_is_read_behind_a_closed_thought(tiny, head):
    folder = tiny.model(template=THINKS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    turns = [{"role": m.role, "content": m.content} for m in render(SLATE.question, SLATE.shown)]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    prompt += "\n</think>\n\n"
    end = "" if head == "likelihood" else "<|im_end|>"
    expected = []
    for text in RESPONSES:
        ids = tokenizer(prompt + text + end, add_special_tokens=False)["input_ids"]
        start = len(ids) - len(tokenizer(text + end, add_special_tokens=False)["input_ids"])
        total = log_p(folder, ids, start)
        expected.append(total / (len(ids) - start) if head == "likelihood" else total)
    assert values(f"{head}:{folder}") == pytest.approx(expected, abs=TOLERANCE)
    assert info(f"{head}:{folder}").details["thought"] == "<think>\n\n</think>\n\n"
    shown = build_scorer(f"{head}:{folder}", default_session()).prompts(SLATE)
    assert all("<|im_start|>assistant\n<think>\n\n</think>\n\n" in text for text in shown)


def test_labels_are_read_behind_a_closed_thought_and_texts_behind_an_open_one(tiny):
    folder = tiny.model(template=THINKS)
    slate = make_slate("Tea.", "Coffee.")
    tails = {
        verdict: build_scorer(f"judge:{folder}?verdict={verdict}", default_session()).prompts(slate)
        for verdict in ("logits", "text")
    }
    assert all(text.endswith("<think>\n\n</think>\n\n") for text in tails["logits"])
    assert all(text.endswith("<think>\n") for text in tails["text"])
    assert "thought" in info(f"judge:{folder}?verdict=logits").details
    assert "thought" not in info(f"judge:{folder}").details


def test_a_judge_that_is_about_to_write_something_else_is_unscored(tiny, tmp_path):
    folder = tmp_path / "elsewhere"
    shutil.copytree(tiny.model(tie_word_embeddings=False), folder)
    slate = make_slate("Tea.", "Coffee.")
    spec = f"judge:{folder}?verdict=logits"
    with Session() as session:
        ((_, found),) = build_scorer(spec, session, Settings(dtype="float32")).judge([slate])
    assert found.margin is not None
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.lm_head.weight.mul_(40.0)  # so sure that two letters have nothing left
    model.save_pretrained(folder)
    with Session() as session:
        judge = build_scorer(spec, session, Settings(dtype="float32"))
        ids = [
            judge.answers.model.reader.template.answer_prompt(it) for it in judge._prompts(slate)
        ]
        labels = [judge.answers.model.reader.template.label_id(label) for label in "AB"]
        share = judge.answers.model.next_token_logits(ids).softmax(-1)[:, labels].sum(-1)
        assert float(share.max()) < 1e-6, "or this tests nothing"
        ((_, found),) = judge.judge([slate])
    assert found.margin is None
    assert "the labels have less than a millionth of the probability" in (found.reason or "")


def test_a_policy_and_a_writer_answer_at_once(tiny):
    from palate.answers import build_policy

    thinking, plain = tiny.model(template=THINKS), tiny.model(template=ENDS_WITH_EOS)
    policy = build_policy(f"{thinking}?max_tokens=4", default_session(), Settings())
    assert policy.model.reader.thought == ("<think>\n\n</think>\n\n",)
    assert build_policy(plain, default_session(), Settings()).model.reader.thought == ()


def test_a_template_that_is_given_is_part_of_a_fingerprint(tiny, tmp_path):
    folder = another(tiny.model(), tmp_path / "base", chat_template__jinja=None)
    with pytest.raises(ModelError, match="no chat template; give one with --chat-template FILE"):
        values(f"likelihood:{folder}")
    given = values(f"likelihood:{folder}", chat_template=ENDS_WITH_EOS)
    assert given == values(f"likelihood:{tiny.model(template=ENDS_WITH_EOS)}")
    prints = [
        info(f"likelihood:{folder}", chat_template=text).fingerprint
        for text in (ENDS_WITH_EOS, ENDS_WITH_EOS + "\n")
    ]
    assert prints[0] != prints[1]
    plain, beside = (info(f"likelihood:{tiny.model()}", chat_template=it) for it in (None, CLOCK))
    assert beside.fingerprint == plain.fingerprint
    assert beside.notes[0].endswith("read in its own chat template, not in that of --chat-template")


def test_ids_beyond_the_embeddings_are_one_line(tiny, tmp_path):
    folder = tmp_path / "grown"
    shutil.copytree(tiny.classifier(), folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|turn|>"] * 1})
    tokenizer.chat_template = "{% for m in messages %}<|turn|>{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match=r"token 1024 \('<\|turn\|>'\).* have 1024 rows"):
        values(f"classifier:{folder}")
