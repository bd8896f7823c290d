"""Invariants: rules that hold after every cycle under any policy."""
