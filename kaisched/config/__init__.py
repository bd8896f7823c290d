"""Settings of the process: addresses, periods, logs. What is decided, and how, is the shard's."""
