"""Room that is free, is being released, or can be cleared, and placing jobs in it."""
