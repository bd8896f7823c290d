"""The session machinery: hooks, plugins, ledger, statement, session, cycle, intents, records."""
