"""Where snapshots come from and where intents go."""
