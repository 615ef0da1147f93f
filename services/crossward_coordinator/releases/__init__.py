"""Releases and their receipts: kept once, read by digest, and what a task learns from."""
