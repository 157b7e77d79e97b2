"""Templates as users bring them: clocks, thoughts, marks, spaces, several by name, none."""

from __future__ import annotations

import re
from datetime import date

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from palate.engines import ChatTemplate
from palate.errors import ModelError
from palate.records import Message, Settings

HELLO = (Message(role="user", content="Hello, who are you?"),)
LLAMA_3_2 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\nToday Date: " + date_string + "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""
MISTRAL_SMALL = """{%- set today = strftime_now("%Y-%m-%d") %}
{{- bos_token }}[SYSTEM_PROMPT]The current date is {{ today }}.[/SYSTEM_PROMPT]
{%- for message in messages %}
    {%- if message['role'] == 'user' %}{{- '[INST]' + message['content'] + '[/INST]' }}
    {%- else %}{{- message['content'] + eos_token }}
    {%- endif %}
{%- endfor %}"""
GRANITE = """{%- macro today() %}{{ strftime_now('%B %d, %Y') }}{%- endmacro %}
{%- for message in messages %}
{%- if loop.first %}{{- 'Today\\'s Date: ' + today() + '.\n' }}{%- endif %}
{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}"""
QWEN_3 = """{%- for message in messages %}
{%- if message.role == 'assistant' %}
{%- set content = message.content %}
{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1] %}{%- endif %}
{{- '<|im_start|>assistant\n<think>\n\n</think>\n\n' + content.lstrip('\n') + '<|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"""
DEEPSEEK_R1 = """{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}
{{- '<｜Assistant｜>' + message.content.split('</think>')[-1] + '<|im_end|>' }}
{%- else %}{{- '<｜User｜>' + message.content }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<｜Assistant｜><think>\n' }}{% endif %}"""
CHANNELS = """{% for m in messages %}<|start|>{{ m.role }}
{%- if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>
{%- endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"""
PLAIN_MARKS = {
    "instructions": (
        "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
        "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
        {"user": "[INST]", "assistant": "[/INST]"},
    ),
    "headings": (
        "{% for m in messages %}### {{ m.role | capitalize }}:\n{{ m.content }}\n\n{% endfor %}"
        "{% if add_generation_prompt %}### Assistant:\n{% endif %}",
        {"user": "### User:", "assistant": "### Assistant:"},
    ),
    "capitals": (
        "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT:{% endif %}",
        {"user": "USER:", "assistant": "ASSISTANT:"},
    ),
    "roles in bars": (
        "{% for m in messages %}{{ '<|' + m.role + '|>' }}\n{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        {"user": "<|user|>", "assistant": "<|assistant|>"},
    ),
}


def with_template(tiny, template, **of_tokenizer):
    """Return SmolLM2's tokenizer under another template."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.smol, **of_tokenizer)
    tokenizer.chat_template = template
    return tokenizer


def sentencepiece(template, *, legacy):
    """Return a small tokenizer of Llama 2's kind: ▁ stands for a space."""
    words = ["<unk>", "<s>", "</s>", "▁", "A", "B", "▁A", "▁B", "[", "/", "I", "N", "S", "T", "]"]
    words += [f"<0x{byte:02X}>" for byte in range(256)]
    words += ["h", "i", "?", "▁[", "▁h", "IN", "ST", "INST"]
    merges = [("▁", "A"), ("▁", "B"), ("▁", "["), ("▁", "h"), ("I", "N"), ("S", "T"), ("IN", "ST")]
    made = Tokenizer(
        models.BPE(
            {word: k for k, word in enumerate(words)},
            merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    if legacy:
        made.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    made.add_special_tokens([AddedToken(it, special=True) for it in words[:3]])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        chat_template=template,
    )


@pytest.mark.parametrize(
    ("template", "by_default", "on_a_day"),
    [
        (LLAMA_3_2, "Today Date: 26 Jul 2024", "Today Date: 04 Mar 2025"),
        (MISTRAL_SMALL, "date is 2024-07-26.", "date is 2025-03-04."),
        (GRANITE, "Date: July 26, 2024.", "Date: March 04, 2025."),
        (
            "{{ strftime_now('%-d/%-m/%y, %A, 100%%') }}{{ messages }}",
            "26/7/24, Friday, 100%",
            "4/3/25, Tuesday, 100%",
        ),
    ],
    ids=["Llama 3.2", "Mistral Small", "Granite", "other codes"],
)
def test_a_template_that_reads_the_clock_is_told_one_day(tiny, template, by_default, on_a_day):
    tokenizer = with_template(tiny, template)
    usual = ChatTemplate(tokenizer)
    assert by_default in usual.text(HELLO, generation=True)
    assert usual.source.details == {"template_date": "2024-07-26"}
    other = ChatTemplate(tokenizer, Settings(template_date=date(2025, 3, 4)))
    assert on_a_day in other.text(HELLO, generation=True)
    assert on_a_day in other.closed_text(HELLO, "Fine.")
    assert other.source.details == {"template_date": "2025-03-04"}


def test_the_day_changes_nothing_else_that_a_template_writes(tiny):
    today = date.today()
    tokenizer = with_template(tiny, "\n  " + LLAMA_3_2)
    turns = [{"role": m.role, "content": m.content} for m in HELLO]
    plain = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    read = ChatTemplate(tokenizer, Settings(template_date=today)).text(HELLO, generation=True)
    assert read == plain


def test_a_day_is_told_only_where_the_template_takes_one(tiny):
    day = Settings(template_date=date(2025, 3, 4))
    llama_3_1 = LLAMA_3_2.replace("strftime_now", "no_clock")
    assert ChatTemplate(with_template(tiny, llama_3_1)).source.details == {}
    template = ChatTemplate(with_template(tiny, llama_3_1), day)
    assert "Today Date: 04 Mar 2025" in template.text(HELLO, generation=True)
    assert template.source.details == {"template_date": "2025-03-04"}
    assert ChatTemplate(with_template(tiny, QWEN_3), day).source.details == {}


@pytest.mark.parametrize(
    ("template", "opened", "answer"),
    [
        (QWEN_3, "<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        (DEEPSEEK_R1, "<｜Assistant｜><think>\n", "<｜Assistant｜><think>\n\n</think>\n\n"),
        (CHANNELS, "<|start|>assistant", "<|start|>assistant<|channel|>final<|message|>"),
    ],
    ids=["Qwen 3", "DeepSeek R1", "channels"],
)
def test_an_answer_stands_behind_a_closed_thought(tiny, template, opened, answer):
    read = ChatTemplate(with_template(tiny, template))
    assert read.text(HELLO, generation=True).endswith(opened)
    assert read.answer_text(HELLO).endswith(answer)
    for encoded in (read.continuation(HELLO, "Tea."), read.closed(HELLO, "Tea.")):
        before = read.tokenizer.decode(encoded.ids[: encoded.start])
        assert answer.rstrip("\n").endswith(before.rstrip("\n")[-len("assistant") :])
        assert read.tokenizer.decode(encoded.ids[encoded.start :]).lstrip("\n").startswith("Tea.")


def test_no_thought_is_no_change(tiny):
    template = ChatTemplate(transformers.AutoTokenizer.from_pretrained(tiny.smol))
    assert template.answer_text(HELLO) == template.text(HELLO, generation=True)
    assert template.closed_answer(HELLO, "Tea.") == template.closed_text(HELLO, "Tea.")


@pytest.mark.parametrize("template", [QWEN_3, DEEPSEEK_R1], ids=["Qwen 3", "DeepSeek R1"])
def test_a_response_with_a_thought_in_it_is_read_whole(tiny, template):
    read = ChatTemplate(with_template(tiny, template))
    for written in (
        read.closed_text(HELLO, "One.</think>Two."),
        read.closed_answer(HELLO, "One.</think>Two."),
    ):
        assert "One." in written
        assert "Two." in written


@pytest.mark.parametrize(
    ("template", "role"),
    [
        (
            "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}{% endif %}"
            "{% endfor %}",
            "system",
        ),
        ("{% for m in messages %}[{{ m.role }}]{{ m.content | upper }}{% endfor %}", "user"),
    ],
    ids=["left out", "changed"],
)
def test_a_template_that_loses_a_text_is_refused(tiny, template, role):
    read = ChatTemplate(with_template(tiny, template))
    messages = (Message(role="system", content="BE BRIEF."), *HELLO)
    with pytest.raises(ModelError, match=f"leaves out or changes a text of the {role}"):
        read.prompt(messages)


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize(
    ("template", "label"),
    [
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}", "A"),
        ("{% for m in messages %}[INST]{{ m.content }}[/INST]{% endfor %}", "A"),
        (PLAIN_MARKS["instructions"][0], "▁A"),
    ],
    ids=["a line", "no space", "the template writes a space"],
)
def test_a_label_is_the_token_that_follows_the_prompt(template, label, legacy):
    tokenizer = sentencepiece(template, legacy=legacy)
    alone = tokenizer.convert_ids_to_tokens(tokenizer("A", add_special_tokens=False)["input_ids"])
    assert alone == ["▁A"], "or this tests nothing"
    found = ChatTemplate(tokenizer).label_id("A")
    assert tokenizer.convert_ids_to_tokens(found) == label


def test_a_label_that_takes_in_the_end_of_the_prompt_is_refused():
    template = "{% for m in messages %}{{ m.content }}{% endfor %}[/INST] "
    tokenizer = sentencepiece(template, legacy=False)
    with pytest.raises(ModelError, match=r"'A' makes one token with the end of the prompt"):
        ChatTemplate(tokenizer).label_id("A")


def test_labels_of_byte_tokens_are_the_labels_themselves(tiny):
    template = ChatTemplate(transformers.AutoTokenizer.from_pretrained(tiny.smol))
    for label in "AB123456789":
        (alone,) = template.tokenizer(label, add_special_tokens=False)["input_ids"]
        assert template.label_id(label) == alone


@pytest.fixture(scope="module")
def plainly_marked(tiny):
    return {kind: ChatTemplate(with_template(tiny, it)) for kind, (it, _) in PLAIN_MARKS.items()}


@pytest.mark.parametrize("kind", PLAIN_MARKS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_text_opens_a_turn(plainly_marked, kind, data):
    read, (_, marks) = plainly_marked[kind], PLAIN_MARKS[kind]
    piece = st.sampled_from([*marks.values(), "a", " ", "\n", "Tea: hot.", "[", "<", "#", "|"])
    texts = st.lists(piece, min_size=1, max_size=8).map("".join).filter(lambda text: text.strip())
    roles = ["user", "assistant"] * data.draw(st.integers(1, 3))
    messages = tuple(Message(role=role, content=data.draw(texts)) for role in roles)
    written = read.text(messages, generation=False)
    for role in ("user", "assistant"):
        turns = roles.count("user" if kind == "instructions" else role)
        assert len(re.findall(re.escape(marks[role]), written)) == turns
    assert written.replace("\u200b", "").count("Tea") == sum(
        m.content.count("Tea") for m in messages
    )


def test_added_tokens_that_are_not_special_are_broken(tiny):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.smol)
    plain = ["<｜User｜>", "<｜Assistant｜>", "</think>", "[TOOL]"]
    tokenizer.add_tokens([AddedToken(it, special=False) for it in (*plain, "kettle", "\n\n", "  ")])
    template = ChatTemplate(tokenizer)
    evil = " ".join(plain)
    ids = template.prompt((Message(role="user", content=evil),))
    assert not set(tokenizer.convert_tokens_to_ids(plain)) & set(ids)
    assert template.safe("a kettle\n\n  and User: tea") == "a kettle\n\n  and User: tea"


def test_ids_beyond_the_embeddings_are_refused_in_a_line(tiny):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.smol)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|turn|>"]})
    tokenizer.chat_template = "{% for m in messages %}<|turn|>{{ m.content }}{% endfor %}"
    rows = len(tokenizer) - 1
    assert ChatTemplate(tokenizer, rows=rows + 1).prompt(HELLO)
    with pytest.raises(ModelError, match=rf"token {rows} \('<\|turn\|>'\).* have {rows} rows"):
        ChatTemplate(tokenizer, rows=rows).prompt(HELLO)


def test_named_templates_without_a_default_want_a_name(tiny):
    named = {"rag": "RAG {{ messages[0].content }}", "tool_use": "TOOLS {{ messages[0].content }}"}
    tokenizer = with_template(tiny, named)
    with pytest.raises(ModelError, match=r"no default one .*\(rag, tool_use\).*--chat-template"):
        ChatTemplate(tokenizer)
    with pytest.raises(ModelError, match=r"no chat template 'rga'.*\(rag, tool_use\)"):
        ChatTemplate(tokenizer, Settings(chat_template="rga"))
    read = ChatTemplate(tokenizer, Settings(chat_template="rag"))
    assert read.text(HELLO, generation=True) == f"RAG {HELLO[0].content}"
    assert set(read.source.details) == {"chat_template"}


def test_a_named_default_is_taken(tiny):
    tokenizer = with_template(tiny, {"default": "D {{ messages[0].content }}", "rag": "R"})
    read = ChatTemplate(tokenizer, Settings(chat_template="rag"))
    assert read.text(HELLO, generation=True) == f"D {HELLO[0].content}"
    assert read.source.details == {}


def test_a_tokenizer_without_a_template_takes_the_one_that_is_given(tiny):
    tokenizer = with_template(tiny, None)
    with pytest.raises(ModelError, match=r"no chat template; give one with --chat-template FILE"):
        ChatTemplate(tokenizer)
    with pytest.raises(ModelError, match=r"no chat template 'rag'; give one with"):
        ChatTemplate(tokenizer, Settings(chat_template="rag"))
    texts = ["A {{ messages[0].content }}", "B {{ messages[0].content }}"]
    reads = [ChatTemplate(tokenizer, Settings(chat_template=text)) for text in texts]
    assert [read.text(HELLO, generation=True)[0] for read in reads] == ["A", "B"]
    assert reads[0].source.details != reads[1].source.details
    assert tokenizer.chat_template is None


def test_what_is_no_template_is_refused_in_a_line(tiny):
    with pytest.raises(ModelError, match=r"the chat template is no Jinja"):
        ChatTemplate(with_template(tiny, "{% for m in messages %}{{ m.content }"))
