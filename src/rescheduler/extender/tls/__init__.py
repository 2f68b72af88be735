"""The certificates that the extender serves with: from files or issued by us, and renewed."""
