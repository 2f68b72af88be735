"""Jobs: `completions` pods that succeed, at most `parallelism` at a time."""

from datetime import timedelta

from rescheduler.labels import JOB_CONTROLLER_UID, JOB_NAME, OLD_JOB_NAME
from rescheduler.simulation.cluster.controllers.base import Controller
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    condition_of,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    parse_time,
    phase_of,
    reference_to,
    uid_of,
    with_conditions,
)
from rescheduler.simulation.cluster.pod_admission import with_pod_defaults
from rescheduler.simulation.cluster.resources import BY_NAME

PODS, JOBS = BY_NAME["Pod"], BY_NAME["Job"]


class JobController(Controller):
    """Keeps as many pods running as completions are left. A failed pod is replaced."""

    def start_watching(self) -> None:
        self.watch("Job", with_status=True)

    def reconcile(self, key: str) -> None:
        job = self.store.get("Job", key)
        if job is None or is_deleting(job):
            return
        if condition_of(job, "Complete") is not None:
            self._expire(job)
            return
        pods = self.indexes.pods_owned_by(uid_of(job))
        succeeded = sum(phase_of(pod) == "Succeeded" for pod in pods)
        active = [pod for pod in pods if is_active(pod)]
        desired = self._desired_active(job, succeeded, len(active))
        if job["spec"].get("template"):
            for _ in range(desired - len(active)):
                self._create_pod(job)
            for pod in active[: max(0, len(active) - desired)]:
                self.registry.delete(PODS, key_of(pod))
        self._write_status(job, pods, succeeded)

    def _desired_active(self, job: Json, succeeded: int, active: int) -> int:
        """How many pods should run now."""
        if job["spec"].get("suspend"):
            return 0
        parallelism: int = job["spec"].get("parallelism", 1)
        completions = job["spec"].get("completions")
        if completions is None and "parallelism" not in job["spec"]:
            completions = 1
        if completions is None:
            return active if succeeded else parallelism
        return max(0, min(parallelism, int(completions) - succeeded))

    def _create_pod(self, job: Json) -> None:
        template = job["spec"]["template"]
        own = template.get("metadata") or {}
        name = job["metadata"]["name"]
        labels = {JOB_CONTROLLER_UID: uid_of(job), JOB_NAME: name, OLD_JOB_NAME: name}
        metadata = {
            **{key: value for key, value in own.items() if value},
            "generateName": f"{name}-",
            "labels": {**(own.get("labels") or {}), **labels},
            "ownerReferences": [reference_to(job)],
        }
        spec = {"restartPolicy": "Never", **template["spec"]}
        body = {"metadata": metadata, "spec": with_pod_defaults(spec, self.store)}
        self.registry.create(PODS, job["metadata"]["namespace"], body)

    def _write_status(self, job: Json, pods: list[Json], succeeded: int) -> None:
        job = self.store.all("Job")[key_of(job)]
        current = self.indexes.pods_owned_by(uid_of(job))
        active = [pod for pod in current if is_active(pod)]
        status = {
            **job["status"],
            "startTime": job["status"].get("startTime") or self.registry.now(),
            "active": len(active),
            "ready": sum(map(is_ready, active)),
            "succeeded": succeeded,
            "failed": sum(phase_of(pod) == "Failed" for pod in pods),
        }
        if not active and succeeded and not job["spec"].get("suspend"):
            now = self.registry.now()
            status = with_conditions(status, [condition("Complete", "True", now)])
            status["completionTime"] = now
        self.registry.set_status("Job", key_of(job), status)

    def _expire(self, job: Json) -> None:
        """Delete a finished job after its ttlSecondsAfterFinished."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        ends = parse_time(job["status"]["completionTime"]) + timedelta(seconds=seconds)
        left = (ends - self.clock.now()).total_seconds()
        if left > 0:
            self.enqueue_after(key_of(job), left)
        else:
            self.registry.delete(JOBS, key_of(job))
