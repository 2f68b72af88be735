"""`rescheduler crds`: print the CustomResourceDefinitions that moving pods needs."""

import sys


def crds() -> None:
    """Print the CustomResourceDefinitions that moving pods needs.

    To install them: rescheduler crds | kubectl apply -f -
    """
    import yaml

    from rescheduler.migration.memory.move_record_crd import ALL_CRDS

    class DumperWithoutAliases(yaml.CSafeDumper):
        """Repeats equal parts: YAML anchors are hard to read, and some tools reject them."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def plain(value: object) -> object:
        """The value without subclasses of str, which the dumper does not know."""
        if isinstance(value, dict):
            return {str(key): plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return str(value) if isinstance(value, str) else value

    bodies = [plain(crd) for crd in ALL_CRDS]
    sys.stdout.write(yaml.dump_all(bodies, Dumper=DumperWithoutAliases, sort_keys=False))
