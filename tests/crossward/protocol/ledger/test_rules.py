"""The rule beside an independent model: a list of what each cell paid, and of what each of some persons has lost."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings, stateful
from hypothesis import strategies as st

from crossward.errors import (
    AlreadyOpen,
    AlreadyReleased,
    AlreadyReserved,
    BudgetExceeded,
    CellSpent,
    ChainBroken,
    LedgerRefused,
    NotNext,
    NotOpen,
    NotReserved,
    NotSeated,
    OutOfTurn,
    UnknownCell,
)
from crossward.privacy.budget import Cost
from crossward.privacy.filters import Spend
from crossward.protocol.ledger.chain import first_difference, verify
from crossward.protocol.ledger.lines import (
    Body,
    Head,
    Line,
    OpenBody,
    RecoverBody,
    ReleaseBody,
    ReserveBody,
    SeatsBody,
)
from crossward.protocol.ledger.rules import Balance, State, admit

ZEROS, ONES = "0" * 64, "1" * 64
OPEN, SEATS = OpenBody(1, 5, "basic", 10**9, 10**12), SeatsBody(1, ONES)
AGAIN, LOST = SeatsBody(2, ZEROS), RecoverBody(1)


def reserve(task: str, nano: int, cells: tuple[int, ...] = (0, 1), delta: int = 0) -> ReserveBody:
    return ReserveBody(task, "study", ZEROS, cells, nano, delta, ONES)


def chain(*bodies: Body) -> list[Line]:
    lines: list[Line] = []
    head = State().head
    for time, body in enumerate(bodies):
        lines.append(Line.after(head, body, time))
        head = lines[-1].head
    return lines


def after(*bodies: Body) -> State:
    return verify(chain(*bodies)).state


def step(state: State, body: Body) -> State:
    return admit(state, Line.after(state.head, body, 0))


# -- spend ------------------------------------------------------------------------------------------------------------
def test_disjoint_use_costs_once_and_overlapping_use_adds_up():
    state = after(OPEN, SEATS, reserve("a", 10**9, (0, 1)), reserve("b", 10**9, (2,)), reserve("c", 1, (3,)))
    balance = state.balance
    assert [spend.nano_epsilon for spend in balance.spends] == [10**9, 10**9, 10**9, 1, 0]
    assert balance.spend.nano_epsilon == 10**9
    assert balance.left([0, 4]) == 0
    assert balance.left([4]) == 1
    with pytest.raises(CellSpent, match=r"Cell 1: .*epsilon 0.000000001; 1 of 1 is spent"):
        step(state, reserve("d", 1, (1, 4)))
    assert step(state, reserve("d", 10**9, (4,))).balance.spend.nano_epsilon == 10**9


def test_a_refusal_gives_advice_that_every_cell_can_follow():
    state = after(OPEN, SEATS, reserve("a", 100, (0, 1)), reserve("b", 50, (1, 2)))
    with pytest.raises(CellSpent, match="Cell 1") as caught:
        step(state, reserve("c", 10**9, (0, 1, 2)))
    assert caught.value.fix == "Ask for at most epsilon 0.99999985."
    assert isinstance(caught.value, BudgetExceeded)
    step(state, reserve("c", 999_999_850, (0, 1, 2)))


def test_deltas_are_summed_by_cell():
    state = after(OPEN, SEATS, reserve("a", 1, (0,), 10**12))
    with pytest.raises(CellSpent, match="delta"):
        step(state, reserve("b", 1, (0,), 1))
    assert step(state, reserve("b", 1, (1,), 10**12)).balance.spend.atto_delta == 10**12


def test_admitting_changes_no_earlier_state():
    before = after(OPEN, SEATS)
    later = step(before, reserve("a", 1))
    assert before == after(OPEN, SEATS)
    assert later.reserved.keys() == {"a"}
    assert before.reserved == {}


# -- the budget, the seats, recoveries --------------------------------------------------------------------------------
def test_a_budget_may_be_replaced_until_the_first_charge_and_never_after():
    mended = after(OPEN, SEATS, replace(OPEN, version=2, nano_epsilon=3, filter="zcdp"))
    assert mended.balance == Balance.of(OpenBody(2, 5, "zcdp", 3, 10**12))
    assert mended.seated
    for charged in (after(OPEN, SEATS, reserve("a", 1)), after(OPEN, SEATS, reserve("a", 1), LOST, AGAIN)):
        for version in (1, 2, 3):
            with pytest.raises(AlreadyOpen, match="final"):
                step(charged, replace(OPEN, version=version, nano_epsilon=10**10))
    with pytest.raises(AlreadyOpen, match="5 cells, for good"):
        step(after(OPEN), OpenBody(2, 6, "basic", 10**9))


@pytest.mark.parametrize(
    ("before", "body", "due"),
    [
        ((), replace(OPEN, version=2), "open 1"),
        ((OPEN,), OPEN, "open 2"),
        ((OPEN,), replace(OPEN, version=3), "open 2"),
        ((OPEN,), SeatsBody(2, ONES), "seats 1"),
        ((OPEN, SEATS), SeatsBody(1, ZEROS), "seats 2"),
        ((OPEN, SEATS, AGAIN), SeatsBody(4, ONES), "seats 3"),
        ((OPEN, SEATS, LOST), SEATS, "seats 2"),  # a recovery begins no new count
        ((OPEN,), RecoverBody(2), "recover 1"),
        ((OPEN, LOST), LOST, "recover 2"),
    ],
)
def test_versions_and_recoveries_count_without_gaps(before, body, due):
    with pytest.raises(OutOfTurn) as caught:
        step(after(*before), body)
    assert caught.value.fix == f"The next one is {due}."


@pytest.mark.parametrize("body", [SEATS, LOST, reserve("a", 1)])
def test_everything_needs_a_budget(body):
    with pytest.raises(NotOpen):
        step(State(), body)


@pytest.mark.parametrize("before", [(OPEN,), (OPEN, LOST), (OPEN, SEATS, LOST), (OPEN, SEATS, LOST, RecoverBody(2))])
def test_nothing_is_charged_while_nobody_knows_who_sits_where(before):
    state = after(*before)
    assert not state.seated
    with pytest.raises(NotSeated):
        step(state, reserve("a", 1))
    seats = SeatsBody(1 if state.seats is None else state.seats.version + 1, ZEROS)
    seated = step(state, seats)
    assert seated.seated
    assert seated.seats == seats
    step(seated, reserve("a", 1))


def test_a_recovery_takes_the_largest_of_each_number():
    dear, many = reserve("a", 9, (0,), 2), [reserve(str(k), 1, (1,), 1) for k in range(3)]
    before = after(OPEN, SEATS, dear, *many, ReleaseBody("0", ONES))
    assert before.balance.spends == (Spend(9, 2, 41, 1), Spend(3, 3, 3, 3), *3 * [Spend()])
    lost = step(before, LOST)
    assert lost.balance.spends == 5 * (Spend(9, 3, 41, 3),)
    assert lost.balance.opened == OPEN
    assert step(lost, RecoverBody(2)).balance == lost.balance
    assert (lost.seats, lost.seated) == (SEATS, False)


def test_what_was_charged_to_others_than_it_would_read_is_never_released():
    state = after(OPEN, SEATS, reserve("a", 1), reserve("b", 1), ReleaseBody("b", ONES), LOST, AGAIN)
    with pytest.raises(NotReserved, match="before the table of seats was lost"):
        step(state, ReleaseBody("a", ONES))
    with pytest.raises(AlreadyReserved):
        step(state, reserve("a", 1))
    with pytest.raises(AlreadyReleased):
        step(state, ReleaseBody("b", ZEROS))
    state = step(step(state, reserve("c", 1)), ReleaseBody("c", ONES))
    assert state.released.keys() == {"b", "c"}


class Spending(stateful.RuleBasedStateMachine):
    """Any history, beside lists of what cells paid, and of what ten persons lost who are seated anew by chance."""

    @stateful.initialize(cells=st.integers(1, 4), rule=st.sampled_from(["basic", "zcdp"]))
    def begin(self, cells, rule):
        self.state, self.bodies = State(), []
        self.cells, self.rule, self.budget = cells, rule, (10**9, 10**12)
        self.paid = [[0, 0, 0, 0] for _ in range(cells)]
        self.lost = [[0, 0, 0] for _ in range(10)]  # of each person: what was released from the cell they sat in
        self.seat = [0] * 10
        self.versions = {"open": 0, "seats": 0, "recover": 0}
        self.seated = False
        self.waiting, self.reserved, self.released = {}, set(), set()
        self._expect(OpenBody(1, cells, rule, *self.budget), None)
        self.versions["open"] = 1

    def _expect(self, body, error):
        if error is None:
            self.state = step(self.state, body)
            self.bodies.append(body)
        else:
            with pytest.raises(error):
                step(self.state, body)

    @stateful.rule(
        cells=st.sets(st.integers(0, 3), min_size=1),
        nano=st.sampled_from([1, 3, 10**7, 10**8, 333_333_333, 10**9]),
        delta=st.sampled_from([0, 0, 0, 1, 10**11]),
        task=st.integers(0, 12),
    )
    def reserve(self, cells, nano, delta, task):
        error = self._error(cells, nano, delta, task)
        self._expect(reserve(str(task), nano, tuple(sorted(cells)), delta), error)
        if error is None:
            cost = [nano, delta, -(-nano * nano // 2)]
            for cell in cells:
                self.paid[cell] = [a + b for a, b in zip(self.paid[cell], [*cost, 1], strict=True)]
            self.reserved.add(task)
            self.waiting[task] = cells, cost

    def _error(self, cells, nano, delta, task):
        if task in self.reserved:
            return AlreadyReserved
        if not self.seated:
            return NotSeated
        if max(cells) >= self.cells:
            return UnknownCell
        return CellSpent if any(self._over(self.paid[cell], nano, delta) for cell in cells) else None

    def _over(self, paid, nano, delta):
        if self.rule == "basic":
            return paid[0] + nano > self.budget[0] or paid[1] + delta > self.budget[1]
        log = -math.log(self.budget[1] / 1e18)
        limit = (math.sqrt(log + self.budget[0] / 1e9) - math.sqrt(log)) ** 2
        rho = paid[2] / 1e18 + (nano / 1e9) ** 2 / 2
        assert abs(rho - limit) > 1e-12  # floats are truth enough away from the edge
        return rho > limit or delta > 0

    @stateful.rule(task=st.integers(0, 12))
    def release(self, task):
        error = AlreadyReleased if task in self.released else None if task in self.waiting else NotReserved
        self._expect(ReleaseBody(str(task), ONES), error)
        if error is None:
            cells, cost = self.waiting.pop(task)
            for person, cell in enumerate(self.seat):
                if cell in cells:
                    self.lost[person] = [a + b for a, b in zip(self.lost[person], cost, strict=True)]
            self.released.add(task)

    @stateful.rule(more=st.integers(-1, 2), chance=st.randoms(use_true_random=False))
    def seats(self, more, chance):
        version = max(1, self.versions["seats"] + more)
        error = None if version == self.versions["seats"] + 1 else OutOfTurn
        self._expect(SeatsBody(version, ONES), error)
        if error is None:
            if not self.seated:
                self.seat = [chance.randrange(self.cells) for _ in self.seat]
            self.versions["seats"], self.seated = version, True

    @stateful.rule(more=st.sampled_from([0, 1, 1, 2]))
    def recover(self, more):
        number = max(1, self.versions["recover"] + more)
        error = None if number == self.versions["recover"] + 1 else OutOfTurn
        before = self.state.balance
        self._expect(RecoverBody(number), error)
        if error is None:
            self.versions["recover"], self.seated, self.waiting = number, False, {}
            self.paid = [[max(column) for column in zip(*self.paid, strict=True)] for _ in self.paid]
            for now, then in zip(self.state.balance.spends, before.spends, strict=True):
                assert now.nano_epsilon >= then.nano_epsilon
                assert now.atto_delta >= then.atto_delta
                assert now.atto_rho >= then.atto_rho
                assert now.releases >= then.releases

    @stateful.rule(
        more=st.sampled_from([0, 1, 1, 2]),
        rule=st.sampled_from(["basic", "zcdp"]),
        nano=st.sampled_from([10**8, 10**10]),
    )
    def open(self, more, rule, nano):
        version = self.versions["open"] + more
        error = AlreadyOpen if self.reserved else None if more == 1 else OutOfTurn
        self._expect(OpenBody(version, self.cells, rule, nano, 10**12), error)
        if error is None:
            self.versions["open"], self.rule, self.budget = version, rule, (nano, 10**12)

    @stateful.rule(sequence=st.integers(0, 3))
    def jump(self, sequence):
        with pytest.raises(NotNext):
            admit(self.state, Line.after(Head(sequence, ONES), RecoverBody(self.versions["recover"] + 1), 0))

    @stateful.invariant()
    def the_spend_is_the_sum(self):
        if not hasattr(self, "state"):
            return
        balance = self.state.balance
        assert [[s.nano_epsilon, s.atto_delta, s.atto_rho, s.releases] for s in balance.spends] == self.paid
        assert balance.spend == Spend(*(max(column) for column in zip(*self.paid, strict=True)))
        assert self.state.reserved.keys() == {str(task) for task in self.reserved}
        assert self.state.released.keys() == {str(task) for task in self.released}
        assert self.state.seated == self.seated

    @stateful.invariant()
    def nobody_has_lost_more_than_the_cell_says(self):
        if not hasattr(self, "state"):
            return
        for lost, cell in zip(self.lost, self.seat, strict=True):
            assert all(mine <= said for mine, said in zip(lost, self.paid[cell][:3], strict=True))
            if self.rule == "basic":
                assert lost[0] <= self.budget[0]
                assert lost[1] <= self.budget[1]
            else:
                assert lost[2] == 0 or not self._over([0, 0, lost[2]], 0, 0)

    def teardown(self):
        if hasattr(self, "state"):
            verified = verify(chain(*self.bodies))
            assert verified.state.balance == self.state.balance
            assert verified.head.sequence == self.state.head.sequence


Spending.TestCase.settings = settings(max_examples=80, stateful_step_count=30)
TestSpending = Spending.TestCase


@given(st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=1), st.integers(1, 4 * 10**8)), max_size=12))
def test_no_order_of_charges_passes_the_budget(charges):
    balance, paid = Balance.of(OPEN), dict.fromkeys(range(5), 0)
    for cells, nano in charges:
        fits = all(paid[cell] + nano <= 10**9 for cell in cells)
        if fits:
            balance = balance.charge(cells, Cost(nano))
            paid = {cell: total + nano * (cell in cells) for cell, total in paid.items()}
        else:
            with pytest.raises(CellSpent):
                balance.charge(cells, Cost(nano))
    assert [spend.nano_epsilon for spend in balance.spends] == list(paid.values())


# -- chains -----------------------------------------------------------------------------------------------------------
BODIES = [OPEN, SEATS, reserve("a", 5), ReleaseBody("a", ONES), reserve("b", 10**9 - 5), ReleaseBody("b", ONES), LOST]


@pytest.mark.parametrize("number", range(1, 8))
def test_verify_names_the_first_line_that_is_wrong(number):
    lines = chain(*BODIES)
    assert verify(lines).head == lines[-1].head
    for wrong in (
        [*lines[: number - 1], replace(lines[number - 1], previous=ONES), *lines[number:]],
        [*lines[: number - 1], replace(lines[number - 1], sequence=9), *lines[number:]],
    ):
        with pytest.raises(ChainBroken, match=f"^Line {number}: ") as caught:
            verify(wrong)
        assert caught.value.line == number
    if number < 7:
        with pytest.raises(ChainBroken) as caught:
            verify([*lines[: number - 1], replace(lines[number - 1], time=77), *lines[number:]])
        assert caught.value.line == number + 1  # a whole other line stands here: the next one shows it
        with pytest.raises(ChainBroken) as caught:
            verify([*lines[: number - 1], *lines[number:]])
        assert caught.value.line == number
    with pytest.raises(ChainBroken) as caught:
        verify(lines[: number - 1], head=lines[-1].head)
    assert caught.value.line == number


def test_verify_runs_the_rule():
    lines = chain(*BODIES, AGAIN, reserve("c", 1))
    with pytest.raises(ChainBroken, match="Cell 0: ") as caught:
        verify(lines)
    assert caught.value.line == 9


def test_verify_with_a_head_of_another_chain():
    lines = chain(*BODIES)
    for sequence in (3, 7):
        with pytest.raises(ChainBroken) as caught:
            verify(lines, Head(sequence, ONES))
        assert caught.value.line == sequence
    with pytest.raises(ChainBroken) as caught:
        verify(lines, lines[2].head)
    assert caught.value.line == 4


def test_where_two_chains_part():
    lines = chain(*BODIES)
    other = chain(*BODIES[:3], ReleaseBody("a", ZEROS))
    assert first_difference(lines, lines) is None
    assert first_difference([], []) is None
    assert first_difference(lines, other).line == 4
    difference = first_difference(lines[:2], lines)
    assert (difference.line, difference.ours, difference.theirs) == (3, None, lines[2])


def test_every_refusal_is_a_ledger_refusal():
    for error in (AlreadyOpen, AlreadyReleased, AlreadyReserved, CellSpent, NotNext, NotOpen, NotReserved, NotSeated):
        assert issubclass(error, LedgerRefused)
    assert issubclass(OutOfTurn, LedgerRefused)
    assert issubclass(UnknownCell, LedgerRefused)
