"""Own users choose between responses: what each is asked next, and the rows that come of it."""

from palate.study.collecting.choosing import choose_next
from palate.study.collecting.contract_rows import contract_rows
from palate.study.collecting.planning import CollectOptions, plan_collection

__all__ = ["CollectOptions", "choose_next", "contract_rows", "plan_collection"]
