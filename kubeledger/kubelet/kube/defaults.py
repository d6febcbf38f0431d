"""What the API server fills in where a pod leaves a field out, and the kubelet in a manifest.

Source: v1.36.2 pkg/apis/core/v1/defaults.go SetDefaults_PodSpec SetDefaults_Container
    SetDefaults_Probe SetDefaults_HTTPGetAction
"""

from __future__ import annotations

from typing import Any, Final

GRACE_PERIOD_S: Final = 30
"""``terminationGracePeriodSeconds`` of a pod."""

POD_SPEC: Final[dict[str, Any]] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
    "terminationGracePeriodSeconds": GRACE_PERIOD_S,
}

CONTAINER: Final = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}

PROBE: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
"""Of a probe's times and thresholds; 0 stands for the default too."""

HTTP_GET: Final = {"path": "/", "scheme": "HTTP"}
"""Of ``httpGet`` of a probe or hook; an empty text stands for the default too."""
