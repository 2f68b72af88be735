"""Measures a run: counts and series that follow every change of the cluster's objects.

`recorder` receives the changes and keeps the others up to date; each other file measures one
thing. Nothing here asks the controller about itself, except for its plans and its log, and
nothing here formats: results are the structs of `results.result`.
"""
