"""Questions that anybody may ask at any pace: one look at a time, one a second, and one that hangs holds up nobody."""

import asyncio
import threading

import pytest

from crossward_service.http.readiness import FRESH_SECONDS, Check, Readiness


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_an_answer_counts_for_a_second_and_no_longer(clock):
    looks, missing = [], []

    def look():
        looks.append(clock.now)
        if missing:
            raise OSError("no space left")

    async def ask():
        readiness = Readiness([Check("database", look)], clock)
        for _ in range(50):
            assert await readiness.missing() == ""
        missing.append(True)
        clock.now += FRESH_SECONDS - 0.01
        assert await readiness.missing() == ""
        clock.now += 0.01
        for _ in range(50):
            assert await readiness.missing() == "database"
        missing.clear()
        clock.now += FRESH_SECONDS
        assert await readiness.missing() == ""

    asyncio.run(ask())
    assert looks == [0.0, FRESH_SECONDS, 2 * FRESH_SECONDS]


def test_whoever_asks_meanwhile_waits_for_the_same_look(clock):
    looks, go = [], threading.Event()

    def look():
        looks.append(threading.current_thread())
        go.wait(120)

    async def ask():
        readiness = Readiness([Check("database", look)], clock)
        waiting = [asyncio.create_task(readiness.missing()) for _ in range(200)]
        await asyncio.sleep(0)
        waiting.pop().cancel()  # who goes away ends it for nobody
        go.set()
        assert await asyncio.gather(*waiting) == [""] * 199

    asyncio.run(ask())
    assert len(looks) == 1


def test_a_look_that_hangs_is_named_and_no_other_begins(clock):
    looks, go = [], threading.Event()

    def look():
        looks.append(threading.current_thread())
        go.wait(120)

    async def ask():
        readiness = Readiness([Check("disk", lambda: None), Check("database", look)], clock)
        while not looks:
            await asyncio.wait_for(readiness.missing(0.01), 120)
        for _ in range(3):
            clock.now += 100 * FRESH_SECONDS
            assert await readiness.missing(0.01) == "database"
        go.set()
        looks[0].join(120)
        assert await readiness.missing() == ""

    asyncio.run(ask())
    assert len(looks) == 1
