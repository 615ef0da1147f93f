"""The ledger as a value: what every site has spent, line by line, so that nobody can spend it twice or deny it.

lines       a line: immutable, one byte string, one hash
rules       which line may come next; what each cell has spent
chain       does a chain hold, and where do two chains part
export      a chain as a text file, to verify offline
"""
