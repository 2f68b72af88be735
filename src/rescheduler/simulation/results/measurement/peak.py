"""The highest value of a number between two samples."""


class Peak:
    """A number that may rise and fall between two samples, and the highest it has been."""

    def __init__(self) -> None:
        self.now = 0
        self._highest = 0

    def set(self, now: int) -> None:
        """The number has changed."""
        self.now = now
        self._highest = max(self._highest, now)

    def take(self) -> int:
        """The highest since the last call; the next call starts from the number as it is now."""
        highest, self._highest = self._highest, self.now
        return highest
