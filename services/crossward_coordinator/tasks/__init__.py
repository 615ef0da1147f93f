"""Tasks: leased, kept by heartbeats, declined, or done with a result; and the coordinator's own, the aggregate."""
