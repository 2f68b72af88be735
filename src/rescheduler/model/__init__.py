"""The cluster as data.

Here are the parts of Kubernetes objects that we read, what their fields mean, the tables that
lists and watches fill, and the snapshot that planning works on. Everything is pure: no I/O, no
clock, no logging, and no opinion about what would be better placed elsewhere.
"""
