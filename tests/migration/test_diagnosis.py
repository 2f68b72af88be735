"""What people read about a new pod that does not become Ready: statuses as kubelets write them."""

from typing import Any

import msgspec
import pytest

from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine.diagnosis import not_ready_reason, permanent_failure

OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
EXIT_1 = {"terminated": {"exitCode": 1, "reason": "Error"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
NO_IMAGE = {
    "waiting": {"reason": "ErrImageNeverPull", "message": 'Container image "app:1" is not present'}
}
BACK_OFF = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "app:1"'}}
CRASHING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


def pod_with(
    state: dict[str, Any], restarts: int = 0, last: dict[str, Any] | None = None
) -> MovingPod:
    """A pod on the node `target`, with one container in this state."""
    container = {
        "name": "app",
        "state": state,
        "restartCount": restarts,
        "lastState": last or {},
    }
    ready = {
        "type": "Ready",
        "status": "False",
        "message": "containers with unready status: [app]",
    }
    return msgspec.convert(
        {
            "metadata": {"name": "new", "namespace": "shop", "uid": "1"},
            "spec": {"nodeName": "target"},
            "status": {
                "phase": "Running",
                "conditions": [ready],
                "containerStatuses": [container],
            },
        },
        MovingPod,
    )


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (
            pod_with(NO_IMAGE),
            "new pod new cannot start: ErrImageNeverPull on target: "
            'Container image "app:1" is not present',
        ),
        (
            pod_with(CRASHING, 4, EXIT_1),
            "new pod new keeps crashing: container app has been restarted 4 times on target, "
            "and ended with exit code 1",
        ),
        (
            pod_with(OOM, 1, OOM),
            "new pod new keeps crashing: container app has been restarted once on target, "
            "and ended with OOMKilled, exit code 137",
        ),
    ],
)
def test_a_new_pod_that_will_never_be_ready_is_given_up_with_the_reason(
    pod: MovingPod, reason: str
) -> None:
    assert permanent_failure(pod) == reason


@pytest.mark.parametrize(
    "pod",
    [
        pod_with(BACK_OFF),
        pod_with(EXIT_1),
        pod_with(RUNNING, 1, OOM),
        pod_with(DONE, 1, EXIT_1),
    ],
    ids=["its image is pulled again", "crashed once", "restarted", "an init container"],
)
def test_a_new_pod_that_may_still_become_ready_is_awaited(pod: MovingPod) -> None:
    assert permanent_failure(pod) == ""


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (pod_with(BACK_OFF), 'ImagePullBackOff on target: Back-off pulling image "app:1"'),
        (pod_with(EXIT_1), "container app has ended on target with exit code 1"),
        (pod_with(RUNNING, 1, OOM), "containers with unready status: [app] on target"),
    ],
)
def test_the_reason_is_the_most_specific_that_the_kubelet_reports(
    pod: MovingPod, reason: str
) -> None:
    assert not_ready_reason(pod) == reason
