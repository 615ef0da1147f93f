import pytest

from crossward.errors import StudyInvalid
from crossward.study.document import Document, dotted


def refused(text):
    with pytest.raises(StudyInvalid) as caught:
        Document.read(text)
    return caught.value.problems[0]


def test_values_and_their_lines():
    document = Document.read("a: 1\nb:\n  - x\n  - {c: true}\n")
    assert document.data == {"a": 1, "b": ["x", {"c": True}]}
    assert [document.line(path) for path in (("a",), ("b",), ("b", 1), ("b", 1, "c"))] == [1, 2, 4, 4]


def test_the_line_of_something_missing_is_that_of_what_should_hold_it():
    assert Document.read("a:\n  b: 1\n").line(("a", "missing", "deeper")) == 1


def test_a_key_given_twice():
    document = Document.read("a: 1\nb: 2\na: 3\n")
    (problem,) = document.problems
    assert (problem.line, problem.field) == (3, "a")
    assert "twice" in problem.cause
    assert "line 1" in problem.cause


def test_exponents_without_a_point_are_numbers():
    assert Document.read("[1e-6, 2E3, 1.5e2, '1e-6']").data == [1e-6, 2000.0, 150.0, "1e-6"]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML"),
        ("a: &x 1\nb: *x\n", 1, "anchor"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "tag"),
        ("a: \x07\n", None, "not YAML"),
        ("a: " + "[" * 100_000, 1, "deep"),
        ("a" * 1_000_001, None, "characters"),
    ],
)
def test_what_is_refused_outright(text, line, word):
    problem = refused(text)
    assert problem.line == line
    assert word in problem.cause
    assert problem.fix


def test_a_date_that_is_none():
    (problem,) = Document.read("a: 1\nb: 2026-99-99\n").problems
    assert (problem.line, problem.field) == (2, "b")


def test_keys_are_words():
    (problem,) = Document.read("a: 1\n? [x, y]\n: 2\n").problems
    assert "key" in problem.cause


def test_dotted():
    assert dotted(("features", 3, "low")) == "features[3].low"
