"""The reward that a policy trained by DPO stands for."""

from __future__ import annotations

from palate.errors import SpecError
from palate.records import Settings
from palate.scorers.autoregressive import Autoregressive
from palate.scorers.endpoint_text import OPTIONS, model_spec, without_network
from palate.scorers.lift import ScaledDifference
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

EXAMPLE = "implicit:./models/my-dpo?reference=./models/its-start"


class Implicit(ScaledDifference):
    """A policy trained by DPO, read as a reward model.

    r(x, y) = β [log π(y | x) − log π_ref(y | x)], the end of turn included (DPO, section 4).

    Both models read the policy's tokens, as its template writes them: the reference needs no
    template, and one with another vocabulary is refused. With `?reference=none` it is
    β log π(y | x). β only scales; a margin is a log-odds where `?beta=` gives the β of training
    and there is a reference. The reference's log-probabilities are a pass of their own: another
    policy over the same rows reads them from disk.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        policy = spec.need_reference(EXAMPLE)
        spec.only({"beta", "reference"} | (OPTIONS if policy.startswith("api:") else set()))
        reference = spec.options.get("reference")
        if reference is None:
            raise SpecError(f"{spec}: needs what it was trained from, as in {EXAMPLE}, or none")
        self.beta = spec.positive("beta", 1.0)
        names = [policy] if reference == "none" else [policy, reference]
        specs = [model_spec("autoregressive", name, spec) for name in names]
        local = [Reference.parse(name) for name in names if not name.startswith("api:")]
        widths = [int(session.reader(it, settings).config.vocab_size) for it in local]
        width, listed = None, " and ".join(f"{n:,}" for n in widths)
        note = f"{spec}: heads of {listed} rows; the softmax leaves out what one has alone"
        if len(set(widths)) > 1:  # rows beyond both tokenizers, such as one of a pad
            width = min(widths)
        models = [Autoregressive(specs[0], session, settings, width=width)]
        reads_as = models[0].local
        models += [Autoregressive(it, session, settings, reads_as, width) for it in specs[1:]]
        self.compose(models)
        self.canonical = str(without_network(spec, "reference"))
        first = self.models[0].info
        prints = [model.info.fingerprint for model in self.models]
        self.info = first.model_copy(
            update={
                "fingerprint": digest("implicit", self.beta, *prints),
                "notes": first.notes if width is None else (*first.notes, note),
                "log_odds": "beta" in spec.options and len(models) > 1,
                "details": {"policy": first.details, "reference": self.models[-1].info.details},
            }
        )
