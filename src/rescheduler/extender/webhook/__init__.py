"""The mutating webhook: pods that replace evicted ones are steered to their target node."""
