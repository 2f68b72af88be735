"""`rescheduler crds`: print the CustomResourceDefinitions that moving pods needs."""

import sys


def crds() -> None:
    """Print the CustomResourceDefinitions that moving pods needs.

    To install them: rescheduler crds | kubectl apply -f -
    """
    from rescheduler.install.manifests import stream
    from rescheduler.migration.memory.move_record_crd import ALL_CRDS

    sys.stdout.write(stream(ALL_CRDS))
