"""Objects that people write (queues, pod groups, shards, pods, nodes) as typed values.

This is the project's only decoder. Texts and API answers become structs here, or an ObjectError
that says where the fault is and how to fix it. The package knows no cluster, clock or policy.
"""
