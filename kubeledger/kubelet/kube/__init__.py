"""The slice of the Kubernetes API that kubeledger reads."""
