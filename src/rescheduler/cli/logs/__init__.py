"""The log on standard error: text for people, JSON for programs, and how much of it.

`log_output` sets it up and follows the policy. `text_format` and `json_format` write one record
each, and `log_fields` says which fields a record has.
"""
