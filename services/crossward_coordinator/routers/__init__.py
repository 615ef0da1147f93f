"""HTTP, one file per noun: who may ask, what comes in, what goes out. What happens is in workflows/."""
