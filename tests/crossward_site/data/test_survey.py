"""`data check`: every problem of a messy table at once, with its line; nothing of a good one; and no value at all."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.study import Study, study_for
from crossward_connector.csv_files import CsvOptions, read_csv_bytes
from crossward_connector.tables import Fault, Form
from crossward_site.data.check_views import CheckReport, Problem
from crossward_site.data.mapping import DataMap
from crossward_site.data.survey import survey

SCHEMA = Schema(
    (
        Number("glucose", 3.5, 7.5, "mmol/L", default=5.5),
        Number("crp", 0, 50, "mg/L", default=2),
        Number("bmi", 16, 34, "kg/m2"),
        Category("smoker", ("never", "former", "current"), default="never"),
        Flag("family", default=False),
    )
)
STUDY = study_for(SCHEMA, label={"name": "ill", "positive": "yes", "negative": "no"})


class Given:
    """A table that is there already, in batches of a few rows."""

    def __init__(self, table: pa.Table, rows: int = 7, faults: tuple[Fault, ...] = (), kind: str = "parquet") -> None:
        self.where, self.form, self.faults, self.progress = (
            "here",
            Form(kind, tuple(table.schema.names)),
            list(faults),
            0.0,
        )
        self._table, self._rows = table, rows

    def batches(self) -> Any:
        yield from self._table.to_batches(max_chunksize=self._rows)

    def line(self, row: int) -> str:
        return f"row {row + 1}"


def told(report: CheckReport, column: str | None, words: str) -> Problem:
    """The one problem of a column whose cause has these words."""
    fitting = [problem for problem in report.problems if problem.column == column and words in problem.cause]
    assert len(fitting) == 1, (words, [(problem.column, problem.cause) for problem in report.problems])
    return fitting[0]


MESSY = """\ufeffPatient;Fall;Glukose;crp;BMI;raucht;family;ill;Geburtsdatum;note
P1;1;90,5;<0,3;22,5;never;ja;yes;01.02.1960;x
P2;2;126,0;2,5;NA;Former;no;no;03.04.1961;x
P2;3;99,1;1,5;31,0;pipe;no;no;03.04.1961;x
P4;4;101,4;12.03.2020;24,5;never;yes;;05.06.1962;x
 P5;4;88,0;3,0;26,1;never ;no;no;07.08.1963;x
;6;93,2;4.5;27,3;cigar;yes;yes;09.10.1964;x
1,23E+05;7;110,7;5,1 mg/L;999;current;no;perhaps;11.12.1965;x
P8;8;95,3;>200;-9;never;no;no;13.01.1966;x
P9;9;120,9;7,5;999;unknown;maybe;yes;14.02.1967;x
P9;10;120,9;7,5;-9;n/a;no;yes;14.02.1967;x
P11;11;104,2;12 %;21,0;never;no;no;15.03.1968;x
P12;12;97,6;1.234,5;20,4;former;no;no;16.04.1969;x
"""
MAPPING = {
    "person": "Patient",
    "record": "Fall",
    "features": {"glucose": "Glukose", "bmi": "bmi", "smoker": "raucht"},
}


def messy(study: Study | None = STUDY, **mapping: Any) -> CheckReport:
    table = read_csv_bytes(MESSY.encode(), lenient=True)
    return survey(table, DataMap.from_data(MAPPING | mapping), study)


def test_a_messy_file_is_told_all_at_once_with_lines() -> None:
    report = messy(features=MAPPING["features"] | {"bmi": "BMI"})
    assert (report.rows, report.persons, report.ready) == (12, 9, False)
    told(report, None, "byte order mark")
    told(report, None, "decimal comma")
    unit = told(report, "Glukose", "looks like mg/dL")
    assert (unit.severity, unit.feature, unit.line, unit.count) == ("error", "glucose", "line 2", 12)
    assert told(report, "crp", "below or above").lines == ("line 2", "line 9")
    assert told(report, "crp", "Dates").line == "line 5"
    assert told(report, "crp", "point where").line == "line 7"
    assert told(report, "crp", "inside the cell").line == "line 8"
    assert told(report, "crp", "percent").line == "line 12"
    assert told(report, "crp", "thousands").line == "line 13"
    assert told(report, "BMI", "Words for missing").line == "line 3"
    assert told(report, "BMI", "999 stands").lines == ("line 8", "line 10")
    assert told(report, "BMI", "-9 stands").lines == ("line 9", "line 11")
    assert told(report, "raucht", "case or blanks").lines == ("line 3", "line 6")
    unknown = told(report, "raucht", "unknown values")
    assert (unknown.lines, unknown.cause) == (("line 4", "line 7"), "2 unknown values (aaaa).")
    assert told(report, "raucht", "Words for missing").lines == ("line 10", "line 11")
    assert told(report, "family", "1 unknown value").line == "line 10"
    assert told(report, "family", "Yes and no in other words").line == "line 2"
    assert told(report, "ill", "label is missing").line == "line 5"
    assert (told(report, "ill", "1 unknown value").line, told(report, "ill", "unknown").severity) == ("line 8", "error")
    assert told(report, "Patient", "without their person").line == "line 7"
    assert told(report, "Patient", "scientific").line == "line 8"
    assert told(report, "Patient", "blanks before").line == "line 6"
    several = told(report, "Patient", "2 people have several")
    assert (several.lines, several.count) == (("line 4", "line 11"), 2)
    assert told(report, "Fall", "1 record id stands").line == "line 6"
    assert told(report, "Geburtsdatum", "identifies people").severity == "note"
    assert told(report, "note", "All values are the same").severity == "note"
    kinds = {column.name: column.kind for column in report.columns}
    assert kinds["Geburtsdatum"] == "date"
    assert (kinds["Patient"], kinds["Glukose"], kinds["raucht"], kinds["note"]) == ("id", "number", "text", "text")
    assert report.fit["bmi"].missing == 0
    assert report.fit["crp"].unread == 7
    severities = [problem.severity for problem in report.problems]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)


def test_no_value_is_told() -> None:
    text = messy().model_dump_json() + messy(None).model_dump_json()
    for value in ("pipe", "cigar", "perhaps", "126", "90,5", "90.5", "1961", "P2", "12.03.2020", "<0,3", "maybe"):
        assert value not in text, value


def test_the_suggestion_is_a_mapping_that_mends() -> None:
    report = messy()
    missing = told(report, "bmi", "There is no column 'bmi'")
    assert missing.fix.startswith("Is it 'BMI'?")
    proposed = DataMap.from_data(yaml.safe_load(report.suggestion))
    assert proposed.features["bmi"].column == "BMI"
    assert set(proposed.missing) == {"unknown", "n/a", "NA"}
    assert "# TODO features.smoker.recode: {your value (aaaa): never | former | current | null}" in report.suggestion
    assert proposed.features["smoker"].recode == {"Former": "former", "never": "never"}
    assert proposed.features["family"].recode == {"ja": "yes"}
    assert (proposed.features["glucose"].unit, proposed.features["glucose"].substance) == ("mg/dL", "glucose")
    again = survey(read_csv_bytes(MESSY.encode(), lenient=True), proposed, STUDY)
    assert yaml.safe_load(again.suggestion)["features"]["bmi"]["recode"] == {"-9": None, "999": None}
    third = DataMap.from_data(yaml.safe_load(again.suggestion))
    last = survey(read_csv_bytes(MESSY.encode(), lenient=True), third, STUDY)
    assert (last.fit["bmi"].missing, last.fit["bmi"].unread) == (5, 0)


def test_yes_and_no_in_the_hospitals_language_are_mended() -> None:
    table = good() | {"family": ["Ja", "nein"] * 100, "ill": ["J", "N", "n", "j"] * 50}
    report = check(table)
    assert told(report, "family", "Yes and no in other words").severity == "error"
    assert told(report, "ill", "Yes and no in other words").count == 200
    proposed = DataMap.from_data(yaml.safe_load(report.suggestion))
    mended = survey(Given(pa.table(table)), proposed, STUDY)
    assert (mended.problems, mended.positives, mended.fit["family"].unread) == ([], 100, 0)
    assert "unknown" in told(check(good() | {"smoker": ["ja"] * 200}), "smoker", "1 unknown").cause  # no flag


def test_a_column_that_is_read_already_is_never_proposed() -> None:
    """Glucose after two hours is not glucose before it."""
    features = (Number("Glu0", 3, 8, "mmol/L"), Number("Glu120", 3, 12, "mmol/L"))
    study = study_for(Schema(features), label={"name": "ill", "positive": "yes", "negative": "no"})
    rest = {"id": ["a", "b"], "Glu120": [5.0, 6.0], "Nüchtern": [4.0, 5.0], "ill": ["yes", "no"]}
    report = survey(Given(pa.table(rest)), DataMap(person="id"), study)
    assert told(report, "Glu0", "no column").fix == (
        "Map the feature Glu0 to a column that is there (nothing is read from 'Nüchtern')."
    )
    assert yaml.safe_load(report.suggestion) == {"person": "id"}
    both = DataMap.from_data({"person": "id", "features": {"Glu0": "Glu120"}})
    report = survey(Given(pa.table(rest)), both, study)
    assert told(report, "Glu120", "several things: Glu0, Glu120").severity == "warning"


def test_the_substance_is_proposed_where_the_name_tells_it_and_never_by_the_numbers_alone() -> None:
    draw = np.random.default_rng(5)
    study = study_for(
        Schema((Number("Glu0", 3.5, 7.5, "mmol/L"), Number("marker", 0.6, 2.2, "mmol/L"))),
        label={"name": "ill", "positive": "yes", "negative": "no"},
    )
    table = good() | {"Glu0": draw.uniform(4, 6.8, 200) * 18.016, "marker": draw.uniform(0.7, 2.1, 200) * 38.67}
    report = survey(Given(pa.table(table)), DataMap(person="id"), study)
    proposed = yaml.safe_load(report.suggestion)["features"]
    assert proposed == {"Glu0": {"column": "Glu0", "unit": "mg/dL", "substance": "glucose"}}
    assert "# TODO features.marker: add unit: mg/dL and substance: one of cholesterol" in report.suggestion


def test_a_number_among_others_like_it_is_no_code() -> None:
    ages = [*good()["bmi"][:190], 99.0, 99.0, 97.0, 98.0, 98.5, 101.0, 96.0, 95.0, -9.0, -9.0]
    report = check(good() | {"bmi": ages})
    told(report, "bmi", "-9 stands")
    assert not [problem for problem in report.problems if problem.cause.startswith("99 stands")]


def test_decimal_commas_where_the_file_is_said_to_have_points() -> None:
    table = read_csv_bytes(b"id;glucose\n1;5,5\n2;6,25\n3;\n", options=CsvOptions(decimal="."), lenient=True)
    study = study_for(Schema(SCHEMA.features[:1]), method="direct", sources=())
    report = survey(table, DataMap(person="id"), study)
    assert told(report, "glucose", "decimal comma (9,9").lines == ("line 2", "line 3")
    assert "# TODO glucose: its numbers have a decimal comma; if all do, say --decimal ," in report.suggestion
    table = read_csv_bytes(b"id;glucose\n1;1,234\n2;5\n", options=CsvOptions(decimal="."), lenient=True)
    assert told(survey(table, DataMap(person="id"), study), "glucose", "thousands").line == "line 2"


def of_unit(
    name: str, low: float, high: float, unit: str, values: Any, mapped: dict[str, str] | None = None
) -> tuple[CheckReport, dict[str, Any], Problem]:
    """What is told of one column, and what is suggested for it."""
    label = {"name": "ill", "positive": "yes", "negative": "no"}
    study = study_for(Schema((Number(name, low, high, unit), *SCHEMA.features[1:3])), label=label)
    mapping = {"person": "id", "features": {name: {"column": name} | mapped} if mapped else {}}
    table = pa.table(good() | {name: values})
    report = survey(Given(table), DataMap.from_data(mapping), study)
    [problem] = [problem for problem in report.problems if problem.column == name]
    return report, yaml.safe_load(report.suggestion).get("features", {}).get(name, {}), problem


@pytest.mark.parametrize(
    ("name", "low", "high", "unit", "factor", "suggested"),
    [
        ("urate", 150, 500, "umol/L", 1 / 59.48, {"unit": "mg/dL", "substance": "uric acid"}),
        ("LDL", 1.2, 4.8, "mmol/L", 38.67, {"unit": "mg/dL", "substance": "cholesterol"}),
        ("Glu0", 3.5, 7.5, "mmol/L", 18.016, {"unit": "mg/dL", "substance": "glucose"}),
        ("marker", 3.5, 7.5, "mmol/L", 18.016, None),  # its name says nothing: the numbers alone do not
        ("BUN", 2.5, 8, "mmol/L", 6.006, None),
        ("sbp", 90, 170, "mmHg", 0.1, {"unit": "cmHg"}),
        ("sbp", 90, 170, "mmHg", 1 / 7.5, {"unit": "kPa"}),
    ],
)
def test_a_unit_is_suggested_that_the_name_does_not_contradict(name, low, high, unit, factor, suggested) -> None:
    values = np.random.default_rng(1).uniform(low + (high - low) * 0.3, high - (high - low) * 0.3, 200) * factor
    report, entry, problem = of_unit(name, low, high, unit, values)
    assert problem.severity == "error"
    assert {key: value for key, value in entry.items() if key != "column"} == (suggested or {})
    if name == "marker":
        assert "# TODO features.marker: add unit: mg/dL and substance: one of" in report.suggestion


def test_a_unit_that_stands_in_the_mapping_is_not_suggested_again() -> None:
    values = np.random.default_rng(1).uniform(6, 12, 200)  # in mg/L
    _, entry, problem = of_unit("creatinine", 40, 120, "umol/L", values, {"unit": "mg/dL", "substance": "creatinine"})
    assert problem.severity == "error"
    assert problem.fix == "Neither mg/dL, which the mapping says, nor umol/L fits: ask in which unit the column is."
    assert entry["unit"] == "mg/dL"


def test_the_substance_that_the_mapping_says_is_kept_where_the_name_says_nothing() -> None:
    values = np.random.default_rng(1).uniform(0.5, 1.0, 200)
    _, entry, _ = of_unit("marker", 40, 90, "umol/L", values, {"unit": "mmol/L", "substance": "creatinine"})
    assert entry == {"column": "marker", "unit": "mg/dL", "substance": "creatinine"}


def test_a_substance_that_the_name_contradicts_is_mended() -> None:
    values = np.random.default_rng(1).uniform(2.0, 4.0, 200) * 38.67
    _, entry, problem = of_unit("LDL", 1.2, 4.8, "mmol/L", values, {"unit": "mg/dL", "substance": "urea"})
    assert "`substance: cholesterol`" in problem.fix
    assert entry == {"column": "LDL", "unit": "mg/dL", "substance": "cholesterol"}


def good(rows: int = 200) -> dict[str, Any]:
    draw = np.random.default_rng(3)
    return {
        "id": [f"p{row}" for row in range(rows)],
        "glucose": draw.uniform(3.6, 7.4, rows),
        "crp": draw.uniform(0, 40, rows),
        "bmi": draw.uniform(17, 33, rows),
        "smoker": draw.choice(["never", "former", "current"], rows),
        "family": draw.random(rows) < 0.5,
        "ill": np.where(draw.random(rows) < 0.5, "yes", "no"),
    }


def check(table: dict[str, Any], study: Study | None = STUDY, **settings: Any) -> CheckReport:
    return survey(Given(pa.table(table)), DataMap(person="id"), study, **settings)


@pytest.mark.parametrize("study", [STUDY, None])
def test_a_good_table_is_ready(study) -> None:
    report = check(good(), study)
    assert report.problems == []
    assert (report.ready, report.rows, report.persons) == (True, 200, 200)
    kinds = {column.name: column.kind for column in report.columns}
    assert kinds["glucose"] == "number"
    assert (kinds["smoker"], kinds["family"], kinds["id"]) == ("text", "yes-no", "id")
    assert yaml.safe_load(report.suggestion) == {"person": "id"}


@pytest.mark.parametrize(
    ("change", "column", "words", "severity"),
    [
        (lambda t: {"glucose": t["glucose"] * 18.016}, "glucose", "looks like mg/dL", "error"),
        (lambda t: {"bmi": t["bmi"] + 12}, "bmi", "would be clipped", "warning"),
        (lambda t: {"crp": np.full(200, 3.0)}, "crp", "All values are the same", "warning"),
        (lambda t: {"family": t["ill"] == "yes"}, "family", "same as the label", "warning"),
        (lambda t: {"outcome2": t["ill"] == "yes"}, "outcome2", "same as the label", "note"),
        (lambda t: {"bmi": [None] * 150 + list(t["bmi"][150:])}, "bmi", "Missing in 75%", "warning"),
        (lambda t: {"crp": [None] * 150 + list(t["crp"][150:])}, "crp", "Missing in 75%", "warning"),
        (lambda t: {"crp": pa.nulls(200)}, "crp", "Every value is missing", "error"),
        (lambda t: {"ill": ["yes"] * 200}, "ill", "All labels are positive", "error"),
        (lambda t: {"ill": ["sick"] * 200}, "ill", "No label can be read", "error"),
        (lambda t: {"id": np.arange(200.0)}, "id", "floating point", "warning"),
        (lambda t: {"id": np.arange(200.0) * 2**50}, "id", "last digits", "error"),
        (lambda t: {"id": [None, *t["id"][1:]]}, "id", "without their person", "error"),
        (lambda t: {"last_name": t["id"]}, "last_name", "identifies people", "note"),
        (
            lambda t: {"crp": [126.0, *t["crp"][1:]], "glucose": [126.0, *t["glucose"][1:]]},
            "glucose",
            "Single",
            "warning",
        ),
        (lambda t: {"crp": pa.array([[1]] * 200)}, "crp", "Texts where numbers", "error"),
    ],
)
def test_one_thing_wrong(change, column, words, severity) -> None:
    table = good()
    problem = told(check(table | change(table)), column, words)
    assert problem.severity == severity


def test_columns_that_are_not_there_and_units_that_do_not_fit() -> None:
    table = {name: values for name, values in good().items() if name not in ("bmi", "ill")}
    mapping = DataMap.from_data({"person": "ID ", "features": {"crp": {"column": "crp", "unit": "mmHg"}}})
    report = survey(Given(pa.table(table)), mapping, STUDY)
    assert {problem.cause.partition(",")[0] for problem in report.problems if problem.severity == "error"} >= {
        "There is no column 'bmi'",
        "There is no column 'ill'",
        "There is no column 'ID'",
        "'crp' comes in 'mmHg'",
    }
    assert yaml.safe_load(report.suggestion)["person"] == "id"


def test_faults_of_the_form_and_a_file_without_records() -> None:
    fault = Fault("The header has 3 columns, this record 4.", "Mend it.", 7)
    report = survey(Given(pa.table(good()), faults=(fault,), kind="csv"), DataMap(person="id"), STUDY)
    assert told(report, None, "this record 4").line == "line 7"
    empty = survey(Given(pa.table(good()).slice(0, 0)), DataMap(person="id"), STUDY)
    assert told(empty, None, "no records").severity == "error"
    one = survey(Given(pa.table({"id;glucose;ill": ["1;2;3"]}), kind="csv"), DataMap(person="id"), STUDY)
    told(one, None, "All cells are in one column")


def test_faults_of_one_kind_are_one_problem_with_all_their_lines() -> None:
    faults = [Fault("The header has 3 columns, this record 4.", "Mend it.", line) for line in range(2, 30)]
    report = survey(Given(pa.table(good()), faults=tuple(faults), kind="csv"), DataMap(person="id"), STUDY)
    problem = told(report, None, "this record 4")
    assert (problem.count, problem.lines[:2], len(problem.lines)) == (28, ("line 2", "line 3"), 10)
    nothing = survey(read_csv_bytes(b"id,crp,ill\n", lenient=True), DataMap(person="id"), None)
    assert [problem.cause for problem in nothing.problems] == ["There are columns and no records."]


def test_a_total_below_the_table_is_one_problem() -> None:
    table = {name: [*list(values), None] for name, values in good().items()}
    for word, cause in (("Total", "sums up the others"), ("p-1", "next to no features")):
        report = check(table | {"id": [*good()["id"], word], "crp": [*good()["crp"], 40.0]})
        [problem] = [problem for problem in report.problems if problem.cause != "The label is missing."]
        assert cause in problem.cause
        assert problem.lines == ("row 201",)
        assert word != "Total" or report.problems == [problem]


@pytest.mark.parametrize("word", ["Summe", " Gesamt: ", "MITTELWERT"])
def test_a_line_of_totals_that_fills_all_cells_is_one_error(word) -> None:
    table = {name: [*[str(value) for value in values], "5712.3"] for name, values in good().items()}
    report = check(table | {"id": [*good()["id"], word]})
    assert [(p.severity, p.lines) for p in report.problems if "blanks before" not in p.cause] == [
        ("error", ("row 201",))
    ]
    assert "TODO" not in report.suggestion


def test_a_table_that_names_hardly_anybody_is_an_error() -> None:
    report = check(good(1000) | {"id": ["m", "f"] * 500})
    assert told(report, "id", "1,000 rows of 2 persons").severity == "error"
    few = check(good(199) | {"id": ["a"] * 199})
    assert not [problem for problem in few.problems if "is this the column" in problem.cause]


@pytest.mark.parametrize(("outside", "severity"), [(190, "error"), (120, "warning")])
def test_a_column_that_lies_outside_nearly_everywhere_is_an_error(outside, severity) -> None:
    bmi = np.where(np.arange(200) < outside, 43.0, 25.0) + good()["bmi"] / 100
    report = check(good() | {"bmi": bmi})
    assert (told(report, "bmi", "would be clipped").severity, report.ready) == (severity, severity == "warning")


def test_rare_gaps_are_told_once() -> None:
    few = check(good() | {"bmi": [None, *good()["bmi"][1:]]})
    assert [problem.cause for problem in few.problems] == [
        "Missing in less than 1% of the records; they count as nothing, as the study has no default."
    ]


def test_another_table_altogether_is_one_error() -> None:
    report = survey(Given(pa.table({"id": ["1"], "Station": ["x"]})), DataMap(person="id"), STUDY)
    [problem] = [problem for problem in report.problems if problem.severity == "error"]
    assert problem.cause == "None of the 6 columns that the study is read from is there."
    assert "'Station'" in problem.fix


def test_words_for_missing_are_nobodys_ids() -> None:
    report = check(good() | {"id": ["NA", "k.A.", *good()["id"][2:]]})
    assert told(report, "id", "would be one person's").lines == ("row 1", "row 2")


ILL = good(1000)["ill"] == "yes"
DRAWN = np.random.default_rng(9).random(1000)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.where(ILL, "x", None), "filled for hardly anyone but those whose label is positive"),
        (np.where(ILL, "", "x"), "filled for hardly anyone but those whose label is negative"),
        (np.where(ILL & (DRAWN < 0.2), None, [f"a{k}" for k in range(1000)]), "empty for hardly anyone but those"),
        (ILL ^ (DRAWN < 0.005), "nearly the same as the label: in 99."),
        (np.where(ILL, 5.0, 3.0) + DRAWN, "A threshold of this column"),
        (np.where(ILL, 3.0, 5.0) + DRAWN, "A threshold of this column"),
        ([str(value) for value in np.where(ILL, 3.0, 5.0) + DRAWN], "A threshold of this column"),
    ],
)
def test_what_gives_the_label_away_is_told(values, words) -> None:
    report = check(good(1000) | {"other": values})
    assert told(report, "other", words).severity == "note"
    assert len(report.problems) == 1


@pytest.mark.parametrize(
    "values",
    [
        np.where(DRAWN < 0.03, "x", None),
        np.where(DRAWN < 0.5, DRAWN, None),
        ILL ^ (DRAWN < 0.05),
        np.where(ILL, 4.0, 3.0) + 1.01 * DRAWN,
        np.where(ILL, 0.5, 0.0) + DRAWN,
    ],
)
def test_what_only_goes_with_the_label_is_not_told_as_the_label(values) -> None:
    report = check(good(1000) | {"other": pa.array(list(values), from_pandas=True)})
    assert not [problem for problem in report.problems if "label" in problem.cause]


def mapped(section: dict[str, Any], table: dict[str, Any] | None = None) -> CheckReport:
    return survey(Given(pa.table(table or good())), DataMap.from_data({"person": "id"} | section), STUDY)


def test_names_in_the_mapping_that_the_study_has_not_are_told() -> None:
    report = mapped({"features": {"Gluc0": "glucose", "xyz": "bmi"}, "labels": {"sick": "ill"}})
    features, labels = (
        told(report, None, "features that the study has not"),
        told(report, None, "labels that the study"),
    )
    assert (features.severity, features.count) == ("warning", 2)
    assert "'Gluc0', 'xyz'" in features.cause
    assert "'Gluc0' may be 'glucose'" in features.fix
    assert "'sick'" in labels.cause
    assert "The study has 'ill'" in labels.fix
    assert mapped({"features": {"glucose": "glucose"}, "labels": {"ill": "ill"}}).problems == []


def test_a_recode_to_no_level_is_the_mappings_fault_and_not_the_datas() -> None:
    table = good() | {"smoker": ["0", "1"] * 100, "ill": ["j", "n"] * 100}
    recode = {"column": "smoker", "recode": {"0": "newer", "1": "never"}}
    label = {"column": "ill", "recode": {"j": "yes", "n": "none"}}
    report = mapped({"features": {"smoker": recode}, "labels": {"ill": label}}, table)
    wrong = told(report, "smoker", "recodes to 'newer', none of the study's levels")
    assert (wrong.severity, wrong.fix) == ("error", "Recode to one of 'never', 'former', 'current', or to null.")
    assert "'yes', 'no'" in told(report, "ill", "recodes to 'none'").fix
    assert not [problem for problem in report.problems if "unknown value" in problem.cause]
    assert "TODO" not in report.suggestion


def test_a_recode_of_an_empty_cell_is_told() -> None:
    table = good() | {"smoker": ["", *good()["smoker"][1:]]}
    report = mapped({"features": {"smoker": {"column": "smoker", "recode": {"": "never"}}}}, table)
    assert told(report, "smoker", "recodes an empty cell").severity == "warning"


def test_headers_that_are_records_are_not_told() -> None:
    table = pa.table({"4711": ["1"], "Meier-77123456": ["b"], "12.05.1960": ["c"]})
    report = survey(Given(table, kind="csv"), DataMap(person="4711"), None)
    assert told(report, None, "look like values").severity == "error"
    assert "12.05.1960" not in json.dumps([column.model_dump() for column in report.columns])


def test_names_that_are_somebodys_are_not_told() -> None:
    """Where most of a first line looks like values, what looks like a name may be a patient's."""
    table = pa.table({"4711": ["1"], "Meier": ["b"], "12.05.1960": ["c"], "77": ["d"], "Anna": ["e"]})
    report = survey(Given(table, kind="csv"), DataMap(person="4711"), STUDY)
    words = json.dumps(report.model_dump(mode="json"))
    assert "Meier" not in words
    assert "Anna" not in words
    assert [column.name for column in report.columns][1] == "column 2"


def test_names_that_are_missing_are_looked_for_within_bounds(monkeypatch) -> None:
    """Each takes a look at all others, and whoever writes study and table chooses how many there are."""
    looked = []
    monkeypatch.setattr("crossward_site.data.survey.nearest", lambda name, names: looked.append(len(names)))
    schema = Schema(tuple(Number(f"feature-{k}", 0, 1) for k in range(300)))
    table = pa.table({"id": ["1"], **{f"column-{k}": [0.5] for k in range(3000)}})
    beats = []
    survey(Given(table), DataMap(person="id"), study_for(schema), pulse=lambda: beats.append(1))
    assert 0 < len(looked) <= 100
    assert max(looked) <= 1000


def test_people_copies_of_rows_and_records_kept() -> None:
    table = {name: list(values) * 2 for name, values in good(50).items()}
    report = check(table)
    assert told(report, "id", "50 people have several").count == 50
    assert told(report, None, "say the same").lines[0] == "row 51"
    assert check(table, most=2).persons == 50
    assert not [problem for problem in check(table, most=2).problems if "several" in problem.cause]


def test_without_a_study_columns_are_described() -> None:
    table = good() | {"lab": ["5.5"] * 150 + ["<0.3"] * 20 + ["NA"] * 30, "when": ["2020-01-02"] * 200}
    mapping = DataMap.from_data({"person": "id", "labels": {"ill": "when"}})
    report = survey(Given(pa.table(table)), mapping, None)
    kinds = {column.name: (column.kind, column.missing, column.distinct) for column in report.columns}
    assert kinds["lab"] == ("number", 0, 3)
    assert kinds["when"] == ("date", 0, 1)
    assert kinds["glucose"] == ("number", 0, 200)
    assert told(report, "lab", "below or above").count == 20
    assert told(report, "lab", "Words for missing").severity == "warning"
    assert told(report, "when", "one value only").severity == "error"


SECRET = "Xaver Zwölfelhofer 4711"
KINDS: dict[str, Any] = {
    "text": pa.array(["1", None, SECRET, " ", "<0.3", "5,5"]),
    "large": pa.array(["1", None, SECRET, "\ufffd", "0x1", "5"], pa.large_string()),
    "coded": pa.array([SECRET, None, "b", SECRET, "5", "NA"]).dictionary_encode(),
    "whole": pa.array([1, None, 2**62, -9, 999, 5]),
    "real": pa.array([1.5, None, float("nan"), float("inf"), 1e308, 5.0]),
    "yes": pa.array([True, None, False, True, True, False]),
    "exact": pa.array([1, None, 2, 3, 4, 5]).cast(pa.decimal128(22, 3)),
    "day": pa.array([1, None, 2, 3, 4, 5], pa.date32()),
    "moment": pa.array([1, None, 2, 3, 4, 5], pa.timestamp("ns", "UTC")),
    "nowhere": pa.array([1, None, 2, 3, 4, 5], pa.timestamp("ns", "Nowhere/At all")),
    "length": pa.array([1, None, 2, 3, 4, 5], pa.duration("ns")),
    "bytes": pa.array([b"\xff", None, b"", SECRET.encode(), b"5", b"1"]),
    "list": pa.array([[1], None, [], [2, 3], [4], [5]]),
    "struct": pa.array([{"a": 1}, None, {"a": 2}, {"a": 3}, {"a": None}, {"a": 5}]),
    "nothing": pa.nulls(6),
}


@pytest.mark.parametrize("study", [STUDY, None])
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_of_any_type_does_for_anything_and_is_never_told(kind, study) -> None:
    other = pa.array([f"p{row}" for row in range(6)])
    for name in ("id", "case", "glucose", "smoker", "family", "ill", "more"):
        columns = {
            "id": other,
            "case": other,
            "glucose": other,
            "smoker": other,
            "family": other,
            "ill": other,
            "more": other,
        }
        table = pa.table(columns | {name: KINDS[kind]})
        report = survey(Given(table, rows=4), DataMap(person="id", record="case"), study)
        assert report.rows == 6
        text = report.model_dump_json()
        assert not any(part in text for part in SECRET.split()), text


@pytest.mark.parametrize("levels", [("no", "yes"), ("never", "former")])
def test_two_features_of_other_words_are_read_from_one_column(levels) -> None:
    """Which words are meant is proposed for the feature that has them alone."""
    kinds = (Category("first", levels), Category("last", ("never", "former")))
    study = study_for(Schema(kinds), label={"name": "ill", "positive": "yes", "negative": "no"})
    table = pa.table({"p": [f"P{k}" for k in range(6)], "x": ["NEVER", "FORMER"] * 3, "ill": ["yes", "no"] * 3})
    mapping = {"person": "p", "features": {name: {"column": "x"} for name in ("first", "last")}}
    report = survey(Given(table), DataMap.model_validate(mapping), study)
    told(report, "x", "Read for several things")
    assert report.suggestion is not None
    features = yaml.safe_load(report.suggestion)["features"]
    meant = {"NEVER": "never", "FORMER": "former"}
    assert features["last"]["recode"] == meant
    assert features["first"].get("recode", {}) == (meant if "never" in levels else {})
