"""Scenario files: their format, their checks, and the scenarios made from them."""
