def main() -> None:
    """Entry."""
