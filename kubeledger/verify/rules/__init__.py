"""The rules of verification: each states what one part of the kubelet must do."""
