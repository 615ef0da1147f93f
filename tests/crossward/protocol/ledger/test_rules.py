"""The rule beside an independent model: a dictionary from cell to the list of what it paid."""

from __future__ import annotations

import math
from collections import defaultdict
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
    NotReserved,
    UnknownCell,
    UnknownDataset,
)
from crossward.privacy.budget import Cost
from crossward.protocol.ledger.chain import first_difference, verify
from crossward.protocol.ledger.lines import Head, Line, OpenBody, ReleaseBody, ReserveBody
from crossward.protocol.ledger.rules import Balance, State, admit

ZEROS, ONES = "0" * 64, "1" * 64
OPEN = OpenBody("data", 5, "basic", 10**9, 10**12)


def reserve(
    task: str, nano: int, cells: tuple[int, ...] = (0, 1), delta: int = 0, dataset: str = "data"
) -> ReserveBody:
    return ReserveBody(task, "study", ZEROS, dataset, cells, nano, delta, ONES)


def chain(*bodies: OpenBody | ReserveBody | ReleaseBody) -> list[Line]:
    lines: list[Line] = []
    head = State().head
    for time, body in enumerate(bodies):
        lines.append(Line.after(head, body, time))
        head = lines[-1].head
    return lines


def after(*bodies: OpenBody | ReserveBody | ReleaseBody) -> State:
    return verify(chain(*bodies)).state


def step(state: State, body: OpenBody | ReserveBody | ReleaseBody) -> State:
    return admit(state, Line.after(state.head, body, 0))


# -- spend ------------------------------------------------------------------------------------------------------------
def test_disjoint_use_costs_once_and_overlapping_use_adds_up():
    state = after(OPEN, reserve("a", 10**9, (0, 1)), reserve("b", 10**9, (2,)), reserve("c", 1, (3,)))
    balance = state.balances["data"]
    assert [spend.nano_epsilon for spend in balance.spends] == [10**9, 10**9, 10**9, 1, 0]
    assert balance.spend.nano_epsilon == 10**9
    assert balance.left([0, 4]) == 0
    assert balance.left([4]) == 1
    with pytest.raises(CellSpent, match=r"Cell 1 of dataset data: .*epsilon 0.000000001; 1 of 1 is spent"):
        step(state, reserve("d", 1, (1, 4)))
    assert step(state, reserve("d", 10**9, (4,))).balances["data"].spend.nano_epsilon == 10**9


def test_a_refusal_gives_advice_that_every_cell_can_follow():
    state = after(OPEN, reserve("a", 100, (0, 1)), reserve("b", 50, (1, 2)))
    with pytest.raises(CellSpent, match="Cell 1") as caught:
        step(state, reserve("c", 10**9, (0, 1, 2)))
    assert caught.value.fix == "Ask for at most epsilon 0.99999985."
    assert isinstance(caught.value, BudgetExceeded)
    step(state, reserve("c", 999_999_850, (0, 1, 2)))


def test_deltas_are_summed_by_cell():
    state = after(OPEN, reserve("a", 1, (0,), 10**12))
    with pytest.raises(CellSpent, match="delta"):
        step(state, reserve("b", 1, (0,), 1))
    assert step(state, reserve("b", 1, (1,), 10**12)).balances["data"].spend.atto_delta == 10**12


def test_admitting_changes_no_earlier_state():
    before = after(OPEN)
    later = step(before, reserve("a", 1))
    assert before == after(OPEN)
    assert later.reserved.keys() == {"a"}
    assert before.reserved == {}


class Spending(stateful.RuleBasedStateMachine):
    """Any history on two datasets, beside dictionaries of lists."""

    @stateful.initialize(
        sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
        filters=st.tuples(*2 * [st.sampled_from(["basic", "zcdp"])]),
    )
    def begin(self, sizes, filters):
        self.state = State()
        self.bodies = []
        self.open = {}
        self.paid = defaultdict(list)
        self.reserved, self.released = set(), set()
        for name, size, rule in zip("ab", sizes, filters, strict=True):
            self._expect(OpenBody(name, size, rule, 10**9, 10**12), None)
            self.open[name] = (size, rule)

    def _expect(self, body, error):
        if error is None:
            self.state = step(self.state, body)
            self.bodies.append(body)
        else:
            with pytest.raises(error):
                step(self.state, body)

    @stateful.rule(
        dataset=st.sampled_from("aabbc"),
        cells=st.sets(st.integers(0, 3), min_size=1),
        nano=st.sampled_from([1, 3, 10**7, 10**8, 333_333_333, 10**9]),
        delta=st.sampled_from([0, 0, 0, 1, 10**11]),
        task=st.integers(0, 12),
    )
    def reserve(self, dataset, cells, nano, delta, task):
        self._expect(
            reserve(str(task), nano, tuple(sorted(cells)), delta, dataset),
            self._error(dataset, cells, nano, delta, task),
        )
        if self.bodies[-1] == reserve(str(task), nano, tuple(sorted(cells)), delta, dataset):
            if task not in self.reserved:
                for cell in cells:
                    self.paid[dataset, cell].append((nano, delta))
            self.reserved.add(task)

    def _error(self, dataset, cells, nano, delta, task):
        if task in self.reserved:
            return AlreadyReserved
        if dataset not in self.open:
            return UnknownDataset
        size, rule = self.open[dataset]
        if max(cells) >= size:
            return UnknownCell
        if any(self._over([*self.paid[dataset, cell], (nano, delta)], rule) for cell in cells):
            return CellSpent
        return None

    @staticmethod
    def _over(paid, rule):
        if rule == "basic":
            return sum(nano for nano, _ in paid) > 10**9 or sum(delta for _, delta in paid) > 10**12
        log = math.log(1e6)
        limit = (math.sqrt(log + 1) - math.sqrt(log)) ** 2
        rho = sum((nano / 1e9) ** 2 / 2 for nano, _ in paid)
        assert abs(rho - limit) > 1e-12  # floats are truth enough away from the edge
        return rho > limit or any(delta for _, delta in paid)

    @stateful.rule(task=st.integers(0, 12))
    def release(self, task):
        error = NotReserved if task not in self.reserved else AlreadyReleased if task in self.released else None
        self._expect(ReleaseBody(str(task), ONES), error)
        if error is None:
            self.released.add(task)

    @stateful.rule(name=st.sampled_from("ab"))
    def open_again(self, name):
        self._expect(OpenBody(name, 9, "basic", 10**10), AlreadyOpen)

    @stateful.rule(sequence=st.integers(0, 3))
    def jump(self, sequence):
        line = Line.after(Head(sequence, ONES), OpenBody("c", 1, "basic", 1), 0)
        with pytest.raises(NotNext):
            admit(self.state, line)

    @stateful.invariant()
    def the_spend_is_the_sum(self):
        if not hasattr(self, "state"):
            return
        for name, (size, _) in self.open.items():
            balance = self.state.balances[name]
            sums = [sum(nano for nano, _ in self.paid[name, cell]) for cell in range(size)]
            assert [spend.nano_epsilon for spend in balance.spends] == sums
            assert [spend.releases for spend in balance.spends] == [len(self.paid[name, cell]) for cell in range(size)]
            assert balance.spend.nano_epsilon == max(sums)
        assert self.state.reserved.keys() == {str(task) for task in self.reserved}
        assert self.state.released.keys() == {str(task) for task in self.released}

    def teardown(self):
        if hasattr(self, "state"):
            lines = chain(*self.bodies)
            verified = verify(lines)
            assert verified.state.balances == self.state.balances
            assert verified.head.sequence == self.state.head.sequence


Spending.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
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
BODIES = [OPEN, reserve("a", 5), ReleaseBody("a", ONES), reserve("b", 10**9 - 5), ReleaseBody("b", ONES)]


@pytest.mark.parametrize("number", range(1, 6))
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
    if number < 5:
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
    lines = chain(*BODIES, reserve("c", 1))
    with pytest.raises(ChainBroken, match="Cell 0 of dataset data") as caught:
        verify(lines)
    assert caught.value.line == 6


def test_verify_with_a_head_of_another_chain():
    lines = chain(*BODIES)
    for sequence in (3, 5):
        with pytest.raises(ChainBroken) as caught:
            verify(lines, Head(sequence, ONES))
        assert caught.value.line == sequence
    with pytest.raises(ChainBroken) as caught:
        verify(lines, lines[2].head)
    assert caught.value.line == 4


def test_where_two_chains_part():
    lines = chain(*BODIES)
    other = chain(*BODIES[:2], ReleaseBody("a", ZEROS))
    assert first_difference(lines, lines) is None
    assert first_difference([], []) is None
    assert first_difference(lines, other).line == 3
    difference = first_difference(lines[:2], lines)
    assert (difference.line, difference.ours, difference.theirs) == (3, None, lines[2])


def test_every_refusal_is_a_ledger_refusal():
    for error in (NotNext, AlreadyReserved, CellSpent, UnknownDataset, UnknownCell, NotReserved, AlreadyReleased):
        assert issubclass(error, LedgerRefused)
