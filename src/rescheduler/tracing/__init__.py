"""Traces of migrations, for OpenTelemetry: a span per migration, and a child per step.

`migration_spans` says which spans a change of a Migration has ended; it knows no library.
`span_exporter` sends them. OpenTelemetry is an extra: it is imported there alone, and only when
`switch` finds that somebody asked for traces.
"""
