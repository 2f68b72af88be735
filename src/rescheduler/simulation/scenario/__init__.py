"""What is simulated: the cluster at the start, and what happens to it apart from the rescheduler.

A cluster comes from files (`cluster_input`, `object_validation`, `cluster_completion`) or is
generated (`example_cluster`). What happens comes from a workload file: `workload_fields` has every
field, `times` how times are written, `workload_file` reads and checks it. `timeline` turns it into
timed changes before the run starts, so that several policies are compared on the same changes.
Nothing here applies changes, and nothing depends on how the cluster reacts.
"""
