"""What an installation consists of: rights, objects, options, and the files that ship them.

Everything in `deploy/` and `charts/` is generated from here, so both install the same. Each object
is declared once, as a tree with switches and options in it (`tree.py`). The tree is then either
resolved for one set of options, or written as a template of Helm. This package only computes; the
command `rescheduler manifests` prints and writes.
"""
