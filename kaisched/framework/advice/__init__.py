"""Advice: changes that would let a waiting job start, each tried before it is shown."""
