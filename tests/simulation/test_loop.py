"""Virtual time: nobody waits, code that blocks takes turns, and what waits for nothing is found."""

import asyncio
import time

import pytest

from crossward_lab.disasters.loop import Stuck, VirtualFlag, VirtualLoop, blocking, wait


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_a_year_passes_at_once(loop):
    began = time.monotonic()
    loop.run_until_complete(asyncio.sleep(365 * 86_400))
    assert loop.time() == pytest.approx(365 * 86_400)
    assert time.monotonic() - began < 60


def test_code_that_blocks_takes_turns_by_the_times_it_asked_for(loop):
    order = []

    def sleeps(name, seconds):
        for _ in range(2):
            wait(asyncio.sleep(seconds))
            order.append((name, loop.time()))

    async def all_of_them():
        await asyncio.gather(blocking(sleeps, "slow", 3.0), blocking(sleeps, "fast", 1.0))

    loop.run_until_complete(all_of_them())
    assert order == [("fast", 1.0), ("fast", 2.0), ("slow", 3.0), ("slow", 6.0)]


def test_what_is_cancelled_unwinds_where_it_waits(loop):
    unwound = []

    def waits():
        try:
            wait(asyncio.sleep(100))
        finally:
            unwound.append(loop.time())

    async def cancelled():
        task = asyncio.create_task(blocking(waits))
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    loop.run_until_complete(cancelled())
    assert unwound == [5.0]


def test_a_flag_is_waited_for_as_long_as_was_asked(loop):
    async def flags():
        flag = VirtualFlag()
        assert await blocking(flag.wait, 7.0) is False
        assert loop.time() == 7.0
        asyncio.get_running_loop().call_later(2.0, flag.set)
        assert await blocking(flag.wait, 100.0) is True
        assert loop.time() == 9.0

    loop.run_until_complete(flags())


def test_where_nothing_will_ever_happen_it_says_so(loop):
    with pytest.raises(Stuck):
        loop.run_until_complete(asyncio.Event().wait())


def test_where_somebody_is_busy_for_ever_it_says_so(loop):
    async def busy():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="no time passes"):
        loop.run_until_complete(busy())


def test_what_is_due_in_a_thousand_years_is_done_then(loop):
    loop.run_until_complete(asyncio.sleep(3.1557e10 + 0.1))
    loop.run_until_complete(asyncio.sleep(1e-3))
    assert loop.time() > 3.1557e10
