"""palate build: a command for every kind of benchmark that can be made."""

from palate.cli.lazy import lazy_group

build = lazy_group(
    "Make a benchmark of what users wrote.",
    {
        "own-text": (
            "build:own_text",
            "Pair users' own texts with other texts on the same input, and leave out what leaks.",
        ),
        "pairs": (
            "build_pairs:pairs",
            "Let a language model write pairs to what users' own posts show, and drop what fails a "
            "check.",
        ),
    },
)
