"""What is known of the Services in front of the pods that are moved."""
