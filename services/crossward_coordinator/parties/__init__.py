"""Who takes part: invited with a code, enrolled with a key, stopped, reconciled, revoked."""
