"""Answers that tell of the machine that wrote them: empty, a refusal, or naming its model.

The phrases are few and in the first person, so that advice about machines passes. Behind a
quotation mark they are somebody else's words.
"""

from __future__ import annotations

import re

MODELS = r"chatgpt|gpt-?\d\w*|qwen[\d.]*|deepseek|smollm\w*|llama[ -]?\d[\d.]*|mixtral"
NAMESAKES = "claude|gemini|bard|llama|mistral|copilot|grok|gemma|phi|kimi"
"""Models whose names people, stars and animals bear too: they count beside AI or a maker."""
MAKERS = "openai|anthropic|google|meta|microsoft|alibaba|mistral|deepseek|hugging face|cohere|xai"
BY = "(?:made|built|created|developed|trained) by"
MACHINE = (
    r"(?:(?:\w+ )?(?:ai|artificial intelligence) (?:language )?(?:model|assistant|chatbot)"
    r"|(?:large )?language model)"
)
PHRASES = (
    rf"as an? (?:{MACHINE}|ai|artificial intelligence)(?: {BY} \w+)?,? (?:i|my)\b",
    rf"(?:i am|i'm) (?:just |only )?an? {MACHINE}\b",
    rf"(?:i am|i'm|my name is) (?:{MODELS})(?!\w)",
    rf"(?:i am|i'm|my name is) (?:{NAMESAKES}),? (?:an? |the )?(?:ai|{MACHINE}|{BY})\b",
    rf"i was {BY} (?:{MAKERS})\b",
    r"my (?:knowledge cut-?off|training data)\b",
)
NAMES_MODEL = re.compile(rf"(?<![\"'“‘«`])\b(?:{'|'.join(PHRASES)})", re.IGNORECASE)
REFUSAL = re.compile(
    r"\W*(?:(?:i am |i'm )?(?:very |so |really )?sorry\W+(?:but )?|i apologi[sz]e\W+(?:but )?"
    r"|unfortunately\W+)?"
    r"(?:i (?:can't|cannot|can not|won't|will not)|(?:i am|i'm) (?:unable|not able) to) "
    r"(?:(?:assist|help)(?: you)? with (?:that|this|your)\b"
    r"|(?:fulfill?|complete|comply with|process|answer|provide) "
    r"(?:that|this|your) (?:request|prompt|question|information)\b)",
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
