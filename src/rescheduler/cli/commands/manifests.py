"""`rescheduler manifests`: print what installs the rescheduler in a cluster."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rescheduler.errors import SettingsError


class Extent(StrEnum):
    """How much is installed."""

    FULL = "full"
    CONTROLLER_ONLY = "controller-only"
    READ_ONLY = "read-only"


def manifests(
    install: Annotated[
        Extent,
        typer.Option(
            help="full: controller, extender and webhook. "
            "controller-only: moves pods, serves nothing. "
            "read-only: only plans, and has no right to write."
        ),
    ] = Extent.FULL,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace to install in.")
    ] = "rescheduler",
    image: Annotated[
        str,
        typer.Option(
            metavar="IMAGE[:TAG]", help="Image of the rescheduler, with the registry. Required."
        ),
    ] = "",
    scheduler_image: Annotated[
        str,
        typer.Option(
            metavar="IMAGE:TAG",
            help="Add a second kube-scheduler that calls the extender, with this image, of the "
            "version of the cluster.",
        ),
    ] = "",
    cert_manager: Annotated[
        bool,
        typer.Option(
            "--cert-manager", help="Let cert-manager issue the certificates. It must be installed."
        ),
    ] = False,
    monitoring: Annotated[
        bool,
        typer.Option(
            "--monitoring",
            help="Add a PodMonitor and alert rules for the Prometheus operator, which must be "
            "installed, and a dashboard for Grafana.",
        ),
    ] = False,
    admission_policies: Annotated[
        bool,
        typer.Option(
            "--admission-policies",
            help="Add policies that let the account of the controller write only what it has to. "
            "They need Kubernetes 1.30.",
        ),
    ] = False,
    kustomize: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a kustomization to this directory instead."),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a Helm chart to this directory instead."),
    ] = None,
) -> None:
    """Print all objects that install the rescheduler.

    To install it: rescheduler manifests --image … | kubectl apply --server-side -f -
    """
    from rescheduler.install.chart import chart_files
    from rescheduler.install.kustomize import kustomize_files
    from rescheduler.install.manifests import resolved_files, stream
    from rescheduler.install.metadata import CONTROLLER
    from rescheduler.install.options import missing_image
    from rescheduler.model.names import is_object_name

    if not is_object_name(namespace):
        raise SettingsError(f"--namespace {namespace!r}: expected the name of a namespace")
    if kustomize is not None:
        write_files(kustomize, kustomize_files())
    if chart is not None:
        write_files(chart, chart_files())
    if kustomize is None and chart is None:
        if cert_manager and install is not Extent.FULL:
            raise SettingsError(f"--cert-manager: an install that is {install} has no certificates")
        if scheduler_image and install is not Extent.FULL:
            raise SettingsError(f"--scheduler-image: an install that is {install} has no extender")
        options = chosen_options(install, image, scheduler_image)
        if not options["image.repository"]:
            raise SettingsError(missing_image("--image", CONTROLLER))
        options["certManager.enabled"] = cert_manager
        options["admissionPolicies.enabled"] = admission_policies
        for part in ("podMonitor", "alerts", "dashboard"):
            options[f"monitoring.{part}"] = monitoring
        objects = resolved_files(options, namespace).values()
        sys.stdout.write("---\n".join(map(stream, objects)))


def chosen_options(install: Extent, image: str, scheduler_image: str) -> dict[str, object]:
    """The options of the installation that differ from their defaults."""
    return {
        "dryRun": install is Extent.READ_ONLY,
        "extender.enabled": install is Extent.FULL,
        "scheduler.enabled": bool(scheduler_image),
        **image_options("image", image),
        **image_options("scheduler.image", scheduler_image),
    }


def image_options(path: str, image: str) -> dict[str, object]:
    """The options that name an image."""
    whole, _, digest = image.partition("@")
    # A colon before the last slash belongs to the port of a registry.
    folder, slash, name = whole.rpartition("/")
    name, _, tag = name.partition(":")
    repository = f"{folder}{slash}{name}"
    return {f"{path}.repository": repository, f"{path}.tag": tag, f"{path}.digest": digest}


def write_files(directory: Path, files: dict[str, str]) -> None:
    """Write files, with the directories that they are in."""
    try:
        for name, content in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    except OSError as error:
        raise SettingsError(f"{directory}: cannot write there: {error.strerror}") from error
