"""Forecasts: the daemon's own cycle, run ahead in virtual time on a copy of a snapshot."""
