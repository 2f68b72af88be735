"""`rescheduler crds`: what has to be installed in a cluster before pods can be moved."""

import sys


def crds() -> None:
    """Print the kinds that moving pods needs, for: rescheduler crds | kubectl apply -f -"""
    import yaml

    from rescheduler.migration.crd import CRD

    class Plain(yaml.CSafeDumper):
        """Writes equal parts out again: anchors are hard to read, and some tools refuse them."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {str(key): plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return str(value) if isinstance(value, str) else value

    sys.stdout.write(yaml.dump(plain(CRD), Dumper=Plain, sort_keys=False))
