"""`crossward simulate disasters`, as it is typed."""

import json
import re


def test_histories_on_two_processes_are_counted_and_where_no_terminal_is_their_progress_is_told(program):
    arguments = ("--histories", "10", "--seed", "5", "--workers", "2", "--json")
    done = program("simulate", "disasters", *arguments)
    told = json.loads(done.stdout)
    assert (told["histories"], told["first_seed"], told["failed"]) == (10, 5, [])
    assert told["commits"] > 10
    lines = done.stderr.strip().splitlines()
    assert lines == [f"{count} of 10 histories, 0 failed" for count in range(1, 11)]


def test_a_history_that_fails_is_named_with_what_replays_it(program):
    planted = ("--planted", "unflushed")
    said = program("simulate", "disasters", "--histories", "6", "--workers", "1", *planted, code=1).stdout
    [(seed, rest)] = re.findall(r"^Replay one: crossward simulate disasters --replay --seed (\d+)(.*)$", said, re.M)
    assert rest == " --planted unflushed"
    assert f"seed {seed}: " in said
    assert "VIOLATION" in program("simulate", "disasters", "--replay", "--seed", seed, *planted, code=1).stdout


def test_a_fault_that_nobody_knows_is_refused_with_those_there_are(program):
    said = json.loads(
        program("simulate", "disasters", "--planted", "gremlin", "--json", code=2).stderr.splitlines()[-1]
    )
    assert said["error"] == "InvalidSetting"
    assert "refund" in said["fix"]
