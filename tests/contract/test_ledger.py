"""What any ledger must do, on each database: the rule, once and only once, all or nothing, evidence of tampering."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sqlalchemy import Engine, select, text, update

from crossward.errors import (
    AlreadyOpen,
    AlreadyReleased,
    AlreadyReserved,
    CellSpent,
    ChainBroken,
    LedgerRefused,
    NotNext,
    NotOpen,
    NotReserved,
    NotSeated,
    OutOfTurn,
    StorageFailed,
    UnknownCell,
)
from crossward.protocol.ledger.chain import first_difference, verify
from crossward.protocol.ledger.lines import (
    START,
    Head,
    Line,
    LineKind,
    OpenBody,
    RecoverBody,
    ReleaseBody,
    ReserveBody,
    SeatsBody,
)
from crossward.protocol.ledger.rules import State, admit
from crossward_service.db.engine import read, write
from crossward_service.db.ledger import SqlLedger

ZEROS, ONES = "0" * 64, "1" * 64
OPEN, SEATS = OpenBody(1, 4, "basic", 10**9, 10**12), SeatsBody(1, ONES)


def reserve(task: str, nano: int = 10**8, cells: tuple[int, ...] = (0, 1)) -> ReserveBody:
    return ReserveBody(task, "study", ZEROS, cells, nano, 0, ONES)


def fill(engine: Engine, ledger: SqlLedger) -> list[Line]:
    """A small chain with a line of each kind but `recover`."""
    bodies = [OPEN, SEATS, reserve("one"), reserve("two", cells=(1, 2)), ReleaseBody("one", ONES)]
    with write(engine) as connection:
        for time, body in enumerate(bodies):
            ledger.append(connection, body, time)
    with read(engine) as connection:
        return list(ledger.lines(connection))


@pytest.mark.usefixtures("both_databases")
def test_the_contract_was_tested_on_both_databases():
    pass


# -- appending --------------------------------------------------------------------------------------------------------
def test_an_empty_ledger(engine, ledger):
    with read(engine) as connection:
        assert ledger.head(connection) == START
        assert list(ledger.lines(connection)) == []
        assert ledger.balance(connection) is ledger.opened(connection) is ledger.seats(connection) is None
        assert not ledger.seated(connection)
        assert ledger.state(connection) == State()
        assert ledger.verify(connection).head == START
        assert ledger.contains(connection, START)


def test_lines_form_a_chain_that_holds(engine, ledger):
    lines = fill(engine, ledger)
    assert [line.sequence for line in lines] == [1, 2, 3, 4, 5]
    assert [line.kind for line in lines] == ["open", "seats", "reserve", "reserve", "release"]
    with read(engine) as connection:
        verified = ledger.verify(connection, lines[-1].head)
        assert verified == verify(lines)
        assert verified.state == ledger.state(connection)
        assert verified.head == ledger.head(connection) == lines[-1].head
        balance = ledger.balance(connection)
        assert balance == verified.state.balance
        assert ledger.opened(connection) == OPEN
        assert ledger.seats(connection) == verified.state.seats == SEATS
        assert ledger.seated(connection)
        assert [spend.nano_epsilon for spend in balance.spends] == [10**8, 2 * 10**8, 10**8, 0]
        assert balance.spend.nano_epsilon == 2 * 10**8
        assert list(ledger.lines(connection, after=1, limit=2)) == lines[1:3]
        assert ledger.find(connection, LineKind.RESERVE, "two") == lines[3]
        assert ledger.find(connection, LineKind.SEATS, "1") == lines[1]
        assert ledger.find(connection, LineKind.RELEASE, "two") is None


def test_the_same_again_is_the_same_line(engine, ledger):
    lines = fill(engine, ledger)
    with write(engine) as connection:
        for line in lines:
            assert ledger.append(connection, line.body, 99) == line
    with read(engine) as connection:
        assert list(ledger.lines(connection)) == lines


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (replace(OPEN, nano_epsilon=2 * 10**9), AlreadyOpen),
        (replace(OPEN, version=2, nano_epsilon=2 * 10**9), AlreadyOpen),
        (replace(SEATS, commitment=ZEROS), OutOfTurn),
        (SeatsBody(3, ONES), OutOfTurn),
        (RecoverBody(2), OutOfTurn),
        (reserve("one", nano=1), AlreadyReserved),
        (reserve("three", cells=(3, 4)), UnknownCell),
        (reserve("three", nano=8 * 10**8 + 1), CellSpent),
        (replace(reserve("three"), atto_delta=10**12 + 1), CellSpent),
        (ReleaseBody("three", ZEROS), NotReserved),
        (ReleaseBody("one", ZEROS), AlreadyReleased),
    ],
)
def test_what_is_refused_leaves_no_trace(engine, ledger, body, error):
    lines = fill(engine, ledger)
    with write(engine) as connection:  # the caller catches, goes on and commits
        with pytest.raises(error) as caught:
            ledger.append(connection, body, 5)
        assert caught.value.fix
    with read(engine) as connection:
        assert list(ledger.lines(connection)) == lines
        ledger.verify(connection)


def test_a_budget_is_spent_to_the_last_nano(engine, ledger):
    fill(engine, ledger)
    with write(engine) as connection:
        ledger.append(connection, reserve("rest", nano=8 * 10**8), 5)
        with pytest.raises(CellSpent, match=r"Cell 1: .* 1 of 1 is spent"):
            ledger.append(connection, reserve("more", nano=1), 6)
        ledger.append(connection, reserve("elsewhere", nano=10**9, cells=(3,)), 7)


def test_a_large_zcdp_spend_is_exact(engine, ledger):
    with write(engine) as connection:
        ledger.append(connection, OpenBody(1, 2, "zcdp", 50 * 10**9, 10**12), 0)
        ledger.append(connection, SEATS, 0)
        for number in range(2):
            ledger.append(connection, reserve(str(number), nano=4 * 10**9 + 1), number)
    with read(engine) as connection:
        rho = 2 * -(-((4 * 10**9 + 1) ** 2) // 2)
        assert rho > 2**63
        assert ledger.balance(connection).spend.atto_rho == rho
        ledger.verify(connection)


def test_an_error_of_the_caller_takes_the_line_back(engine, ledger):
    lines = fill(engine, ledger)

    def fail_after_an_append() -> None:
        with write(engine) as connection:
            ledger.append(connection, reserve("three"), 5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_an_append()
    with read(engine) as connection:
        assert list(ledger.lines(connection)) == lines
        ledger.verify(connection)


def test_owners_do_not_see_one_another(engine, ledger, mirror):
    fill(engine, ledger)
    fill(engine, mirror)
    with write(engine) as connection:
        ledger.append(connection, reserve("three", nano=8 * 10**8), 5)
    with read(engine) as connection:
        assert mirror.balance(connection).spend.nano_epsilon == 2 * 10**8
        ledger.verify(connection)
        mirror.verify(connection)


# -- the budget, the seats, recoveries --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("bodies", "body", "error"),
    [
        ([], SEATS, NotOpen),
        ([], RecoverBody(1), NotOpen),
        ([], reserve("a"), NotOpen),
        ([OPEN], reserve("a"), NotSeated),
        ([OPEN, SEATS, RecoverBody(1)], reserve("a"), NotSeated),
        ([OPEN], replace(OPEN, version=3), OutOfTurn),
        ([OPEN], OpenBody(2, 5, "basic", 10**9), AlreadyOpen),
        ([OPEN, SEATS, reserve("a"), RecoverBody(1), SeatsBody(2, ONES)], replace(OPEN, version=2), AlreadyOpen),
        ([OPEN, SEATS, reserve("a"), RecoverBody(1), SeatsBody(2, ONES)], ReleaseBody("a", ONES), NotReserved),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_the_rule_refuses_is_refused_in_one_transaction_and_in_many(engine, ledger, bodies, body, error, at_once):
    if at_once:
        lines = []
        for time, each in enumerate((*bodies, body)):
            lines.append(Line.after(lines[-1].head if lines else START, each, time))
        with write(engine) as connection, pytest.raises(error):
            ledger.extend(connection, lines)
        return
    for time, each in enumerate(bodies):
        with write(engine) as connection:
            ledger.append(connection, each, time)
    with write(engine) as connection, pytest.raises(error):
        ledger.append(connection, body, 9)
    with read(engine) as connection:
        assert ledger.verify(connection).head.sequence == len(bodies)


def test_a_budget_is_replaced_before_the_first_charge(engine, ledger):
    larger = OpenBody(2, 4, "zcdp", 2 * 10**9, 10**12)
    for body in (OPEN, SEATS, larger, reserve("a")):
        with write(engine) as connection:
            ledger.append(connection, body, 0)
    with write(engine) as connection:
        assert ledger.opened(connection) == larger
        assert ledger.append(connection, OPEN, 9).sequence == 1  # the line that is there, which opens nothing again
        assert ledger.opened(connection) == larger
        assert ledger.verify(connection).state.balance == ledger.balance(connection)


def test_a_recovery_is_stored_for_every_cell_and_nothing_lowers_it(engine, ledger, mirror):
    fill(engine, ledger)
    with write(engine) as connection:
        before = ledger.balance(connection).spend
        lost = ledger.append(connection, RecoverBody(1), 6)
        assert ledger.balance(connection).spends == (before,) * 4
        assert ledger.seats(connection) == SEATS
        assert not ledger.seated(connection)
        ledger.append(connection, SeatsBody(2, ZEROS), 7)
        assert ledger.seated(connection)
        with pytest.raises(CellSpent, match="Cell 3"):
            ledger.append(connection, reserve("three", nano=8 * 10**8 + 1, cells=(3,)), 8)
        mirror.extend(connection, list(ledger.lines(connection)))
    with write(engine) as connection:
        assert mirror.verify(connection) == ledger.verify(connection)
        table = ledger._tables.spend
        connection.execute(update(table).where(table.c.cell == 3).values(nano_epsilon="0"))
        with pytest.raises(ChainBroken, match="cell 3") as caught:
            ledger.verify(connection)
        assert caught.value.line == lost.sequence


def test_reading_cannot_write(engine, ledger):
    with pytest.raises(StorageFailed, match=r"readonly|read-only"), read(engine) as connection:
        ledger.append(connection, OPEN, 0)


ODDS = [*LineKind, *4 * [LineKind.SEATS], *6 * [LineKind.RESERVE], *6 * [LineKind.RELEASE]]
STEPS, FILTERS = [0, 1, 1, 1, 2], ["basic", "zcdp"]


def test_it_does_what_the_rule_does(engine, ledger):
    """A long random history beside the pure rule: the same answer to every step."""
    chance, state = random.Random(1), State()
    refused, kinds = 0, set()
    with write(engine) as connection:
        for time in range(300):
            cells = tuple(sorted(chance.sample(range(5), chance.randint(1, 3))))
            task, kind = str(chance.randrange(60)), chance.choice(ODDS)
            last = state.last.get(kind)
            number = max(
                1, (int(last.body.subject) if last and last.body.subject.isdigit() else 0) + chance.choice(STEPS)
            )
            body = {
                LineKind.OPEN: OpenBody(number, chance.randint(3, 4), chance.choice(FILTERS), 10**9, 10**12),
                LineKind.SEATS: SeatsBody(number, f"{time:064x}"),
                LineKind.RESERVE: replace(reserve(task, chance.randint(1, 10**8), cells), study=str(time)),
                LineKind.RELEASE: ReleaseBody(task, f"{time:064x}"),
                LineKind.RECOVER: RecoverBody(number),
            }[kind]
            try:
                expected = admit(state, Line.after(state.head, body, time))
            except LedgerRefused as refusal:
                refused += 1
                if ledger.find(connection, body.kind, body.subject) is None:
                    with pytest.raises(type(refusal)):
                        ledger.append(connection, body, time)
            else:
                ledger.append(connection, body, time)
                state = expected
                kinds.add(body.kind)
    assert 100 < refused < 250
    assert kinds == set(LineKind)
    with read(engine) as connection:
        assert ledger.verify(connection).state == ledger.state(connection) == state


# -- the mirror -------------------------------------------------------------------------------------------------------
def test_a_mirror_is_the_same_chain(engine, ledger, mirror):
    lines = fill(engine, ledger)
    for batch in (lines[:3], lines[:3], lines[2:4], lines, []):
        with write(engine) as connection:
            mirror.extend(connection, batch)
    with read(engine) as connection:
        assert mirror.verify(connection) == ledger.verify(connection)
        assert first_difference(ledger.lines(connection), mirror.lines(connection)) is None


def test_a_batch_with_one_bad_line_changes_nothing(engine, ledger, mirror):
    lines = fill(engine, ledger)
    dear = Line.after(lines[-1].head, reserve("dear", nano=10**9), 9)
    forked = replace(lines[2], time=77)
    with write(engine) as connection:
        mirror.extend(connection, lines[:1])
        with pytest.raises(CellSpent):
            mirror.extend(connection, [*lines[1:], dear])
        with pytest.raises(NotNext):
            mirror.extend(connection, lines[2:])
        with pytest.raises(NotNext):
            mirror.extend(connection, [lines[1], forked, *lines[3:]])
    with read(engine) as connection:
        assert list(mirror.lines(connection)) == lines[:1]
        mirror.verify(connection)


def test_a_rewritten_past_and_a_stale_backup_are_refused(engine, ledger, mirror):
    lines = fill(engine, ledger)
    other = Line.after(lines[3].head, ReleaseBody("two", ONES), 9)  # appended after a restore to line 4
    with write(engine) as connection:
        mirror.extend(connection, lines)
        with pytest.raises(NotNext, match="Line 5 differs"):
            mirror.extend(connection, [other])
        assert not mirror.contains(connection, other.head)
        assert mirror.contains(connection, lines[1].head)
        assert not mirror.contains(connection, Head(6, ONES))
        assert not mirror.contains(connection, Head(0, ONES))
    difference = first_difference(lines, [*lines[:4], other])
    assert (difference.line, difference.ours, difference.theirs) == (5, lines[4], other)


# -- looking up --------------------------------------------------------------------------------------------------------
def test_the_charges_of_a_study_are_found_among_all_lines(engine, ledger, mirror):
    lines = fill(engine, ledger)
    other = replace(reserve("three", nano=1), study="other", study_hash=ONES)
    with write(engine) as connection:
        mirror.extend(connection, lines)  # another owner's lines are not one's own
        more = ledger.append(connection, other, 9)
        assert ledger.charges(connection, "study") == lines[2:4]
        assert ledger.charges(connection, "other") == [more]
        assert mirror.charges(connection, "other") == ledger.charges(connection, "none") == []


# -- tampering --------------------------------------------------------------------------------------------------------
def flips(value: str | int | None) -> list[str | int | None]:
    """The value with one bit changed, in each of its bytes; and something where nothing was."""
    if value is None:
        return ["study"]
    if isinstance(value, int):
        return [value ^ 1, value ^ 1024]
    return [value[:i] + chr(ord(value[i]) ^ 1) + value[i + 1 :] for i in range(len(value))]


def test_a_flipped_byte_of_a_stored_line_is_found_and_the_line_named(engine, ledger):
    fill(engine, ledger)
    table, step = ledger._tables.lines, 1 if engine.dialect.name == "sqlite" else 9  # the same check, over a wire
    with write(engine) as connection:
        for row in connection.execute(select(table)).all():
            for column in table.c:
                if column.name == "owner":
                    continue  # a foreign key holds it
                for value in flips(getattr(row, column.name))[::step]:
                    change = update(table).where(table.c.sequence == row.sequence).values({column.name: value})
                    with connection.begin_nested() as savepoint:
                        if not _possible(connection, table, row, column.name, value):
                            continue
                        connection.execute(change)
                        with pytest.raises(ChainBroken) as caught:
                            ledger.verify(connection)
                        assert caught.value.line == row.sequence
                        savepoint.rollback()
        ledger.verify(connection)


def _possible(connection, table, row, column, value) -> bool:
    """Whether no other row has that key already: the database itself would refuse it."""
    key = {"sequence": row.sequence, "kind": row.kind, "subject": row.subject, column: value}
    same = (table.c.kind == key["kind"]) & (table.c.subject == key["subject"]) & (table.c.sequence != row.sequence)
    taken = (table.c.sequence == key["sequence"]) & (table.c.sequence != row.sequence)
    return connection.execute(select(table.c.sequence).where(same | taken)).first() is None


def test_a_flipped_byte_of_a_spend_is_found_and_a_line_named(engine, ledger):
    fill(engine, ledger)
    table = ledger._tables.spend
    last = {0: 3, 1: 4, 2: 4, 3: 1}  # the line that last changed each cell
    with write(engine) as connection:
        for row in connection.execute(select(table)).all():
            here = table.c.cell == row.cell
            changes = [
                {name: value}
                for name in ("nano_epsilon", "atto_delta", "atto_rho", "releases")
                for value in flips(getattr(row, name))
            ]
            changes += [{"nano_epsilon": "0" + row.nano_epsilon}, {"cell": 77}, {"atto_rho": ""}, {"atto_delta": "-0"}]
            for values in changes:
                with connection.begin_nested() as savepoint:
                    connection.execute(update(table).where(here).values(values))
                    with pytest.raises(ChainBroken) as caught:
                        ledger.verify(connection)
                    assert caught.value.line == last[row.cell]
                    savepoint.rollback()
        ledger.verify(connection)


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("DELETE FROM ledger_lines WHERE sequence = 5", 5),
        ("DELETE FROM ledger_lines WHERE sequence = 3", 3),
        ("UPDATE ledger_lines SET study = NULL WHERE sequence = 4", 4),
        ("UPDATE ledger_heads SET sequence = 4", 5),
        ("UPDATE ledger_heads SET sequence = 7", 6),
        ("UPDATE ledger_heads SET sequence = -6", 5),
        ("UPDATE ledger_heads SET hash = 'x'", 5),
        ("DELETE FROM ledger_spend WHERE cell = 0", 3),
        ("INSERT INTO ledger_spend VALUES ('site-a', 4, '0', '0', '0', 0)", 5),
    ],
)
def test_what_was_deleted_or_moved_is_found(engine, ledger, statement, line):
    fill(engine, ledger)
    with write(engine) as connection:
        connection.execute(text(statement))
        with pytest.raises(ChainBroken) as caught:
            ledger.verify(connection)
        assert caught.value.line == line
        assert caught.value.fix


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ledger_lines WHERE sequence = 5",
        "UPDATE ledger_heads SET sequence = 4",
        "UPDATE ledger_heads SET hash = 'x'",
        "DELETE FROM ledger_spend WHERE cell = 0",
        "UPDATE ledger_spend SET nano_epsilon = '-1'",
        "UPDATE ledger_lines SET body = replace(body, '1', '2') WHERE sequence = 1",
    ],
)
def test_nothing_is_appended_to_a_ledger_that_contradicts_itself(engine, ledger, statement):
    fill(engine, ledger)
    with write(engine) as connection:
        connection.execute(text(statement))
        with pytest.raises(ChainBroken):
            ledger.append(connection, reserve("three"), 9)


def test_spends_of_a_budget_nobody_opened_stop_its_opening(engine, ledger):
    with write(engine) as connection:
        ledger.extend(connection, ())
        connection.execute(text("INSERT INTO ledger_spend VALUES ('site-a', 0, '0', '0', '0', 0)"))
        with pytest.raises(ChainBroken, match="do not explain"):
            ledger.append(connection, OPEN, 9)


def test_a_head_from_a_receipt_shows_a_chain_cut_short(engine, ledger):
    lines = fill(engine, ledger)
    with read(engine) as connection:
        with pytest.raises(ChainBroken) as caught:
            ledger.verify(connection, Head(7, ONES))
        assert caught.value.line == 6
        with pytest.raises(ChainBroken) as caught:
            ledger.verify(connection, Head(2, ONES))
        assert caught.value.line == 2
        ledger.verify(connection, lines[-1].head)
