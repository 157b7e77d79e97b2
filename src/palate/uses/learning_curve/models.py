"""The personal reward models of a curve: from folders or objects to scorers with a state a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from palate.errors import UsageError
from palate.evaluation import HasStates, Work
from palate.learning.personal import PersonalModel
from palate.records import Scorer, info_of
from palate.scorers.personal import Personal
from palate.specs import Spec

Model = str | Path | PersonalModel | HasStates
Models = str | Path | Sequence[str | Path] | Mapping[str, Model]
REFERENCE = "bradley-terry"


def build_models(models: Models, work: Work) -> dict[str, HasStates]:
    """Return a scorer for each model; one given as a folder alone has the folder's name.

    Raises `UsageError` where two have one name, and for what has no state of a user.
    """
    if not isinstance(models, Mapping):
        folders = [
            Path(one).absolute() for one in ([models] if isinstance(models, str | Path) else models)
        ]
        models = {folder.name: folder for folder in folders}
        if len(models) < len(folders):
            raise UsageError("two models have one folder name; rename one")
    if not models:
        raise UsageError("learning curve: no model; name a folder that palate train made")
    return {name: _build(name, model, work) for name, model in models.items()}


def _build(name: str, model: Model, work: Work) -> HasStates:
    if isinstance(model, PersonalModel):
        return Personal(Spec(kind="personal"), work.session, work.settings, model)
    scorer: object = model
    if isinstance(model, str | Path):
        folder = Path(model).expanduser().absolute()
        spec = Spec(kind="personal", reference=str(folder))
        scorer = work.scorer(str(spec))
    able = isinstance(scorer, Scorer) and info_of(scorer, name).needs_user
    if not able or not isinstance(scorer, HasStates) or scorer.state != "own":
        raise UsageError(f"model {name}: {type(scorer).__name__} does not score by users' states")
    return scorer


def references_of(models: Mapping[str, HasStates]) -> dict[str, str]:
    """Return, by model, the bradley-terry model of the same vectors and the same training data."""
    trained: dict[str, PersonalModel] = {
        name: one.trained for name, one in models.items() if isinstance(one, Personal)
    }
    made = {name: (one.meaning, one.facts.get("data")) for name, one in trained.items()}
    plain = {made[name]: name for name, one in trained.items() if one.model.method == REFERENCE}
    return {name: plain[key] for name, key in made.items() if plain.get(key, name) != name}
