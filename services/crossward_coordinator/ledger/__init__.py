"""The mirrors of the parties' ledgers."""
