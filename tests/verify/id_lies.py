"""Lies about the IDs and grace periods in lines about starts, kills and ends."""

from __future__ import annotations

import hashlib

from tests.verify.lies import CONTRADICTED, Edit, Lie

__all__ = ["DAILY_IDS", "NIGHTLY_IDS"]

LOG = "kubelet.log"
A, B = "node-a", "node-b"


def _lie(node: str, pod: str, words: str, told: str) -> Lie:
    """The first digit of the ID in the line changed: nothing rests on that, both are told."""
    lie = format((int(told[0], 16) + 1) % 16, "x") + told[1:]
    edit = Edit(LOG, words + told, words + told, words + lie)
    name = f"ID behind {words}{told}"
    return Lie(name, node, (edit,), CONTRADICTED, f"pod/default/{pod}", lie)


def _event(node: str, pod: str, kind: str, told: str) -> Lie:
    words = f'Type:"{kind}", Data:"' if node == A else f'"Type":"{kind}","Data":"'
    return _lie(node, pod, words, told)


def _replaced(node: str, pod: str, told: str) -> Lie:
    """The whole ID in the line of a start is another one, of which nothing else tells."""
    lie = hashlib.sha256(told.encode()).hexdigest()
    words = 'Type:"ContainerStarted", Data:"' if node == A else '"Type":"ContainerStarted","Data":"'
    edit = Edit(LOG, words + told, told, lie)
    name = f"the whole ID behind ContainerStarted {told[:8]}"
    return Lie(name, node, (edit,), CONTRADICTED, f"pod/default/{pod}", lie)


def _misplaced(node: str, pod: str, kind: str, told: str, lie: str) -> Lie:
    """The ID in a line is that of a container of another pod."""
    words = f'Type:"{kind}", Data:"' if node == A else f'"Type":"{kind}","Data":"'
    name = f"another pod's container behind {kind} {told[:8]}"
    edit = Edit(LOG, words + told, told, lie)
    return Lie(name, node, (edit,), CONTRADICTED, f"pod/default/{pod}", lie)


def _kill(node: str, pod: str, told: str) -> Lie:
    words = 'Killing container "containerd://' if node == A else ' containerID="containerd://'
    return _lie(node, pod, words, told)


DAILY_IDS = (
    _event(B, "startup-never-node-b", "ContainerDied", "8f6b6344"),
    _kill(A, "filler-c", "49485939"),
    _replaced(
        A, "guaranteed-1", "772820fbe916d62392fae3c387197143ce3860895f80e44f315a1b7d03df0d40"
    ),
    _misplaced(
        A,
        "live-fail",
        "ContainerStarted",
        "bba7be9afe61fceea437c22a6bd1bf870f2ece8e18b768f76c81af38a4ea6d8c",
        "05bab7ec44a3e78251dff1f2e46b986c0c9e7decd6b720bc7e17771c1d2fdbf7",
    ),
    Lie(
        "grace period a kill was given",
        B,
        (
            Edit(
                LOG,
                '"Killing container with a grace period override" pod="default/filler-a-node-b"',
                "gracePeriod=2",
                "gracePeriod=30",
            ),
        ),
        CONTRADICTED,
        "pod/default/filler-a-node-b",
        "30 s",
    ),
)
"""Caught in every run."""

NIGHTLY_IDS = (
    _misplaced(
        A,
        "filler-c",
        "ContainerDied",
        "49485939fdd511545c98b03a9fdcb824564f2ac71ada2ce40071a013583526f5",
        "81a953395da4e6b49854aabcae512198e8cf78cf0a2edf0be0d935212b9bfe2a",
    ),
    _misplaced(
        A,
        "live-fail",
        "ContainerDied",
        "bba7be9afe61fceea437c22a6bd1bf870f2ece8e18b768f76c81af38a4ea6d8c",
        "a70cf3c0be34bfa6aa986769d87f727ad4456a02e44c01846be6d35b3d397e62",
    ),
    _misplaced(
        B,
        "live-fail-node-b",
        "ContainerStarted",
        "b3122ab1e17b015cd87deb54088dda5cdedffcdb012417875a8a9b72f0eba2e0",
        "0da8b337225340745920325915d0cdcd3ed76da83cd1895719089eb12a6dddba",
    ),
    _misplaced(
        B,
        "startup-never-node-b",
        "ContainerDied",
        "ac00ea1042589ecf606b71fb77e4a55a88c79bfa87a7468317a6395d54c3a9cf",
        "1b6c93a0d949d02c8b7635aa6d006c873e4abede22d4ae861e3d5fc5506c5f4a",
    ),
    _replaced(A, "http-probe", "05bab7ec44a3e78251dff1f2e46b986c0c9e7decd6b720bc7e17771c1d2fdbf7"),
    _replaced(
        A, "guaranteed-1", "b2fa099edc2298d073f69e29170093b76f6da8f003f8cbaa33fbbc8a4699567d"
    ),
    _replaced(
        B,
        "startup-never-node-b",
        "c90d106716345248e9605a6c0ef6ed99928e2d9b2aaa82941d9df51ed90bf32a",
    ),
    _replaced(
        B, "guaranteed-1-node-b", "50e4218f39893076f9efd3383ae100cb8d32266854eb5b14fdb2fd2b80f846d7"
    ),
    _replaced(
        B, "startup-slow-node-b", "2418a8233b1469be82e64079e7bb031e33e001eefa68d02922a0d09b302ca64f"
    ),
    _event(B, "live-fail-node-b", "ContainerDied", "940431cd"),
    _event(B, "startup-never-node-b", "ContainerDied", "07ab10b9"),
    _event(B, "live-fail-node-b", "ContainerDied", "3f0ac4e7"),
    _event(B, "startup-never-node-b", "ContainerDied", "29262088"),
    _event(B, "startup-never-node-b", "ContainerDied", "a7f11bbd"),
    _event(B, "filler-a-node-b", "ContainerDied", "7dd2f313"),
    _event(B, "startup-never-node-b", "ContainerDied", "ac00ea10"),
    _event(B, "live-fail-node-b", "ContainerDied", "82a3de22"),
    _kill(B, "filler-a-node-b", "7dd2f313"),
    _kill(A, "gpu-a", "020c2e8e"),
    _kill(A, "live-fail", "bba7be9a"),
    _event(A, "gpu-a", "ContainerDied", "020c2e8e"),
    _event(A, "gpu-a", "ContainerDied", "e9c45761"),
    _event(A, "unused-img-user", "ContainerDied", "d4847443"),
    _event(A, "live-fail", "ContainerDied", "bba7be9a"),
    _event(A, "guaranteed-1", "ContainerStarted", "772820fb"),
    _event(A, "burstable-1", "ContainerStarted", "e2648bf0"),
    _event(A, "burstable-1", "ContainerStarted", "81a95339"),
    _event(A, "besteffort-1", "ContainerStarted", "4cdede23"),
    _event(A, "ready-flap", "ContainerStarted", "911d01e4"),
    _event(A, "http-probe", "ContainerStarted", "05bab7ec"),
    _event(A, "startup-slow", "ContainerStarted", "d7c25f47"),
)
"""All others."""
