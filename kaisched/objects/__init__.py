"""Objects that people write (queues, pod groups, shards, pods, nodes) as typed values.

This is the project's only decoder. Texts and API answers become structs here, or an ObjectError
that says where the fault is and how to fix it. The package knows no cluster, clock or policy.
"""

from kaisched.objects.node import Node as Node
from kaisched.objects.owners import Deployment as Deployment
from kaisched.objects.owners import Job as Job
from kaisched.objects.owners import PriorityClass as PriorityClass
from kaisched.objects.owners import ReplicaSet as ReplicaSet
from kaisched.objects.owners import StatefulSet as StatefulSet
from kaisched.objects.pod import Pod as Pod
from kaisched.objects.podgroup import PodGroup as PodGroup
from kaisched.objects.queue import Queue as Queue
from kaisched.objects.shard import SchedulingShard as SchedulingShard
from kaisched.objects.topology import Topology as Topology
