"""Files that users give us: cluster files and policy files, read, checked and anonymized.

`documents` turns bytes into plain data, `conversion` turns plain data into structs, and
`invalid_value` describes what is wrong with a value. `cluster_file` reads and writes clusters,
`policy_file` reads policies, `local_files` opens and writes the files themselves. The options, with
their defaults, are in `settings`; workload files belong to the simulation.
"""
