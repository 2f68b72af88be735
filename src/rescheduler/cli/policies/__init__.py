"""The policy of a program that runs: read again when its file changes, and kept for restarts."""
