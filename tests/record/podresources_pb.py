"""Messages of the pod-resources API (v1) for protobuf itself, which the tests' server speaks.

Numbers and types are those of k8s.io/kubelet/pkg/apis/podresources/v1 up to 1.36.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "v1.PodResourcesLister"

_PACKAGE = "v1"
_FIELDS: dict[str, str] = {
    "ListPodResourcesRequest": "",
    "ListPodResourcesResponse": "pod_resources=1 repeated PodResources",
    "AllocatableResourcesRequest": "",
    "AllocatableResourcesResponse": (
        "devices=1 repeated ContainerDevices, cpu_ids=2 repeated int64,"
        " memory=3 repeated ContainerMemory"
    ),
    "PodResources": (
        "name=1 one string, namespace=2 one string, containers=3 repeated ContainerResources"
    ),
    "ContainerResources": (
        "name=1 one string, devices=2 repeated ContainerDevices, cpu_ids=3 repeated int64,"
        " memory=4 repeated ContainerMemory, dynamic_resources=5 repeated DynamicResource"
    ),
    "ContainerMemory": "memory_type=1 one string, size=2 one uint64, topology=3 one TopologyInfo",
    "ContainerDevices": (
        "resource_name=1 one string, device_ids=2 repeated string, topology=3 one TopologyInfo"
    ),
    "TopologyInfo": "nodes=1 repeated NUMANode",
    "NUMANode": "ID=1 one int64",
    "DynamicResource": (
        "claim_name=2 one string, claim_namespace=3 one string,"
        " claim_resources=4 repeated ClaimResource"
    ),
    "ClaimResource": (
        "cdi_devices=1 repeated CDIDevice, driver_name=2 one string, pool_name=3 one string,"
        " device_name=4 one string"
    ),
    "CDIDevice": "name=1 one string",
}
"""Message -> ``name=number how type`` of each field."""


def message_type(name: str) -> Any:  # noqa: ANN401 # a class that protobuf makes
    found = _pool().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(found)


@cache
def _pool() -> Any:  # noqa: ANN401 # protobuf has no types of its own
    file = descriptor_pb2.FileDescriptorProto(
        name="podresources.proto", package=_PACKAGE, syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for field in filter(None, fields.split(", ")):
            name, how, kind = field.strip().split(" ")
            name, _, number = name.partition("=")
            added = described.field.add(name=name, number=int(number))
            added.label = kinds.LABEL_REPEATED if how == "repeated" else kinds.LABEL_OPTIONAL
            if kind in _FIELDS:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
