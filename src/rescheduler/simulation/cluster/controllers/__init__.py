"""The controllers of Kubernetes, and the nodes: one file each.

Each does what the real one does, as far as pods come and go by it. They see every change in the
moment it happens and act a moment later, on the keys of the objects they are about.
"""
