"""People and what their tokens let them do. Tokens are made on the coordinator's machine: no request makes one."""
