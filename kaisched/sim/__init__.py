"""The simulator: the daemon's own cycle in virtual time, in scenarios and on traces."""
