"""What models read and how their replies are read; wording lives in `templates/*.jinja`."""

from palate.prompts.judging import (
    Form,
    Letter,
    Unreadable,
    pair_prompt,
    parse_rating,
    parse_verdict,
    rating_prompt,
    without_thought,
)
from palate.prompts.rendering import about, as_text, cut_to_fit, prompt_hash, render

__all__ = [
    "Form",
    "Letter",
    "Unreadable",
    "about",
    "as_text",
    "cut_to_fit",
    "pair_prompt",
    "parse_rating",
    "parse_verdict",
    "prompt_hash",
    "rating_prompt",
    "render",
    "without_thought",
]
