"""The papers lead where they say: links, paths in the tree, and the names of what is to be found there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "services")

FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


# -- links ------------------------------------------------------------------------------------------------------------
def pages(root: Path) -> list[Path]:
    """Every page of the repository; what tools keep in hidden folders is not ours."""
    found = (path.relative_to(root) for path in root.rglob("*.md"))
    return sorted(path for path in found if not any(part.startswith(".") for part in path.parts))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: small letters, dashes, a number where one comes again."""
    seen: dict[str, int] = {}
    made = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = seen.get(anchor, 0)
        seen[anchor] = again + 1
        made.add(f"{anchor}-{again}" if again else anchor)
    return made


def targets(text: str) -> Iterator[str]:
    """Where the links of a page lead; links inside code are examples."""
    prose = CODE.sub("code", FENCE.sub("", text))
    yield from LINK.findall(prose)
    yield from REFERENCE.findall(prose)


def dead_links(root: Path) -> list[str]:
    """Every relative link that leads to no file, out of the repository, or to no heading."""
    dead = []
    for page in pages(root):
        for target in targets((root / page).read_text(encoding="utf-8")):
            if not ELSEWHERE.match(target) and not _leads(root, page, target):
                dead.append(f"{page}: {target}")
    return dead


def _leads(root: Path, page: Path, target: str) -> bool:
    path, _, anchor = unquote(target).partition("#")
    if path.startswith("/"):
        return False
    file = Path(*_steps(root / page.parent, path)) if path else root / page
    if root not in (file, *file.parents) or not file.exists():
        return False
    if not anchor:
        return True
    return file.suffix == ".md" and anchor in anchors(file.read_text(encoding="utf-8"))


def _steps(start: Path, path: str) -> list[str]:
    """A path with its `..` gone up, without following links of the file system."""
    steps = list(start.parts)
    for part in Path(path).parts:
        if part == "..":
            steps.pop()
        else:
            steps.append(part)
    return steps


def test_every_link_leads_somewhere():
    assert len(pages(ROOT)) > 40
    assert dead_links(ROOT) == []


# -- paths and names --------------------------------------------------------------------------------------------------
# A path in backticks is written from the repository's root, from `shared/` or `services/`, or from inside a package
# (`data/places.py`: of some package). It is one if a slash lies between two words, and it ends with `.py` or a slash or
# begins with a folder of the root. A module alone (`plr.py`) is somewhere in the tree. Backticked names that follow a
# file, with nothing but spaces and commas between, are defined in it: `data/service.py` `Vault.rows`.
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")
MODULE = re.compile(r"\w+\.py")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
FOLDERS = ("shared", "services", "tests", "docs", "deploy", "requirements")
READERS_OWN = ("deploy/compose/trust/ca.pem",)
"""What a reader puts into the tree."""


def is_path(text: str) -> bool:
    """Whether a text in backticks is a path of the tree."""
    if not PATH.fullmatch(text) or text in READERS_OWN:
        return False
    return text.endswith((".py", "/")) or text.partition("/")[0] in FOLDERS


def places_of(root: Path, path: str) -> list[Path]:
    """Where a path, written in full or in short, is found."""
    starts = [root, *(root / folder for folder in PACKAGES)]
    starts += [package for folder in PACKAGES for package in (root / folder).iterdir() if package.is_dir()]
    found = [start / path for start in starts]
    return [file for file in found if (file.is_dir() if path.endswith("/") else file.exists())]


@cache
def modules(root: Path) -> dict[str, list[Path]]:
    """Every module of the tree, by its name."""
    found: dict[str, list[Path]] = {}
    for folder in (*PACKAGES, "tests"):
        for file in (root / folder).resolve().rglob("*.py"):
            found.setdefault(file.name, []).append(file)
    return found


def defines(file: Path, name: str) -> bool:
    """Whether a module defines a name: the last part of a dotted one."""
    last = re.escape(name.rpartition(".")[2])
    return bool(re.search(rf"^\s*(?:(?:async )?def|class) {last}\b|^{last}\b.*=", file.read_text(), re.MULTILINE))


def wrong_paths(root: Path, page: str) -> list[str]:
    """Every path of a page that is not in the tree, and every name that is not where the page says."""
    text = FENCE.sub("", (root / page).read_text(encoding="utf-8"))
    wrong, named, end = [], [], 0
    for span in SPAN.finditer(text):
        said = span[1]
        if MODULE.fullmatch(said):
            named = modules(root).get(said, [])
            if not named:
                wrong.append(f"{page}: {said}")
        elif is_path(said):
            found = places_of(root, said)
            named = [file for file in found if file.suffix == ".py"]
            if not found:
                wrong.append(f"{page}: {said}")
        elif text[end : span.start()].strip(" ,") or not NAME.fullmatch(said):
            named = []  # prose or an arrow lies between: the name is not said of the path
        elif named and not any(defines(file, said) for file in named):
            wrong.append(f"{page}: {said} in {named[0].name}")
        end = span.end()
    return wrong


SPEAKING = [str(page) for page in pages(ROOT) if page.parts[0] in ("docs", "README.md", "CONTRIBUTING.md")]


@pytest.mark.parametrize("page", SPEAKING)
def test_every_path_of_a_page_is_in_the_tree(page):
    assert wrong_paths(ROOT, page) == []


def test_the_architecture_names_many_paths_and_what_is_in_them():
    """Were the rule to overlook them, the test above would show nothing."""
    spans = SPAN.findall((ROOT / "docs" / "architecture.md").read_text())
    assert sum(map(is_path, spans)) > 80
    assert is_path("data/places.py")
    assert is_path("crossward/methods/")
    assert not any(map(is_path, ("POST /v1/tasks/{task}/result", "/result", "level0/1", "routes.py", "pst-h")))


CLASS_LINK = re.compile(r"\[`([A-Z]\w+)`\]\(([^)]+\.py)\)")


def missing_classes(root: Path, page: str) -> list[str]:
    """Every class that a page links to a module which does not define it."""
    text, home = (root / page).read_text(encoding="utf-8"), (root / page).parent
    links = [(name, Path(*_steps(home, target))) for name, target in CLASS_LINK.findall(text)]
    return [f"{page}: {name}" for name, file in links if not file.is_file() or not defines(file, name)]


def test_the_table_of_proofs_names_classes_that_are_there():
    page = "docs/proofs/README.md"
    assert len(CLASS_LINK.findall((ROOT / page).read_text())) > 8
    assert missing_classes(ROOT, page) == []


def test_every_proof_and_every_decision_is_in_its_list():
    for folder in ("proofs", "adr"):
        home = ROOT / "docs" / folder
        listed = set(targets((home / "README.md").read_text()))
        assert {file.name for file in home.glob("*.md")} - {"README.md"} - listed == set()


def test_a_replaced_decision_says_so_itself():
    """What the list of decisions calls replaced, the page says in its first lines, and names the page that did it."""
    home = ROOT / "docs" / "adr"
    rows = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \|.*\| (.*?) ?\|$", (home / "README.md").read_text(), re.MULTILINE)
    assert len(rows) == len(list(home.glob("0*.md")))
    for number, page, note in rows:
        start = "\n".join((home / page).read_text().splitlines()[:4])
        assert start.startswith(f"# {number}: "), page
        assert set(re.findall(r"\b0\d{3}\b", note)) <= set(re.findall(r"\((0\d{3})-", start)), page
        assert ("eplaced by" in start) == ("replaced by" in note), page


# -- can it fail? -----------------------------------------------------------------------------------------------------
@pytest.fixture
def copy(tmp_path):
    """The pages in a folder of their own, beside the real tree."""
    for page in pages(ROOT):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    for name in (*PACKAGES, "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    for folder in ("docs", "tests", "requirements"):
        for path in sorted((ROOT / folder).iterdir()):
            if not (tmp_path / folder / path.name).exists():
                (tmp_path / folder / path.name).symlink_to(path)
    return tmp_path


def plant(copy: Path, page: str, text: str) -> None:
    with (copy / page).open("a") as file:
        file.write(f"\n{text}\n")


def test_the_copy_is_as_sound_as_the_original(copy):
    assert dead_links(copy) == []
    assert wrong_paths(copy, "docs/architecture.md") == []


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[nowhere](no-such-page.md)", ["no-such-page.md"]),
        ("[`nowhere`](adr/no-such-page.md)", ["adr/no-such-page.md"]),
        ("![no picture](pictures/no-such.svg)", ["pictures/no-such.svg"]),
        ("[no heading](architecture.md#no-such-heading)", ["architecture.md#no-such-heading"]),
        ("[no heading here](#no-such-heading)", ["#no-such-heading"]),
        ("[outside](../../elsewhere.md)", ["../../elsewhere.md"]),
        ("[a root of its own](/docs/glossary.md)", ["/docs/glossary.md"]),
        ("[later]\n\n[later]: no-such-page.md", ["no-such-page.md"]),
        ("[good](architecture.md#add-a-method), [web](https://example.org/none), `[code](none.md)`", []),
        ("```\n[in a fence](none.md)\n```", []),
    ],
)
def test_a_wrong_link_is_found(copy, text, dead):
    plant(copy, "docs/glossary.md", text)
    assert dead_links(copy) == [f"docs/glossary.md: {target}" for target in dead]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("| a step | `data/no_such_module.py` |", "data/no_such_module.py"),
        ("| a step | `crossward_site/data/cells.py` |", "crossward_site/data/cells.py"),
        ("| a step | `learning/stacking/` |", "learning/stacking/"),
        ("| a step | `shared/no_such_package` |", "shared/no_such_package"),
        ("| a step | `plr_fs.py` |", "plr_fs.py"),
        ("| a step | `data/service.py` `Vault.no_such` |", "Vault.no_such in service.py"),
        ("| a step | `methods/works.py` `FitAll`, `NoSuch` |", "NoSuch in works.py"),
    ],
)
def test_a_wrong_path_is_found(copy, text, wrong):
    plant(copy, "docs/architecture.md", text)
    assert wrong_paths(copy, "docs/architecture.md") == [f"docs/architecture.md: {wrong}"]


def test_a_class_that_is_not_there_is_found(copy):
    plant(copy, "docs/proofs/README.md", "[`NoSuchRelease`](../../shared/crossward/privacy/mechanisms.py)")
    assert missing_classes(copy, "docs/proofs/README.md") == ["docs/proofs/README.md: NoSuchRelease"]
