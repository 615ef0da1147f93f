"""The steward's yes or no to a task that waits, with all that the answer rests on."""
