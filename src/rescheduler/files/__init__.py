"""Files that people hand us: cluster files and policy files, read, checked and anonymized.

`documents` turns bytes into plain data, `conversion` turns plain data into structs, and `problems`
describes what is wrong with a value. `cluster_file` reads and writes clusters, `policy_file` reads
policies. The options themselves, with their defaults, are in `settings`; workload files belong to
the simulation.
"""
