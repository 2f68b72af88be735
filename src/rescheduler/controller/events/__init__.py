"""Kubernetes Events as sentences: about migrations and their pods, and about nodes."""
