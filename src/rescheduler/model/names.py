"""What the name of an object looks like.

Names also reach us from annotations, owner references and requests, which anyone may fill with
anything. A text that cannot be a name belongs to no object.
"""

import re

DNS_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""A DNS subdomain: every kind of object that we read or write has such names."""
MAX_NAME_LENGTH = 253

_NAME = re.compile(DNS_NAME, re.ASCII)


def is_object_name(text: str) -> bool:
    """Whether an object may have this name."""
    return len(text) <= MAX_NAME_LENGTH and _NAME.fullmatch(text) is not None
