"""Settings of the process: addresses, periods, logs. Shards hold the policies."""
