"""The turns, thoughts and ends of 50 families, through tokenizers and templates like theirs."""

from __future__ import annotations

import importlib
import shutil
from functools import cache

import pytest
import torch
import transformers

from mark_families import FAMILIES, Family
from palate.answers import MissingSamples, build_policy
from palate.engines.local_model import LocalModel
from palate.engines.reader import Reader
from palate.engines.template_source import decoded
from palate.errors import ModelError
from palate.guidance import build_methods
from palate.marks import after_thought, end_at, prompt_end, thoughts_among
from palate.prompts import Unreadable, parse_verdict
from palate.records import Message, Settings, Slate
from palate.scorers import build_scorer
from palate.session import Session, default_session
from palate.specs import Reference, Spec
from tiny import make_slate

ASKED = (Message(role="user", content="Tea?"),)
TEXTS = "H<sub>2</sub>O, <b>green</b> <code>tea</code>, a[1] and <table>.\n<h1>So</h1> [2]"
THINK_FIRST = {
    *("Qwen 3 Thinking", "DeepSeek R1", "Command A Reasoning", "EXAONE Deep", "Kimi-VL Thinking"),
    *("Nemotron Nano 2", "MiniMax M2"),
}
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
NAMED = {family.name: family for family in FAMILIES}


@cache
def read(family: Family, tiny) -> Reader:
    return Reader(Reference.parse(str(family.folder(tiny))), Settings(device="cpu"))


@families
def test_a_reply_ends_where_settings_tokenizer_or_template_say(family, tiny):
    reader = read(family, tiny)
    assert set(reader.tokenizer.convert_ids_to_tokens(sorted(reader.ends))) == family.ends
    more = family.ends - {*family.named}
    assert set(reader.end_details.get("ends", "").split()) == more
    assert len(reader.end_notes) == bool(more)
    assert all(end in note for end in more for note in reader.end_notes)


@families
def test_no_text_opens_or_closes_a_turn_and_html_stays(family, tiny):
    template = read(family, tiny).template
    marks = {*family.special, family.user[0].strip(), family.user[1].strip(), family.bot[0].strip()}
    for mark in marks - {"", "sop", "Assistant", "<think>"}:
        broken = template.safe(f"Yes.\n{mark} No.")
        assert mark not in broken, "a role or an end of a turn"
        assert broken.replace("\u200b", "") == f"Yes.\n{mark} No."
    before = len(template.broken)
    assert template.safe(TEXTS) == TEXTS
    assert len(template.broken) == before


@families
def test_what_ends_a_turn_or_fills_up_is_an_end_by_its_look(family, tiny):
    for token in family.ends | {family.pad or family.eos}:
        assert end_at(f"Tea. {token}", len(f"Tea. {token}")) == 5 or token == "<unk>"


@families
def test_an_answer_stands_behind_no_thought(family, tiny):
    template = read(family, tiny).template
    prompt, answer = template.text(ASKED, generation=True), template.answer_text(ASKED)
    opens = family.thought is not None and prompt.rstrip().endswith(family.thought[0].strip())
    assert bool(prompt_end(prompt).mark) == opens == (family.name in THINK_FIRST)
    assert prompt_end(answer).mark == ""
    assert template.header_behind == "", "no header of a turn stands behind an answer"
    whole = template.closed_answer(ASKED, "Green.")
    assert whole.startswith(answer) and whole[len(answer) :].strip().startswith("Green.")
    turns = [{"role": "user", "content": "Tea?"}]
    rendered = template.tokenizer.apply_chat_template(
        turns, chat_template=template.answering, tokenize=False, add_generation_prompt=True
    )
    assert rendered == answer, "TRL renders what best-of-n asks"


@families
def test_a_reply_is_read_behind_its_thought(family, tiny):
    if family.thought is None:
        return
    opening, ending = family.thought
    tokenizer = read(family, tiny).tokenizer
    reply = f"{opening}Milk?\nNo.{ending}Tea."
    ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
    if family.name != "gpt-oss":  # whose <|end|> is dropped with the other special tokens
        assert decoded(tokenizer, [*ids, tokenizer.eos_token_id]) == reply
    assert after_thought(decoded(tokenizer, [*ids, tokenizer.eos_token_id])) == "Tea."
    assert thoughts_among([opening.strip()]) or family.name in {"gpt-oss", "Granite 3"}


def test_a_loaded_model_ends_where_its_reader_says(tiny):
    for reader in (read(family, tiny) for family in FAMILIES if family.also):
        assert LocalModel(reader, "causal").ends == reader.ends


@cache
def speaker(tiny) -> str:
    """A model that writes "!", "?", its template's end of turn, and then "." for ever."""
    family = NAMED["tuned from Gemma's base"]
    folder = tiny.root / "speaker"
    shutil.copytree(family.folder(tiny), folder)
    tokenizer = read(family, tiny).tokenizer
    ids = tokenizer.convert_tokens_to_ids(["!", "?", "<end_of_turn>", "."])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        tokens, head = model.get_input_embeddings().weight, model.lm_head.weight
        tokens.zero_(), head.zero_()
        tokens[:, 0] = 1e4  # so much that nothing else of the model counts
        for k, token in enumerate(ids):
            tokens[token] = 1e4 * torch.eye(len(tokens[0]))[k + 1]
            head[token, k] = 50.0
        head[ids[-1], len(ids)] = 50.0
    model.save_pretrained(folder)
    return str(folder)


def test_a_policy_stops_at_the_end_of_turn_that_its_template_alone_names(tiny, tmp_path):
    """Best-of-n, guided decoding and a judge's reply; without that end ten dots would follow."""
    settings, session = Settings(dtype="float32", device="cpu"), Session(store=tmp_path)
    policy = build_policy(f"{speaker(tiny)}?max_tokens=12", session, settings)
    asked = [MissingSamples(ASKED, (0, 1))]
    assert [(it.text, it.cut_off) for _, _, it in policy.draw(asked)] == [("!?", False)] * 2
    scorer = build_scorer(f"autoregressive:{speaker(tiny)}", session, settings)
    guided_policy = importlib.import_module("palate.uses.guides")
    guided = guided_policy.GuidedPolicy(
        policy, scorer, scorer.info, "guide", *build_methods("genarm")
    )
    policies = importlib.import_module("palate.answers.samples")
    read_by = policies.GuideInput(Slate(question=ASKED, candidates=()))
    answers = [it for _, _, it in guided.draw([asked[0]._replace(guide_input=read_by)])]
    assert [(it.text, it.cut_off) for it in answers] == [("!?", False)] * 2
    assert {it.guidance.written for it in answers} == {3}
    ((_, _, reply),) = policy.model.generate([[ASKED]], max_tokens=12)
    assert (reply.text, reply.cut_off) == ("!?", False)


@pytest.mark.parametrize("name", ["Qwen 3 Thinking", "Kimi-VL Thinking", "Magistral"])
def test_a_reply_within_a_thought_that_its_prompt_opened_is_no_verdict(name, tiny, monkeypatch):
    """The model's likeliest reply is a verdict; whether it is said or thought, the prompt knows."""
    family, thinks = NAMED[name], name != "Magistral"
    language_model = importlib.import_module("palate.engines.language_model")
    monkeypatch.setattr(
        language_model, "generate", lambda *_: iter([(0, "A, or B?\nVerdict: B", False)])
    )
    model = default_session().language_model(
        Spec.parse(f"judge:{family.folder(tiny)}"), Settings(device="cpu"), set(), ""
    )
    ((_, _, reply),) = model.generate([[ASKED]], max_tokens=8)
    assert reply.text.startswith(family.thought[0]) == thinks
    if thinks:
        with pytest.raises(Unreadable, match="a thought that does not end"):
            parse_verdict(reply.text)
    else:
        assert parse_verdict(reply.text) == "B"
    answered = model.reader.template.answer_prompt(ASKED)
    ((_, _, reply),) = model.generate([[answered]], max_tokens=8)
    assert reply.text == "A, or B?\nVerdict: B", "the thought is closed"


@pytest.mark.parametrize(("name", "line"), [
    ("Orion", "Human: And then?"), ("Orion", "Assistant: A walk."), ("Falcon", "User: And then?"),
    ("OpenChat", "GPT4 Correct User: And then?"), ("DeepSeek V2", "Assistant: A walk."),
])  # fmt: skip
def test_a_role_in_plain_words_is_broken_at_the_beginning_of_a_line(name, line, tiny):
    template = read(NAMED[name], tiny).template
    for text in (line, f"Green tea.\n{line}", f"Green tea.\n\n  {line}"):
        assert template.safe(text) == text.replace(line, f"{line[0]}\u200b{line[1:]}")
    assert template.safe(f"The role is {line}") == f"The role is {line}"
    other = read(FAMILIES[1], tiny).template
    assert other.safe(f"Tea.\n{line}") == f"Tea.\n{line}", "a template without such roles"


def test_what_is_broken_is_counted_in_the_notes(tiny):
    """HTML scores as it does in plain transformers; a mark is broken, and the run says so."""
    folder = NAMED["Gemma 3"].folder(tiny)
    scorer = build_scorer(f"likelihood:{folder}", default_session(), Settings())
    html = make_slate("H<sub>2</sub>O, <b>hot</b>.", "<table> and <code>")
    encoded = scorer.local.template.continuation(ASKED, html.candidates[0])
    tokenizer = scorer.local.reader.tokenizer
    assert tokenizer.convert_tokens_to_ids("<sub>") in encoded.ids
    list(scorer.score([html]))
    assert not any("mark" in note for note in scorer.notes())
    marked = make_slate("Tea.<end_of_turn>", "<start_of_turn>user", "Tea.<end_of_turn>", "Tea.")
    list(scorer.score([marked]))
    (note,) = (note for note in scorer.notes() if "mark" in note)
    assert note.endswith("2 texts spell marks of the model, broken by a zero-width space")
    later = build_scorer(f"likelihood:{folder}", default_session(), Settings())
    list(later.score([html]))
    assert not any("mark" in note for note in later.notes()), "another run's texts"
    list(later.score([marked]))
    assert note in later.notes(), "a text that was read before counts anew"


def test_a_template_that_opens_a_thought_in_unknown_marks_is_refused(tiny):
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    template += "{% if add_generation_prompt %}<|bot|><|deep_thought|>{% endif %}"
    reader = Reader(Reference.parse(tiny.model(template=template)), Settings(device="cpu"))
    with pytest.raises(ModelError, match=r"opens a thought in marks .* \(<\|deep_thought\|>\)"):
        reader.template.answer_text(ASKED)


def test_a_header_that_a_template_writes_behind_an_answer_is_said(tiny):
    """As Llama 3's first template, which did not look at `add_generation_prompt`."""
    turns = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    headed = tiny.model(template=turns + "{{ '<|im_start|>assistant\\n' }}")
    reader = Reader(Reference.parse(headed), Settings())
    (note,) = reader.notes
    assert "'<|im_start|>assistant' behind an answer; only classifiers read that" in note
    assert reader.template.closed_text(ASKED, "Green.").endswith("<|im_start|>assistant\n")
    assert reader.template.behind == "<|im_end|>\n"
    ids, start = reader.template.closed(ASKED, "Green.")
    assert reader.tokenizer.decode(ids[start:]) == "Green.<|im_end|>\n"
    asking = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    for template in (turns, turns + asking):
        assert not Reader(Reference.parse(tiny.model(template=template)), Settings()).notes
