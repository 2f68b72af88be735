"""Certificates that the extender serves with, from files or issued by us, and kept fresh."""
