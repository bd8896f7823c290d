"""Usage history of queues: the port, its stores, and the windows that count."""
