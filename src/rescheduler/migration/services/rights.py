"""Whether we may read what pods need to leave their Services."""

import msgspec

from rescheduler.errors import ApiError, Forbidden, SettingsError
from rescheduler.kube.api_server import ApiServer
from rescheduler.migration.services.endpoint_slices import ENDPOINT_SLICE
from rescheduler.model.kinds import SERVICE
from rescheduler.settings import MigrationOptions


async def check_service_rights(server: ApiServer, options: MigrationOptions) -> None:
    """Raise an error before anything is changed if a right is missing.

    Otherwise every move of a pod behind a Service would start, fail and be undone. Whatever else
    is wrong with the server shows elsewhere.
    """
    if not options.leave_services_seconds:
        return
    for kind in (SERVICE, ENDPOINT_SLICE):
        try:
            await server.get(kind.path, msgspec.Raw, {"limit": "1"})
        except Forbidden as error:
            raise SettingsError(
                f"{kind.plural}: the right to list them is missing ({error.answer}). Pods leave "
                "their Services before they are stopped; grant it, or switch that off in the "
                "policy with migration.leaveServices: 0s"
            ) from error
        except ApiError:
            return
