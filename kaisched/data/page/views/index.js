// The views in the order of their tabs.

import { cycles } from "./cycles.js";
import { evictions } from "./evictions.js";
import { fairness } from "./fairness.js";
import { jobs } from "./jobs.js";
import { nodes } from "./nodes.js";
import { overview } from "./overview.js";
import { queues } from "./queues.js";
import { whatif } from "./whatif.js";

export const VIEWS = [overview, queues, nodes, jobs, evictions, fairness, cycles, whatif];
