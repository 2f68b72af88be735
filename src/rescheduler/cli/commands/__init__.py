"""The commands, one file each: their options, the calls into other packages, the exit code.

Commands do not import each other. What two commands share is in a file of `cli/`.
"""
