"""What commands print, one file per thing that is shown: tables, charts, progress.

A view gets results and a console. It computes nothing, and knows no options.
"""
