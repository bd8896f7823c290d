"""The simulator: the daemon's own cycle in virtual time, on traces of real clusters."""
