"""The most there was of something since someone last looked."""


class Peak:
    """Follows a number; what lasts seconds is not missed by who looks every minute."""

    def __init__(self) -> None:
        self.now = 0
        self._most = 0

    def follow(self, now: int) -> None:
        """The number is this now."""
        self.now = now
        self._most = max(self._most, now)

    def taken(self) -> int:
        """The most there was; from now on only what comes counts."""
        most, self._most = self._most, self.now
        return most
