"""What the CRD schema says of the node affinity of queues; it repeats ``queue_affinity``."""

from __future__ import annotations

from typing import Final

from kaisched.objects.crd_parts import LABEL_KEY, cel, rules, says
from kaisched.objects.crd_schema import Rules
from kaisched.objects.queue import NodeAffinityTerm, NodeLabelRequirement, QueueNodeAffinity

AFFINITY_RULES: Final[Rules] = {
    QueueNodeAffinity: {
        "workloads": says("Types of workload that it is about; all if left out."),
        "terms": says("Of these at least one must hold.", minItems=1, maxItems=16),
    },
    NodeAffinityTerm: {
        "match_expressions": says("All of these must hold.", minItems=1, maxItems=16),
    },
    NodeLabelRequirement: {
        "": rules(
            cel(
                "self.operator in ['Exists', 'DoesNotExist'] ? (!has(self.values) ||"
                " size(self.values) == 0) : (has(self.values) && size(self.values) > 0)",
                "In, NotIn, Gt and Lt need values; Exists and DoesNotExist take none",
            ),
            cel(
                "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1"
                " && self.values[0].matches('^-?[0-9]{1,18}$'))",
                "Gt and Lt compare with one whole number",
            ),
        ),
        "key": says("The name of a label.", pattern=LABEL_KEY, maxLength=316),
        "operator": says("How the label is compared."),
        "values": says(
            "Of In and NotIn at least one, of Gt and Lt one whole number, of the others none.",
            items={"type": "string", "maxLength": 63},
        ),
    },
}
