"""Rows of the workload table that need no plugin.

Sources: KAI-Scheduler's pod grouper for the rules, the projects' own API references for the fields.
"""

from __future__ import annotations

from typing import Final

from kaisched.objects import labels
from kaisched.objects.gang_segments import leader_worker_set, pytorch
from kaisched.objects.gang_sizes import job_set, kubeflow, mpi, ray
from kaisched.objects.grove import pod_gang
from kaisched.objects.workloads import Workload, table_of

INFERENCE: Final = "inference"

WORKLOADS: Final = (
    Workload("batch/v1", "jobs", "Job"),
    Workload("batch/v1", "cronjobs", "CronJob", "through"),
    Workload("apps/v1", "replicasets", "ReplicaSet", "each", priority_class=INFERENCE),
    Workload("apps/v1", "deployments", "Deployment", "through"),
    Workload("apps/v1", "statefulsets", "StatefulSet"),
    Workload(
        "jobset.x-k8s.io/v1alpha2",
        "jobsets",
        "JobSet",
        read=job_set,
        subgroup_labels=(labels.REPLICATED_JOB, labels.JOB_INDEX),
    ),
    Workload(
        "leaderworkerset.x-k8s.io/v1",
        "leaderworkersets",
        "LeaderWorkerSet",
        read=leader_worker_set,
        index_label=labels.GROUP_INDEX,
        segment_label=labels.WORKER_INDEX,
        size_annotation=labels.GROUP_SIZE,
    ),
    Workload(
        "kubeflow.org/v1",
        "pytorchjobs",
        "PyTorchJob",
        read=pytorch,
        subgroup_labels=(labels.REPLICA_TYPE,),
        segment_label=labels.REPLICA_INDEX,
    ),
    Workload("kubeflow.org/v1", "tfjobs", "TFJob", read=kubeflow("tfReplicaSpecs")),
    Workload("kubeflow.org/v1", "xgboostjobs", "XGBoostJob", read=kubeflow("xgbReplicaSpecs")),
    Workload("kubeflow.org/v1", "jaxjobs", "JAXJob", read=kubeflow("jaxReplicaSpecs")),
    Workload(
        "kubeflow.org/v2beta1", "mpijobs", "MPIJob", read=mpi, other_versions=("kubeflow.org/v1",)
    ),
    Workload("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob", "through"),
    Workload(
        "ray.io/v1",
        "rayclusters",
        "RayCluster",
        read=ray,
        priority_label=labels.RAY_PRIORITY_CLASS,
        subgroup_labels=(labels.RAY_GROUP,),
    ),
    Workload("ray.io/v1", "rayjobs", "RayJob", "through"),
    Workload("ray.io/v1", "rayservices", "RayService", "through"),
    Workload(
        "scheduler.grove.io/v1alpha1",
        "podgangs",
        "PodGang",
        read=pod_gang,
        name_label=labels.POD_GANG,
        subgroup_labels=(labels.POD_CLIQUE,),
    ),
    Workload("argoproj.io/v1alpha1", "workflows", "Workflow", "through"),
    Workload("tekton.dev/v1", "taskruns", "TaskRun", "through"),
    Workload("tekton.dev/v1", "pipelineruns", "PipelineRun", "through"),
    Workload("nvidia.com/v1alpha1", "dynamographdeployments", "DynamoGraphDeployment", "through"),
    Workload(
        "nvidia.com/v1alpha1", "dynamocomponentdeployments", "DynamoComponentDeployment", "through"
    ),
)
KNOWN: Final = table_of(WORKLOADS)
