"""The mutating webhook: pods that replace evicted ones get a preference for their target node."""
