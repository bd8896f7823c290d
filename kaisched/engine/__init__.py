"""Engine: turns a shard into a policy, and takes turns (source, snapshot, cycle, sink)."""
