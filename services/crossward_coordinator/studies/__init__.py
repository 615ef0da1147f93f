"""Studies: checked, created, started, moved on by their tasks and the clock, watched, ended."""
