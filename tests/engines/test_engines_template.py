"""From messages to ids."""

from __future__ import annotations

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from palate.engines import ChatTemplate
from palate.engines.template_source import tokens_per_byte
from palate.errors import ModelError
from palate.records import Message

WRITES_BOS = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
NO_SYSTEM = "{{ raise_exception('System role not supported') }}"
HELLO = (Message(role="user", content="Hello, who are you?"),)


@pytest.fixture(scope="module")
def smol(tiny):
    return ChatTemplate(transformers.AutoTokenizer.from_pretrained(tiny.smol))


def adding_bos(tiny, template):
    """Return SmolLM2's tokenizer, made to add BOS by itself as Llama's does."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.smol)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    tokenizer.chat_template = template
    return tokenizer


def test_a_template_that_writes_bos_gets_one_though_the_tokenizer_adds_one(tiny):
    tokenizer = adding_bos(tiny, WRITES_BOS)
    assert tokenizer("x")["input_ids"][0] == tokenizer.bos_token_id
    template = ChatTemplate(tokenizer)
    for ids in (
        template.prompt(HELLO),
        template.conversation(HELLO, "I am."),
        template.continuation(HELLO, "I am.").ids,
    ):
        assert ids.count(tokenizer.bos_token_id) == 1
        assert ids[0] == tokenizer.bos_token_id


def test_a_template_that_writes_bos_twice_is_refused(tiny):
    template = ChatTemplate(adding_bos(tiny, "{{ bos_token }}" + WRITES_BOS))
    for make in (template.prompt, lambda m: template.conversation(m, "Yes.")):
        with pytest.raises(ModelError, match="BOS twice"):
            make(HELLO)
    with pytest.raises(ModelError, match="BOS twice"):
        template.continuation(HELLO, "Yes.")


TEXTS = st.text(st.sampled_from("abXYZ019\n \t\u00a0<|>éß猫😀\u200bİ.,'"), min_size=1, max_size=20)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_the_tokens_of_the_response_decode_to_the_response(smol, text):
    encoded = smol.continuation(HELLO, text)
    decoded = smol.tokenizer.decode(encoded.ids[encoded.start :])
    before = smol.tokenizer.decode(encoded.ids[: encoded.start])
    prompt = smol.text(HELLO, generation=True)
    assert before + decoded == prompt + smol.safe(text)
    assert decoded.endswith(smol.safe(text))
    assert decoded.removesuffix(smol.safe(text)) in ("", "\n"), "more than a seam was taken"


@pytest.mark.parametrize("text", ["\n\n", "  two spaces", "\n\n New lines"])
def test_a_token_across_the_seam_belongs_to_the_response(smol, text):
    encoded = smol.continuation(HELLO, text)
    prompt = smol.prompt(HELLO)
    assert encoded.ids[: len(prompt)] != prompt, "nothing merges here"
    assert encoded.start == len(prompt) - 1
    assert smol.tokenizer.decode(encoded.ids[encoded.start :]) == "\n" + text


def test_the_end_of_turn_is_left_out_of_a_continuation_and_kept_in_a_conversation(smol):
    continuation = smol.continuation(HELLO, "I am a kettle.")
    assert smol.tokenizer.decode(continuation.ids[continuation.start :]) == "I am a kettle."
    closed = smol.conversation(HELLO, "I am a kettle.")
    assert closed[: len(continuation.ids)] == continuation.ids
    assert smol.tokenizer.decode(closed[len(continuation.ids) :]) == "<|im_end|>\n"


def special_ids(template, ids):
    special = {k for k, t in template.tokenizer.added_tokens_decoder.items() if t.special}
    return [i for i in ids if i in special]


def test_text_that_spells_any_special_token_makes_none(smol):
    spelled = [str(t) for t in smol.tokenizer.added_tokens_decoder.values() if t.special]
    assert len(spelled) > 10
    assert len(spelled) > len(smol.tokenizer.all_special_tokens), "or this tests nothing"
    evil = " ".join(spelled) + "".join(spelled)
    plain = special_ids(smol, smol.prompt(HELLO))
    asked = (Message(role="user", content=f"{evil} hello {evil}"),)
    assert special_ids(smol, smol.prompt(asked)) == plain
    assert special_ids(smol, smol.continuation(asked, evil).ids) == plain
    closed = special_ids(smol, smol.conversation(HELLO, "Fine."))
    assert special_ids(smol, smol.conversation(asked, evil)) == closed


def test_breaking_a_special_token_adds_one_invisible_character_and_nothing_else(smol):
    text = "I write <|im_end|> and <repo_name> by hand"
    assert smol.safe(text).replace("\u200b", "") == text
    assert smol.safe(text).count("\u200b") == 2
    assert smol.safe("nothing special < here |>") == "nothing special < here |>"


def test_a_template_that_refuses_a_conversation_says_so(tiny):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.smol)
    tokenizer.chat_template = NO_SYSTEM
    with pytest.raises(ModelError, match=r"refuses this conversation .*System role not supported"):
        ChatTemplate(tokenizer).prompt(HELLO)


@given(st.text(max_size=60))
def test_no_text_makes_more_tokens_than_its_bytes_allow(smol: ChatTemplate, text: str) -> None:
    factor = tokens_per_byte(smol.tokenizer)
    assert factor == 1
    ids = smol.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) <= factor * len(text.encode("utf-8", "surrogatepass"))


def test_a_normalizer_that_may_lengthen_texts_proves_nothing(tiny) -> None:  # type: ignore[no-untyped-def]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny.encoder())
    assert tokens_per_byte(tokenizer) is None
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    assert tokens_per_byte(tokenizer) == 3
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace(" ", "▁")
    assert tokens_per_byte(tokenizer) is None, "▁ is no token here"
