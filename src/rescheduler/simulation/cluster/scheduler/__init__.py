"""The scheduler of the cluster in memory: places pods as kube-scheduler's default profile does.

Where a pod may run is what `planning.feasibility` says. Which of those nodes it gets is decided
here, in a file for each score plugin of kube-scheduler 1.36, named after it, with its whole-number
arithmetic. Nothing here talks to a server: whoever has the tables binds the pods.

Not here: ImageLocality (our model has no images; it matters only where nodes list theirs), the
scores of VolumeBinding and DynamicResources (off, or for pods with resource claims), preemption,
and pods with ephemeral volumes, which wait for ever.
"""
