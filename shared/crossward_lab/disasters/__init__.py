"""Deterministic simulation: coordinator, sites, network, disks and clocks in one process, and one seed decides.

The services are the real ones, over real SQLite files; only what a machine gives them is simulated. A history is one
seed: what happens in it is drawn from that seed alone, so a history that fails happens again, to the same line.

loop.py        virtual time: nobody waits, and code that blocks takes turns where it would have waited
host.py        a machine with a disk and a clock, and the processes on it that can be killed
disk.py        databases whose disk fills, refuses, or forgets what was not flushed
network.py     requests that are lost, doubled, late, cut, or changed by a liar
federation.py  the coordinator and the sites as they are started and killed here; the folder they all begin from
people.py      leads, operators and stewards, who do what people do; rounds.py: again and again
stewards.py    who bring data, take them back, erase persons, and recover; records.py: their tables
plan.py        which disasters a history has, drawn from its seed
judge.py       what must be true after every step, and in the end; persons.py: of every person
history.py     one history; campaign.py: thousands of them; planted.py: faults that must be found
"""
