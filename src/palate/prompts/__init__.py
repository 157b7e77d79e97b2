"""Prompts that models read, and how their replies are read; wording is in `templates/*.jinja`."""

from palate.prompts.grading import aspect_prompt, parse_numbers, titles_prompt
from palate.prompts.judging import (
    Form,
    Unreadable,
    pair_prompt,
    parse_rating,
    parse_verdict,
    rating_prompt,
    without_thought,
)
from palate.prompts.pairs import (
    ReadAspect,
    SentencesOf,
    parse_aspects,
    reader_prompt,
    writer_prompt,
)
from palate.prompts.rendering import (
    about,
    as_text,
    cut_to_fit,
    fence,
    fitting_parts,
    prompt_hash,
    render,
)
from palate.prompts.writing import (
    example_text,
    parse_persona,
    parse_plan,
    persona_prompt,
    plan_prompt,
    plan_text,
)

__all__ = [
    "Form",
    "ReadAspect",
    "SentencesOf",
    "Unreadable",
    "about",
    "as_text",
    "aspect_prompt",
    "cut_to_fit",
    "example_text",
    "fence",
    "fitting_parts",
    "pair_prompt",
    "parse_aspects",
    "parse_numbers",
    "parse_persona",
    "parse_plan",
    "parse_rating",
    "parse_verdict",
    "persona_prompt",
    "plan_prompt",
    "plan_text",
    "prompt_hash",
    "rating_prompt",
    "reader_prompt",
    "render",
    "titles_prompt",
    "without_thought",
    "writer_prompt",
]
