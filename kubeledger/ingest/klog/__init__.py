"""From the bytes of a kubelet's log to lines with a time, a message and values; who wants which."""
