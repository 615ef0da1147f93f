"""Other libraries that solve the same problem, each run in a process of its own."""
