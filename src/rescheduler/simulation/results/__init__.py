"""What a simulation has measured, in the forms in which people and programs read it.

Nothing here measures: `story` does, and its `Result` has everything that is shown here.
"""
