"""The steward's desk: the whole site at a glance."""
