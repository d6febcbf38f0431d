"""``python -m kubeledger``: the same as the ``kubeledger`` script."""

from kubeledger.cli.main import run

run()
