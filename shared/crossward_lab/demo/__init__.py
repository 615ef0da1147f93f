"""A whole federation, for people to look at: real services, simulated hospitals.

records.py      a simulated hospital's records, as a file, and the settings that declare it
child.py        one service, served: what such a process runs
processes.py    a service as a process of its own: started, waited for, stopped
federation.py   the coordinator and its hospitals as processes on this machine; what only whoever simulated them knows
people.py       what people do in a federation that runs: invite, join, open data
story.py        a study from file to predictions, and what is to be seen afterwards
"""
