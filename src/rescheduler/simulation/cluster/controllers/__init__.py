"""The controllers of Kubernetes, the scheduler's loop and the kubelets: one file each.

Each does what the real one does, as far as it creates, changes or deletes pods. They see every
change when it happens, queue the key of the object, and reconcile it after a short reaction time.
"""
