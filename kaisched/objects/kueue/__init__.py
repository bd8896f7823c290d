"""Kueue's objects: read, checked, and turned into queues and the pods of jobs.

``wire`` holds the structs, ``faults`` their checks, ``tree`` makes queues of ClusterQueues and
Cohorts, ``work`` tells Jobs and Pods their queue. docs/reference/kueue-objects.md has the rules.
"""
