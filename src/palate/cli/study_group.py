"""palate study: people judge what a model is shown."""

from palate.cli.lazy import lazy_group

study = lazy_group(
    "Have people judge exactly what a model is shown.",
    {
        "plan": (
            "study_plan:plan",
            "Fix who is asked what, under a hash, before anybody is asked.",
        ),
        "serve": ("study_serve:serve", "Serve the study's pages to its raters."),
        "status": ("study_answers:status", "Print how far the raters are, and how they answer."),
        "close": ("study_answers:close", "Take no more answers: of one rater, or of all."),
        "forget": ("study_answers:forget", "Delete all that is kept of a rater or a user."),
        "export": ("study_answers:export", "Write answers, the contract's rows, or raters' lists."),
        "import": ("study_answers:import_answers", "Take answers that another tool gathered."),
    },
)
