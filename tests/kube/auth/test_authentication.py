"""When an identity is loaded again."""

from rescheduler.kube.auth.authentication import Authentication, ClientIdentity
from rescheduler.kube.auth.token_file import TOKEN_FILE_SECONDS


async def test_an_identity_is_loaded_again_when_its_time_is_over() -> None:
    now, loaded = [0.0], []

    async def load() -> ClientIdentity:
        loaded.append(now[0])
        return ClientIdentity(f"Bearer {now[0]}", good_for_seconds=TOKEN_FILE_SECONDS)

    authentication = Authentication(load, clock=lambda: now[0])
    for now[0] in (0.0, 59.0, 60.0, 100.0, 200.0):
        await authentication.identity()
    assert loaded == [0.0, 60.0, 200.0]
    # Another call was rejected earlier, and has renewed it already.
    renewed = await authentication.after_rejection(ClientIdentity("Bearer old"))
    assert renewed.authorization == "Bearer 200.0"
    assert loaded == [0.0, 60.0, 200.0]
