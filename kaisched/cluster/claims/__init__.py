"""Reads and writes resource claims and what drivers offer to them."""
