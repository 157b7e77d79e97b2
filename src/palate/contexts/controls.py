"""Contexts by their specs: how one is built, and whom it shows, the user or a stranger instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from palate.benchmarks import LoadOptions, load_benchmark
from palate.data import LayoutOptions, forbidden_texts, leaks
from palate.engines import canonical
from palate.errors import BenchmarkError, SpecError, UsageError
from palate.records import (
    MOST_STRANGERS,
    Context,
    ContextInput,
    Gold,
    PreferencePair,
    Question,
    QuestionView,
    Settings,
    Shown,
    User,
    UserPool,
)
from palate.records.arguments import shown
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec, load, registered

GROUP = "palate.contexts"
DRAWS = 1
"""Strangers that a row is shown one after another, unless `?draws=N` says otherwise."""
Options = Mapping[str, str | int]
NOTHING = "none"
"""The context that shows nobody."""
CLUSTER = "cluster"


class Owner(NamedTuple):
    """Whose text is shown: `self` or `stranger`, of how many, and what they share with the user."""

    of: str = "self"
    draws: int = DRAWS
    same: str = ""


OWNER: Options = Owner()._asdict()


def build_context(
    spec: str | Context, session: Session, settings: Settings | None = None
) -> Context:
    """Build what a spec names, or give a context as it is; raises `UsageError` for anything else.

    >>> build_context("stranger:5", Session()).spec
    'profile:5?of=stranger'
    """
    if not isinstance(spec, str):
        if isinstance(spec, Context) and not isinstance(spec, type):
            return spec
        raise UsageError(
            f"context {shown(spec)}: expected a spec, or an object with spec, oracle, empty and "
            "shown()"
        )
    parsed, settings = context_spec(spec), settings or Settings()
    if "users" in parsed.options:
        return borrowing(parsed, session, settings)
    if parsed.before:
        return join(parsed, session, settings)
    made: Context = load(GROUP, parsed.kind)(parsed, session, settings)
    return made


def borrowing(spec: Spec, session: Session, settings: Settings) -> Context:
    """Build a context that shows each row a drawn user of another data set: `?users=FILE`.

    The choices of FILE's users are their past choices. Posts that hold the question's first line or
    a response are dropped. Raises `SpecError` for what shows no row's user, and `BenchmarkError`
    where nobody in FILE has what is shown.
    """
    file, bare = spec.options["users"], spec.having(users=None)
    context = build_context(str(bare), session, settings)
    if shows(context.spec) != "user" or context.oracle:
        raise spec.error("users are lent to what shows a row's own, as profile:5 does")
    place, options = Path(file), LoadOptions(layout=LayoutOptions(quoting=session.quoting))
    states = [each.stat().st_mtime_ns for each in (place, *place.rglob("*")) if each.exists()]
    try:  # once for all cells, and again where it has changed
        if (key := (file, *states)) not in session.lent:
            session.lent[key] = load_benchmark(file, split="all", options=options)
    except UsageError as error:
        way = "; the flags of -b do not reach it: palate data … --posts … -o FILE writes such rows"
        raise BenchmarkError(f"--users {file}: {error}{way * bool(states)}") from None
    data = session.lent[key]
    chosen = (row for row in data.rows if isinstance(row, PreferencePair))
    pool, parts = UserPool.of(data.rows, settings.seed, chosen), getattr(context, "parts", ())
    users = pool_of(parts or (context,), pool)

    def lend(row: ContextInput, question: Question) -> ContextInput:
        pool, forbidden = users.at(question.id, row.user.id), forbidden_texts(row.view)
        user = pool.stranger("posts") or User(id=row.user.id)
        posts = tuple(post for post in user.posts if not leaks(post.text, forbidden))
        return row._replace(user=user.model_copy(update={"posts": posts}), pool=pool)

    if users.at("", "").stranger("posts") is None:
        needs = " and no ".join(getattr(context, "needs", ()))
        raise BenchmarkError(f"users={file}: nobody there has {needs}, so there is no {bare}")
    fingerprint = digest("borrowed", data.content_hash, getattr(context, "fingerprint", None))
    named = str(context_spec(context.spec).having(users=file))
    vars(context).update(spec=named, fingerprint=fingerprint, lend=lend)
    return context


def join(spec: Spec, session: Session, settings: Settings) -> JoinedContext:
    """Build contexts that are joined by `+`; `of`, `draws` and `same` at the end hold for all.

    Raises `SpecError` for a kind that is there twice, and for one of these before the end.

    >>> made = build_context("traits+profile:03?draws=2&of=stranger", Session())
    >>> made.spec, made.draws, [part.spec for part in made.parts]
    ('traits+profile:3?draws=2&of=stranger', 2, ['traits?of=stranger', 'profile:3?of=stranger'])
    """
    kinds = [part.kind for part in spec.parts]
    if {NOTHING, "stranger", "pressure"} & {*kinds}:
        why = "none and stranger join nothing, nor pressure"
        raise spec.error(f"{why}; write profile:k, and ?of=stranger last")
    if twice := next((kind for kind in kinds if kinds.count(kind) > 1), None):
        raise spec.error(f"{twice} is there twice; join each kind at most once")
    given = {name for part in spec.before for name in part.options}
    if early := {*OWNER, "users"} & given:
        raise spec.error(f"{min(early)} holds for the whole; write it once, at the end")
    owner = read_owner(spec)
    whose = {k: None if v == OWNER[k] else str(v) for k, v in owner._asdict().items()}
    each = (str(part.having(**whose | {"draws": None})) for part in spec.parts)
    parts = [build_context(part, session, settings) for part in each]
    *before, last = (Spec.parse(part.spec).having(**dict.fromkeys(OWNER)) for part in parts)
    last = last.having(**whose).model_copy(update={"before": (*before,)})
    return JoinedContext(str(last), parts, owner)


class JoinedContext:
    """Shows what each of several contexts shows, in their order.

    Each part is cut by its own rule; where the window is short, the last one's parts go first. A
    stranger is one third user who has what every part reads.
    """

    empty = False

    def __init__(self, spec: str, parts: Sequence[Context], owner: Owner) -> None:
        self.spec, self.parts = spec, tuple(parts)
        self.of, self.draws, self.same = owner
        self.oracle = any(part.oracle for part in parts)
        needs = (need for part in parts for need in getattr(part, "needs", ()))
        self.needs = tuple(dict.fromkeys(needs))
        self.fingerprint = digest("joined", [getattr(part, "fingerprint", None) for part in parts])

    def prepare(self, inputs: Iterable[ContextInput]) -> None:
        """Let each part do at once what would be costly row by row."""
        rows = [row._replace(pool=pool_of(self.parts, row.pool)) for row in inputs]
        for part in self.parts:
            if (prepare := getattr(part, "prepare", None)) is not None:
                prepare(row if part.oracle else row._replace(gold=None) for row in rows)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return the parts of all, ranked in the order of the contexts."""
        pool = pool_of(self.parts, pool)
        ways = [part.shown(view, user, pool, gold if part.oracle else None) for part in self.parts]
        ordered = [part for way in ways for part in sorted(way.parts, key=lambda part: part.rank)]
        kinds = [part.spec.partition(":")[0].partition("?")[0] for part in self.parts]
        return Shown(
            parts=tuple(p.model_copy(update={"rank": rank}) for rank, p in enumerate(ordered)),
            own_words=sum(way.own_words for way in ways),
            leaks_dropped=sum(way.leaks_dropped for way in ways),
            shortfall_words=sum(way.shortfall_words for way in ways),
            no_stranger=any(way.no_stranger for way in ways),
            search_unmatched=any(way.search_unmatched for way in ways),
            lacking=tuple(kind for kind, way in zip(kinds, ways, strict=True) if not way.parts),
        )

    def notes(self) -> tuple[str, ...]:
        """Return what there is to say of each part."""
        return tuple(note for part in self.parts for note in getattr(part, "notes", tuple)())


def pool_of(parts: Iterable[Context], pool: UserPool) -> UserPool:
    """Return the pool whose stranger has what every part reads."""
    # What a persona reads, posts or choices, depends on the pool.
    read = (getattr(part, "inner", lambda _, part=part: part)(pool) for part in parts)
    return pool.having(*(need for part in read for need in getattr(part, "needs", ())))


def context_spec(text: str) -> Spec:
    """Read the spec of a context, or of contexts that are joined; raises `SpecError`."""
    return Spec.joined(text, registered(GROUP)) if "+" in text else Spec.parse(text)


def _read(text: str) -> Spec | None:
    with suppress(SpecError):
        return context_spec(text)
    return None


def shows(context: str) -> Literal["nobody", "user", "stranger", "borrowed", "pressure"]:
    """Return whom a context shows; of an object that goes by its own name, the user.

    `borrowed` is a user of another data set, `pressure` the row's, who states the wrong answer.

    >>> shows("none"), shows("profile:5"), shows("profile:5?draws=3&of=stranger")
    ('nobody', 'user', 'stranger')
    """
    if (spec := _read(context)) is None:
        return "user"
    if spec.kind in (NOTHING, "pressure"):
        return "nobody" if spec.kind == NOTHING else "pressure"
    if "users" in spec.options:
        return "borrowed"
    return "stranger" if "stranger" in (spec.kind, spec.options.get("of")) else "user"


def of_stranger(context: str) -> str:
    """Return the context that shows as much of a stranger.

    >>> of_stranger("profile:5")
    'profile:5?of=stranger'
    """
    return str(context_spec(context).having(of="stranger"))


def of_user(context: str) -> str:
    """Return the context that shows the user where this one shows a stranger.

    >>> of_user("profile:5?draws=3&of=stranger")
    'profile:5'
    """
    return str(context_spec(context).having(**dict.fromkeys(OWNER)))


def strangers_of(context: str, among: Iterable[str], *, of_kind: bool = False) -> list[str]:
    """Return those that show as much of a stranger (of one `of_kind`), whatever their draws.

    >>> strangers_of("profile:5", ["none", "profile:5", "profile:5?draws=3&of=stranger"])
    ['profile:5?draws=3&of=stranger']
    """
    spec = _read(context)
    if spec is None or shows(context) != "user":
        return []
    return equal_but_draws(spec.having(of="stranger"), among, of_kind=of_kind)


def equal_but_draws(spec: Spec, among: Iterable[str], *, of_kind: bool = False) -> list[str]:
    """Return those of these texts that are this spec, whatever their draws; or one `of_kind`."""
    wanted, others = spec.having(draws=None), ((other, _read(other)) for other in among)
    alike = (o for o, read in others if read and read.having(draws=None, same=None) == wanted)
    return [other for other in alike if bool(same_of(other)) == of_kind]


def same_of(text: str) -> str | None:
    """Return what strangers share with the user, by the spec of a context or scorer, if anything.

    >>> same_of("stranger:5?same=age,region"), same_of("personal:./lore?state=stranger")
    ('age,region', None)
    """
    spec = _read(text)
    return None if spec is None else spec.options.get("same")


def with_controls(
    contexts: Sequence[str | Context], session: Session, settings: Settings, same: str | None = None
) -> list[str]:
    """Return contexts with `none` and their strangers': any, and with `same` those of the kind.

    >>> with_controls(["profile:3"], Session(), Settings())
    ['none', 'profile:3', 'profile:3?of=stranger']
    """
    built = [build_context(text, session, settings) for text in contexts]
    listed, specs = [NOTHING], [context.spec for context in built]
    for context in built:
        listed.append(context.spec)
        if context.empty or context.oracle or shows(context.spec) == "stranger":
            continue
        strangers = strangers_of(context.spec, specs) or [of_stranger(context.spec)]
        try:
            listed += [build_context(it, session, settings).spec for it in strangers]
        except SpecError:  # a context of an installed package may know no strangers
            continue
        kinds = (str(context_spec(it).having(same=same)) for it in strangers if same is not None)
        listed += [build_context(it, session, settings).spec for it in kinds]
    return list(dict.fromkeys(listed))


def with_costs(
    contexts: Sequence[str] | None, users: str | None, *, pressure: bool, named: Sequence[str] = ()
) -> list[str] | None:
    """Return what `--users FILE`, which lends users, and `--pressure` make of those of `-c`.

    Raises `UsageError` where `-c` alone lends users to `named` sets, whose rows have their own, and
    where no context takes the lent ones.

    >>> with_costs(None, "votes.csv", pressure=True)
    ['none', 'profile:5?users=votes.csv', 'pressure']
    """
    if users is None and named and "borrowed" in map(shows, contexts or ()):
        raise UsageError(f"{named[0]}: rows have users of their own; --users FILE lends others")
    if users is None and not pressure:
        return None if contexts is None else [*contexts]
    listed = [NOTHING, *(contexts or ["profile:5"] * bool(users)), *["pressure"] * pressure]
    lent = [users is not None and shows(text) == "user" for text in listed]
    if users is not None and not (users and any(lent)):
        why = "no context shows a user of it; add -c profile:5" if users else "name a file of users"
        raise UsageError(f"--users {users or '(empty)'}: {why}")
    both = zip(listed, lent, strict=True)
    return [str(context_spec(t).having(users=users)) if lends else t for t, lends in both]


def refuse_other_draws(contexts: Iterable[str]) -> None:
    """Raise `UsageError` for two contexts of strangers that differ in draws alone."""
    first: dict[str, str] = {}
    for context in (text for text in contexts if shows(text) == "stranger"):
        other = first.setdefault(str(context_spec(context).having(draws=None)), context)
        if other != context:
            raise UsageError(
                f"{other} and {context} differ in draws alone, and a gain has one stranger's "
                "context; ask for one of them"
            )


def usual_name(context: str) -> str:
    """Return a context as it is usually asked for.

    >>> usual_name("profile:5?of=stranger")
    'stranger:5'
    """
    spec = _read(context)
    if spec is not None and "users" in spec.options:
        return str(spec.having(users=PurePath(spec.options["users"]).name))
    if spec is None or spec.before or spec.kind != "profile" or shows(context) != "stranger":
        return context
    return str(spec.model_copy(update={"kind": "stranger"}).having(of=None))


def read_owner(spec: Spec, option: str = "of", besides: Sequence[str] = ("self",)) -> Owner:
    """Return whose text (or state) is shown: a stranger's, or one besides; raises `SpecError`."""
    of = spec.choice(option, (*besides, "stranger"), besides[0])
    names = spec.options.get("same", "*").split(",")
    for name, what in (("draws", "counts"), ("same", "chooses")):
        if name in spec.options and of != "stranger":
            raise spec.error(f"{name} {what} strangers; it goes with {option}=stranger")
    if len({*map(str.strip, names)} - {""}) < len(names) or (CLUSTER in names and names[1:]):
        raise spec.error(f"name each trait once, as in same=region,age, or {CLUSTER} alone")
    draws = spec.number("draws", DRAWS, least=1, most=MOST_STRANGERS)
    return Owner(of, draws, ",".join(sorted(names)) if "same" in spec.options else "")


def one_spelling(spec: Spec, read: Options, default: Options) -> str:
    """Return the canonical spec: options as they were read, without defaults and network options.

    >>> spec = Spec.parse("plan:api:m?base_url=http://127.0.0.1/v1&k=010&timeout=9&of=self")
    >>> one_spelling(spec, {"k": 10, "of": "self"}, {"k": 10, "of": "self"})
    'plan:api:m?base_url=http://127.0.0.1/v1'
    """
    options = {name: value for name, value in spec.options.items() if name not in read}
    options |= {name: str(value) for name, value in read.items() if value != default.get(name)}
    return canonical(spec.model_copy(update={"options": options}))
