"""Forms of a study's pages: what is missing, foreign, too long or made up; a disk that is full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_studies import ABOUT, SCORES, WORDS, Served, page_study, problems_on, served

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MOST = 64 * 1024


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Served]:
    with served(page_study(tmp_path / "study")) as it:
        it.begin(it.links[0])
        yield it


def chosen(html: str) -> dict[str, str]:
    return dict(re.findall(r'name="([\w-]+)" value="([^"]*)" checked', html))


@pytest.mark.parametrize(
    ("left_out", "problem"),
    [
        ("choice", WORDS["choice_missing"]),
        ("relevance_b", "Relevance of answer B: choose 1 to 5"),
        ("helpfulness_a", "Helpfulness of answer A: choose 1 to 5"),
    ],
)
@pytest.mark.parametrize("instead", [None, "", "0", "6", "first", "3 ", "３", "<script>"])
def test_a_missing_or_wrong_field_is_named_and_the_rest_is_kept(pages, left_out, problem, instead):
    path = f"{pages.links[0]}/items/1"
    form = {"choice": "b", **SCORES, "since": "1"} | {left_out: instead}
    form = {name: value for name, value in form.items() if value is not None}
    reply = pages.client.post(path, data=form)
    assert reply.status_code == 422
    assert problems_on(reply.text) == [problem]
    assert f'<li><a href="#{left_out}">' in reply.text
    described = re.search(rf'<fieldset id="{left_out}" aria-describedby="([\w-]+)">', reply.text)
    assert described is not None
    assert f'id="{described[1]}">{problem}<' in reply.text
    assert chosen(reply.text) == {k: v for k, v in form.items() if k not in (left_out, "since")}
    assert 'name="since" value="1"' in reply.text
    assert reply.text.count("<title>Error: ") == 1
    assert pages.store.answers() == []


@pytest.mark.parametrize("body", ["", "trait-0=x&trait-1=Never", "trait-0=18+to+29&choice=a"])
def test_the_questionnaire_takes_its_options_alone(pages, body):
    path = f"{pages.links[1]}/about"
    pages.post(f"{pages.links[1]}/consent")
    reply = pages.client.post(path, content=body, headers=FORM)
    assert reply.status_code == 422 and problems_on(reply.text)
    kept = {"trait-1": "Never"} if "Never" in body else {"trait-0": "18 to 29"} if body else {}
    assert chosen(reply.text) == kept
    assert pages.post(path, ABOUT) == f"{pages.links[1]}/practice/1"
    assert chosen(pages.client.get(path).text) == ABOUT


@pytest.mark.parametrize("extra", ["gold=1", "choice=b", "relevance_a=3", "a" * 200 + "=1"])
@pytest.mark.parametrize("path", ["items/1", "practice/1", "about", "consent", "stop"])
def test_a_foreign_or_doubled_field_is_refused(pages, path, extra):
    doubled = path.startswith(("items", "practice"))
    body = urlencode({"choice": "a", **SCORES} if doubled else ABOUT if path == "about" else {})
    reply = pages.client.post(
        f"{pages.links[0]}/{path}", content=f"{body}&{extra}", headers=FORM
    )  # fmt: skip
    assert reply.status_code == 422
    assert WORDS["field_unknown"] in problems_on(reply.text)
    assert pages.store.answers() == [] and pages.client.get(pages.links[0]).status_code == 303


def chunks(n: int) -> Iterator[bytes]:
    yield b"choice="
    for _ in range(n // 1024):
        yield b"x" * 1024


@pytest.mark.parametrize("path", ["items/1", "practice/1", "about", "consent", "stop"])
def test_a_long_body_is_refused_declared_or_in_chunks(pages, path):
    address = f"{pages.links[0]}/{path}"
    for content in (b"choice=" + b"x" * MOST, chunks(MOST)):
        reply = pages.client.post(address, content=content, headers=FORM)
        assert reply.status_code == 413
        assert WORDS["long_title"] in reply.text and "xxxx" not in reply.text
        assert reply.headers["Cache-Control"] == "no-store"
    assert pages.client.post(address, content=chunks(MOST - 2048), headers=FORM).status_code == 422


def test_files_json_and_a_thousand_fields_are_refused(pages):
    address = f"{pages.links[0]}/items/1"
    files = pages.client.post(address, data={"choice": "a"}, files={"x": ("x.txt", b"secret")})
    assert files.status_code == 415
    assert pages.client.post(address, json={"choice": "a", **SCORES}).status_code == 415
    many = "&".join(f"f{n}=1" for n in range(1000))
    reply = pages.client.post(address, content=many, headers=FORM)
    assert reply.status_code == 422 and "<h1>" in reply.text
    assert pages.store.answers() == []


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    study = page_study(tmp_path_factory.mktemp("fuzz") / "study", raters=1)
    with served(study, arrive="id") as it:
        it.begin(it.links[0])
        yield it


NAMES = (
    st.sampled_from(["choice", "relevance_a", "since", "again", "trait-0", "arrival"]) | st.text()
)
VALUES = st.sampled_from(["a", "b", "same", "skip", "1", "5"]) | st.text()
ENCODED = st.lists(st.tuples(NAMES, VALUES), max_size=9).map(
    lambda pairs: "&".join(
        f"{urlencode({name: value}, errors='surrogatepass')}" for name, value in pairs
    ).encode()
)
BODIES = ENCODED | st.binary() | st.binary(max_size=60).map(lambda raw: b"choice=" + raw)
TYPES = st.sampled_from(
    [*FORM.values(), FORM["Content-Type"] + "; charset=utf-16", "multipart/form-data",
     "multipart/form-data; boundary=x", "text/plain", "", "a/b;charset=\xff"]
)  # fmt: skip
PATHS = st.sampled_from(["/items/1", "/items/2", "/practice/1", "/about", "/consent", "/end", ""])


@given(path=PATHS | st.just("/.."), body=BODIES, kind=TYPES)
def test_no_form_makes_an_error_of_the_server(fuzzed, path, body, kind):
    address = "/" if path == "/.." else f"{fuzzed.links[0]}{path}"
    headers = {"Content-Type": kind.encode("latin-1")} if kind else {}
    reply = fuzzed.client.post(address, content=body, headers=headers)
    assert reply.status_code < 500, reply.text
    assert "Content-Security-Policy" in reply.headers or reply.status_code == 303


@given(path=st.text(), query=st.text())
def test_no_address_makes_an_error_of_the_server(fuzzed, path, query):
    link = fuzzed.links[0]
    encoded = quote(path, safe="/", errors="surrogatepass")
    for address in (f"{link}/items/{encoded}", f"/s/{encoded}", f"{link}/{encoded}"):
        reply = fuzzed.client.get(f"{address}?id={quote(query, errors='surrogatepass')}")
        assert reply.status_code < 500, reply.text


def fill_disk(pages: Served) -> int:
    """Let the database grow no more, and return the status of the first answer that fails."""
    db = pages.store.database.connection
    db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
    status = 303
    for n in range(2000):
        form = {"choice": "ab"[n % 2], **SCORES}
        reply = pages.client.post(f"{pages.links[0]}/items/1", data=form)
        status = reply.status_code
        if status != 303:
            assert WORDS["not_saved_title"] in reply.text and WORDS["not_saved"] in reply.text
            assert chosen(reply.text) == form
            return status
    return status


def test_a_full_disk_is_a_page_that_says_not_saved_and_the_server_goes_on(pages, caplog):
    assert fill_disk(pages) == 507
    (before,) = pages.store.answers()
    reply = pages.client.get(f"{pages.links[0]}/items/1")
    assert reply.status_code == 200
    assert chosen(reply.text)["choice"] == ("a" if before.choice == before.left else "b")
    assert "full" in caplog.text and pages.links[0][3:] not in caplog.text
    pages.store.database.connection.execute("PRAGMA max_page_count = 100000")
    assert pages.post(f"{pages.links[0]}/items/1", {"choice": "same", **SCORES})
    (after,) = pages.store.answers()
    assert after.choice == "same" and after.changed == before.changed + 1
