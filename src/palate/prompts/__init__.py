"""Prompts that models read, and how their replies are read; wording is in `templates/*.jinja`."""

from palate.prompts.judging import (
    Form,
    Unreadable,
    aspect_prompt,
    label_line,
    pair_prompt,
    parse_numbers,
    parse_rating,
    parse_verdict,
    rating_prompt,
    titles_prompt,
    without_thought,
)
from palate.prompts.rendering import (
    ABOVE_TRAITS,
    about,
    as_text,
    cut_to_fit,
    fence,
    fitting_parts,
    prompt_hash,
    read_candidates,
    render,
)
from palate.prompts.wording import PROMPTS, Wording, described
from palate.prompts.writing import (
    ReadAspect,
    SentencesOf,
    example_text,
    parse_aspects,
    parse_persona,
    parse_plan,
    persona_prompt,
    plan_prompt,
    plan_text,
    reader_prompt,
    trait_text,
    writer_prompt,
)
