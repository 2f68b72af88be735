"""Every reason that `rescheduler status` can give: a word, what it means, and what to do about it.

`docs/troubleshooting.md` has the same list. Sentences with names and numbers come from those who
found the reason; these are what stays the same.
"""

from enum import StrEnum
from typing import NamedTuple

from rescheduler.planning.plan import NoMovesReason


class Advice(NamedTuple):
    """What a reason means, and what to do about it."""

    meaning: str
    todo: str


class RoundReason(StrEnum):
    """Why a round moved or did not, apart from what a plan without moves says itself."""

    MOVES_REQUESTED = "MovesRequested"
    DRY_RUN = "DryRun"
    MOVES_SKIPPED = "MovesSkipped"
    MOVES_REFUSED = "MovesRefused"
    STALE_VIEW = "StaleView"
    ROUND_FAILED = "RoundFailed"
    NO_ROUND_YET = "NoRoundYet"


class MigrationReason(StrEnum):
    """Why a Migration does not go on, or how it ended."""

    NONE = ""
    PAUSED = "Paused"
    NOT_STARTED = "NotStarted"
    WAITING = "Waiting"
    RETRYING = "Retrying"
    UNDOING = "Undoing"
    FAILED = "Failed"


class ViewReason(StrEnum):
    """What is missing in the view of the cluster, or of the controller."""

    NO_LEASE = "NoLease"
    NOBODY_LEADS = "NobodyLeads"
    LEASE_EXPIRED = "LeaseExpired"
    NOT_LOADED = "NotLoaded"
    KIND_NOT_FOLLOWED = "KindNotFollowed"
    LEADER_IS_NO_POD = "LeaderIsNoPod"
    NO_HEALTH_PORT = "NoHealthPort"
    NO_STATUS_PAGE = "NoStatusPage"
    PORT_FORWARD_FORBIDDEN = "PortForwardForbidden"
    NOT_REACHED = "NotReached"
    NOT_A_STATUS = "NotAStatus"
    OTHER_VERSION = "OtherVersion"
    STANDBY_ANSWERED = "StandbyAnswered"
    CRD_MISSING = "CrdMissing"
    RIGHT_MISSING = "RightMissing"
    API_SERVER_UNAVAILABLE = "ApiServerUnavailable"


_LOOK_AT_LOG = "Look at the log of the leader."
_NOTHING = "Nothing."
_EXPLAIN = "`rescheduler explain NAMESPACE/POD` shows what each node says about it."

ROUND_ADVICE: dict[str, Advice] = {
    RoundReason.MOVES_REQUESTED: Advice("Moves were found and requested.", _NOTHING),
    RoundReason.DRY_RUN: Advice(
        "Moves were found, and not requested, because the controller runs with `--dry-run`.",
        "To move pods, run it without; with Helm, set `dryRun: false`.",
    ),
    RoundReason.MOVES_SKIPPED: Advice(
        "Moves were found, but `maxReschedulePods` earlier ones are not finished.",
        "Wait for them, or raise the limit. If none of them goes on, look at their reasons.",
    ),
    RoundReason.MOVES_REFUSED: Advice(
        "Moves were found, but the API server refused their Migrations.",
        "Read the server's answer: a right is missing, or a policy of the cluster forbids it. "
        "Grant the right, or let the policy accept Migrations; `excludedNamespaces` leaves out "
        "namespaces in which they are not wanted.",
    ),
    RoundReason.STALE_VIEW: Advice(
        "The watches of the cluster are not up to date, so nothing was planned.",
        "See which kind is not followed, and whether the controller reaches the API server.",
    ),
    RoundReason.ROUND_FAILED: Advice("An error ended the round.", _LOOK_AT_LOG),
    RoundReason.NO_ROUND_YET: Advice(
        "The replica has not finished a round since it began to lead.",
        "Wait for a moment. If it stays like that, look at its log.",
    ),
    NoMovesReason.TOO_MANY_PENDING_PODS: Advice(
        "More pods wait for room than `maxPendingPods` allows. Only maintenance goes on.",
        "Find out why pods are pending, or raise the limit.",
    ),
    NoMovesReason.TOO_MANY_UNREADY_NODES: Advice(
        "More nodes are not Ready than `maxUnreadyNodesPercent` allows.",
        "Bring the nodes back, delete those that are gone, or raise the limit.",
    ),
    NoMovesReason.NO_NODES: Advice("The cluster has no nodes.", "Add nodes."),
    NoMovesReason.NOTHING_TO_IMPROVE: Advice(
        "No enabled strategy wants anything changed, or no move would improve it.",
        "Nothing, if you agree. Otherwise see the thresholds in the policy.",
    ),
    NoMovesReason.NOT_WORTH_IT: Advice(
        "A strategy found moves, but gains too little by them.",
        "Nothing. Its options say how much it must gain.",
    ),
    NoMovesReason.UNFINISHED_MOVES: Advice(
        "Every pod that should leave its node is on its way or being deleted, or as many earlier "
        "moves are not finished as `maxReschedulePods` allows.",
        "Wait for them, or raise the limit. If none of them goes on, look at their reasons.",
    ),
    NoMovesReason.MOVES_TURNED_OFF: Advice(
        "`maxReschedulePods` is 0.", "Raise it, if pods are to be moved."
    ),
    NoMovesReason.ONLY_PODS_OF_NODES: Advice(
        "On the nodes that pods should leave, only pods are left that belong to the node.", _NOTHING
    ),
    NoMovesReason.ALL_BLOCKED: Advice(
        "Every pod that should leave its node is blocked.",
        "Look up the reasons that `status` lists, below.",
    ),
    NoMovesReason.OUT_OF_TIME: Advice(
        "`planningTimeout` was over before a move was found.",
        "Raise it, or give the controller more CPU.",
    ),
}

MIGRATION_ADVICE: dict[str, Advice] = {
    MigrationReason.PAUSED: Advice(
        "Its `spec.paused` is true, so it waits.", "Set it to false, or delete the Migration."
    ),
    MigrationReason.NOT_STARTED: Advice(
        "No controller has taken it up, or none could write to it.",
        "See whether a controller leads, and whether the line `Queue` names it with an error.",
    ),
    MigrationReason.WAITING: Advice(
        "It waits for something in the cluster, or for another migration to end; "
        "its message says for what.",
        "Nothing, if that comes by itself. Otherwise mend it.",
    ),
    MigrationReason.RETRYING: Advice(
        "An attempt failed and was undone. It is tried again.",
        "Read its message. The pod runs where it was.",
    ),
    MigrationReason.UNDOING: Advice(
        "An attempt failed, or was cancelled, and is being undone.",
        "Wait. If it takes long, its message says what refuses to be undone.",
    ),
    MigrationReason.FAILED: Advice(
        "It was given up.",
        "Read its message. Its workload is left alone for a while, then planned anew.",
    ),
}

VIEW_ADVICE: dict[str, Advice] = {
    ViewReason.NO_LEASE: Advice(
        "The Lease does not exist, so no controller with leader election runs.",
        "Start one, or name its Lease with `--leader-election-lease`. "
        "A controller without leader election is only reached with `--url`.",
    ),
    ViewReason.NOBODY_LEADS: Advice(
        "The Lease has no holder, so nothing is planned or moved.",
        "See whether the replicas run: `rescheduler doctor`.",
    ),
    ViewReason.LEASE_EXPIRED: Advice(
        "The holder of the Lease has not renewed it in time, and no other replica has taken it.",
        "See whether a replica runs and reaches the API server: `rescheduler doctor`.",
    ),
    ViewReason.NOT_LOADED: Advice(
        "The replica has not read the whole cluster yet.",
        "Wait for a moment. If it stays like that, `status` lists the kinds that fail.",
    ),
    ViewReason.KIND_NOT_FOLLOWED: Advice(
        "A kind of object cannot be listed or watched.",
        "The error says why: a right is missing, or the API server does not answer.",
    ),
    ViewReason.LEADER_IS_NO_POD: Advice(
        "The leader is not a pod in the namespace of its Lease; it may run outside the cluster.",
        "Run it with `--health 127.0.0.1:8080`, and give `status` its address with `--url`.",
    ),
    ViewReason.NO_HEALTH_PORT: Advice(
        "The leader was started without `--health`, so it serves no status.",
        "Start it with `--health=:8080`, as the shipped manifests do.",
    ),
    ViewReason.NO_STATUS_PAGE: Advice(
        "The leader answers, but has no `/status`: it is of an older version.", "Upgrade it."
    ),
    ViewReason.PORT_FORWARD_FORBIDDEN: Advice(
        "You may not forward ports of the leader's pod (`get` and `create` of `pods/portforward`).",
        "Have the right granted, or ask whoever has it.",
    ),
    ViewReason.NOT_REACHED: Advice(
        "The replica did not answer.",
        "See whether it runs, and whether `kubectl port-forward` still does. A NetworkPolicy, or a "
        "firewall between control plane and nodes, may be in the way of the API server.",
    ),
    ViewReason.NOT_A_STATUS: Advice(
        "What answered is no rescheduler.", "Check the address and the port."
    ),
    ViewReason.OTHER_VERSION: Advice(
        "The replica answers in a newer format than this command knows.", "Upgrade this command."
    ),
    ViewReason.STANDBY_ANSWERED: Advice(
        "The replica that was asked does not lead, so it knows nothing about rounds.",
        "Ask the leader: `status` prints the `kubectl port-forward` to it.",
    ),
    ViewReason.CRD_MISSING: Advice(
        "A CustomResourceDefinition is not installed. Without Migrations nothing can be moved; "
        "without MoveRecords past moves are not shown or remembered.",
        "Install them: `rescheduler crds | kubectl apply -f -`.",
    ),
    ViewReason.RIGHT_MISSING: Advice(
        "You may not read something that `status` shows.",
        "Have the right granted that the message names, or do without.",
    ),
    ViewReason.API_SERVER_UNAVAILABLE: Advice(
        "The API server does not answer.", "Check the address and the network; `kubectl` uses both."
    ),
}

_LIMIT = "Wait, or raise the limit."
BLOCKER_ADVICE: dict[str, Advice] = {
    "BarePod": Advice(
        "No controller would recreate the pod.",
        "Give it a controller, or set `allowBarePods: true`.",
    ),
    "BeingDeleted": Advice("It is being deleted already.", _NOTHING),
    "BeingMigrated": Advice(
        "It is being moved already, or has just been moved.", "Nothing, unless it is paused."
    ),
    "Budget": Advice(
        "Its disruption budget allows no eviction, or has too few healthy pods.",
        "See why pods of the budget are not healthy, or allow a disruption.",
    ),
    "DoNotDisrupt": Advice(
        "Its annotation asks not to be disrupted.", "Remove the annotation, if it is wrong."
    ),
    "ExcludedBySelector": Advice(
        "The policy excludes pods with its labels.", "See `excludedPodSelector`."
    ),
    "ExcludedNamespace": Advice("The policy excludes its namespace.", "See `excludedNamespaces`."),
    "JobPod": Advice(
        "It belongs to a Job, which would have to restart its work.", "Set `allowJobPods: true`."
    ),
    "LocalStorage": Advice(
        "It keeps data on its node, which would be lost.", "Set `allowLocalStorage: true`."
    ),
    "MoveLimit": Advice("The round has as many moves as `maxReschedulePods` allows.", _LIMIT),
    "MoveUnderWay": Advice(
        "A move is under way that counts for the same spread or affinity rules.", "Wait for it."
    ),
    "NamespaceLimit": Advice(
        "`maxMovesPerNamespace` lets only so many pods of a namespace move at once.", _LIMIT
    ),
    "NoGain": Advice("Nothing would be gained that is worth a move.", _NOTHING),
    "NoNodeFits": Advice("No other node accepts it.", _EXPLAIN),
    "NodeLimit": Advice(
        "`maxMovesPerNode` lets only so many pods leave or reach a node at once.", _LIMIT
    ),
    "NodeMissing": Advice("Its node is not known: it may be just deleted.", "Wait for a moment."),
    "NotReady": Advice(
        "It is not Ready, so something is wrong with it already.", "Look at the pod."
    ),
    "NotRunning": Advice("It is not running yet.", "Wait, or look at the pod."),
    "NotSafeToEvict": Advice(
        "Its annotation says that it is not safe to evict.",
        "Remove the annotation, if it is wrong.",
    ),
    "NotScheduled": Advice("It has no node yet.", "See why it is pending."),
    "OneAtATime": Advice(
        "Another pod of its workload is evicted, and one goes at a time.", "Wait for it."
    ),
    "OwnerGone": Advice(
        "Its owner is gone or being deleted, so nothing would replace it.",
        "Delete it, or give it an owner.",
    ),
    "PodGroup": Advice(
        "Its pod group leaves together, and not all of it can.", "The detail names the one."
    ),
    "RecentlyMoved": Advice(
        "It was just moved, or an earlier move of its workload failed or came back.",
        "Wait; `rescheduler history` shows what happened.",
    ),
    "ReschedulingDisabled": Advice(
        "Its label disables rescheduling.", "Remove the label, if it is wrong."
    ),
    "ResourceClaims": Advice(
        "It uses devices through resource claims, which are not supported.", _NOTHING
    ),
    "RolloutStuck": Advice(
        "The rollout of its Deployment does not go on.",
        "Mend or undo the rollout; the conditions of the Deployment say what it waits for.",
    ),
    "SeveralBudgets": Advice(
        "Several budgets cover it, and the API evicts no such pod.", "Leave one budget."
    ),
    "SingleReplica": Advice(
        "It is the only one of its workload and cannot be handed over.",
        "Run two replicas, or allow surge.",
    ),
    "SystemPod": Advice("It is part of the system.", _NOTHING),
    "TooYoung": Advice("It is younger than `minPodAge`.", "Wait, or lower it."),
    "UnreadableObject": Advice(
        "An object that may protect it cannot be decoded.",
        "The detail names the object: mend it, or report it.",
    ),
    "WorkloadLimit": Advice(
        "`maxMovesPerWorkload` lets only so many pods of a workload move at once.", _LIMIT
    ),
    "WorkloadNotReady": Advice(
        "Its workload has a pod that is missing or not Ready.", "Look at that pod."
    ),
    "WorkloadWaits": Advice(
        "An earlier move of its workload has not started yet.", "See what that one waits for."
    ),
}

ALL_ADVICE: dict[str, dict[str, Advice]] = {
    "Why a round moved, or did not": ROUND_ADVICE,
    "Why a migration does not go on": MIGRATION_ADVICE,
    "Why something is not shown": VIEW_ADVICE,
    "Why a pod stays": BLOCKER_ADVICE,
}
"""By the heading that they have in the documents."""
