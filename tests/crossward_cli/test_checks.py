"""A data check as people see it: the gravest first, by column, with lines, causes and fixes."""

from crossward_cli.checks import print_check


def problem(severity: str, column: str | None, cause: str, **more: object) -> dict[str, object]:
    return {"severity": severity, "column": column, "feature": None, "line": None, "lines": [], "count": 1} | {
        "cause": cause,
        "fix": f"Mend {column}.",
        **more,
    }


REPORT = {
    "where": "exports/[2026].csv",
    "study": "first-study",
    "rows": 12000,
    "persons": 11000,
    "positives": 900,
    "ready": False,
    "problems": [
        problem("note", None, "A byte order mark."),
        problem("warning", "BMI", "Clipped.", feature="bmi"),
        problem(
            "error", "GLU", "Looks like mg/dL.", feature="glucose", lines=[f"line {n}" for n in range(2, 12)], count=99
        ),
        problem("warning", "GLU", "Words [NA] not listed."),
    ],
    "columns": [],
    "fit": {"glucose": {"column": "GLU", "missing": 3, "unread": 4, "clipped": 5, "recoded": 6}},
    "suggestion": "# TODO recode\nperson: id\n",
}


def test_the_gravest_comes_first_and_nothing_is_read_as_markup(capsys) -> None:
    print_check(REPORT)
    out = capsys.readouterr().out
    assert "exports/[2026].csv: 12,000 rows of 11,000 persons for the study first-study." in out.replace("\n", " ")
    places = [out.index(text) for text in ("GLU (glucose)", "mg/dL", "[NA]", "BMI (bmi)", "The table", "Not ready")]
    assert places == sorted(places)
    assert "line 6 and 94 more" in out.replace("\n", " ")
    assert "fix Mend GLU." in out
    assert "# TODO recode" in out
    assert "1 error, 2 warnings, 1 note" in out


def test_a_good_table_is_said_in_two_lines(capsys) -> None:
    print_check(REPORT | {"ready": True, "problems": [], "fit": {}})
    out = capsys.readouterr().out
    assert "Ready to open: nothing to mend." in out
    assert "TODO" not in out
