"""Answers that tell of the machine that wrote them: empty, a refusal, or naming its model.

The phrases are few, and all in the first person, so that advice about machines passes. One that
stands right behind a quotation mark is somebody else's words.
"""

from __future__ import annotations

import re

_AI = r"(?:an? )?(?:\w+ ){0,2}?(?:ai|artificial intelligence|large language model|language model)"
_MAKERS = (
    "openai|anthropic|google|google deepmind|meta ai|meta|microsoft|alibaba|alibaba cloud|mistral|"
    "mistral ai|deepseek|hugging face|cohere|xai|nvidia|moonshot ai|zhipu ai"
)
_NAMES = r"chatgpt|gpt-?\d\w*|qwen[\d.]*|deepseek|smollm\w*|llama[ -]?\d\S*|mixtral|chatglm"
_NAMES_OF_OTHERS = "claude|gemini|bard|llama|mistral|copilot|grok|gemma|phi|kimi|command"
"""Names that people, stars and animals bear too: only beside a word for a machine or its maker."""
_HELP = (
    r"(?:assist|help)(?: you)? with (?:that|this|your|the)\b|"
    r"(?:fulfil|fulfill|complete|comply with|process|answer) (?:that|this|your) (?:request|prompt)"
)
_CANNOT = r"(?:can't|cannot|can not|could not|couldn't|am unable to|am not able to|won't|will not)"

NAMES_MODEL = re.compile(
    rf"(?<![\"'“‘«`])\b(?:"
    rf"as an? (?:\w+ )?(?:ai|artificial intelligence)"
    rf"(?: (?:language )?(?:model|assistant|chatbot)\b|, i\b)"
    rf"|as a (?:large )?language model\b"
    rf"|(?:i am|i'm) (?:just |only )?{_AI} (?:model|assistant|chatbot)\b"
    rf"|(?:i am|i'm) (?:just |only )?an? (?:large )?language model\b"
    rf"|(?:i am|i'm|my name is|call me) (?:{_NAMES})(?!\w)"
    rf"|(?:i am|i'm|my name is) (?:{_NAMES_OF_OTHERS}),? (?:an? |the )?"
    rf"(?:ai|large language|language model|virtual|(?:made|built|created|developed|trained) by)\b"
    rf"|i (?:was|am|have been) (?:made|built|created|developed|trained) by (?:{_MAKERS})\b"
    rf"|my (?:knowledge cut-?off|training data)\b"
    rf")",
    re.IGNORECASE,
)
REFUSAL = re.compile(
    rf"\W*(?:(?:i am|i'm) (?:very |so |really )?sorry[,.]? (?:but )?|sorry[,.]? (?:but )?"
    rf"|i apologi[sz]e[,.]? (?:but )?|unfortunately,? )?"
    rf"i {_CANNOT} (?:{_HELP})",
    re.IGNORECASE,
)
"""Only where the answer begins with it: later it may be a part of advice."""


def format_fault(answer: str) -> str | None:
    """Return what is wrong with an answer's form; else None.

    >>> format_fault("I'm sorry, but I can't help with that."), format_fault("As an AI model, I …")
    ('is a refusal', 'names its model')
    >>> format_fault(" ... "), format_fault("I can't help you with oil, so try butter.")
    ('is empty', None)
    """
    plain = " ".join(answer.split()).replace("’", "'")
    if not any(character.isalnum() for character in plain):
        return "is empty"
    if REFUSAL.match(plain):
        return "is a refusal"
    return "names its model" if NAMES_MODEL.search(plain) else None
