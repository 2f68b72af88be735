"""Builds the container image: `python -m image`, or `make image`.

Nothing runs inside the image while it is built, so that it can be built for another architecture.
`base` has Python from Debian's packages, `packages` what is ours and what it depends on, `sbom` the
list of all of it, and `builders` the program that makes an image of it.
"""
