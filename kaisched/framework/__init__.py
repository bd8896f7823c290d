"""The cycle: its session, the questions to plugins, its result, intents and invariants."""
