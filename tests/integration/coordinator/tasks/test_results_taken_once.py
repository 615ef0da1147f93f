"""A result is taken once, whole, whoever sends it how often."""

import threading
from concurrent.futures import ThreadPoolExecutor

from crossward.errors import (
    AlreadyReleased,
)
from crossward.protocol.tasks import ResultMessage


def test_the_same_bytes_get_the_same_receipt(ready):
    world, site, _, result = ready
    first = site.publish(result)
    lines = world.ask("auditor", "GET", "/ledger/main").json()
    assert site.publish(result) == first  # the acknowledgement was lost
    later = result.model_copy(update={"lines": ()})  # and a site that knows its lines are confirmed
    assert site.publish(later) == first
    assert world.ask("auditor", "GET", "/ledger/main").json() == lines


def test_the_same_result_from_many_threads_at_two_workers(ready):
    world, site, _, result = ready
    urls = [world.url, world.serve()]
    together = threading.Barrier(6)

    def publish(number):
        together.wait()
        return site.publish(result, url=urls[number % 2])

    for url in urls:
        site.next(url=url)  # makes the clients, which threads share
    with ThreadPoolExecutor(6) as pool:
        receipts = list(pool.map(publish, range(6)))
    assert len({receipt.canonical() for receipt in receipts}) == 1
    assert len(world.ask("auditor", "GET", "/ledger/main").json()["lines"]) == 4
    kinds = [task["kind"] for task in world.ask("lead", "GET", "/studies/demo").json()["tasks"]]
    assert kinds == ["train-source", "train-target", "train-target"]


def test_other_bytes_for_a_finished_task_are_refused(ready):
    world, site, task, result = ready
    site.publish(result)
    other, _ = site.train(task)
    assert other.digest != result.release.digest
    world.refuses(site, task.id, AlreadyReleased, ResultMessage(task=task.id, release=other).canonical())
    world.refuses(site, task.id, AlreadyReleased, ResultMessage(task=task.id, release=None).canonical())


def test_results_of_two_studies_arrive_in_the_other_order(world):
    for name in ("one", "two"):
        world.begin(id=name)
    site = world.sites["main"]
    first, second = (site.result(site.take()) for _ in range(2))  # the second repeats the lines of the first
    site.publish(second)
    site.confirmed = 0
    site.publish(first)
    assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 6
    assert world.party("main")["state"] == "active"
