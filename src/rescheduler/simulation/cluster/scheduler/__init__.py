"""The scheduler of the simulated cluster: places pods as kube-scheduler's default profile does.

`planning.feasibility` decides on which nodes a pod may run; `node_filter` asks it with and without
the pods that are nominated to these nodes. Which of them it gets is decided here: `plugins` has a
file for each score plugin of kube-scheduler 1.37, with its integer arithmetic.
Nothing here talks to a server: `controllers.scheduler_loop` binds the pods.

Not here: ImageLocality (our model has no images; it matters only where nodes list theirs), the
scores of VolumeBinding and DynamicResources (for pods whose volumes are still to be created, and
for pods with resource claims), preemption, and pods with ephemeral volumes, which stay pending.
"""
