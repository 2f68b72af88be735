"""Builds the container image: `python -m image`, or `make image`.

The Dockerfile in the root directory is all that docker needs. This package finds the program that
builds, `assemble` puts the files of the image together while it is built, and `debian_base` makes
a base where none can be pulled.
"""
