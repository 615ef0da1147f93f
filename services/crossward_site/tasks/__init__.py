"""The tasks a site took, carried from the coordinator's offer to a receipt.

service.py       the tasks, their states, and which follows which
steps.py         one step of a task: approve, reserve, train, publish, decline
training.py      from a task to a model: what it will release and cost, and the training
outbox.py        what was released: the same bytes until acknowledged
runner.py        takes tasks and carries them through
"""
