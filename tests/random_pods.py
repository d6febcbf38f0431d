"""Random pods of random scenarios: specs, when they come and go, what their containers do."""

from typing import Any

from tests.chance import Chance

_CRITICAL = (
    {"priorityClassName": "system-node-critical"},
    {"priorityClassName": "system-cluster-critical"},
    {"priority": 2_000_000_000},
)


def random_pods(
    chance: Chance,
    *,
    sidecars: bool,
    cpus: int,
    resources: list[str],
    images: list[str],
    seconds: int,
) -> list[dict[str, Any]]:
    """The pods of a scenario.

    Args:
        chance: what is drawn.
        sidecars: init containers may be restartable.
        cpus: of the node; requests are such that some pods do not fit.
        resources: extended resources that plugins offer.
        images: names of images that are there from the start.
        seconds: how long the scenario lasts.
    """
    maker = _Maker(sidecars, cpus, resources, images, seconds)
    return [maker.pod(chance.of(f"{n}"), n) for n in range(chance.number(1, 9))]


class _Maker:
    """Makes pods for one node."""

    def __init__(
        self, sidecars: bool, cpus: int, resources: list[str], images: list[str], seconds: int
    ) -> None:
        self._sidecars = sidecars
        self._cpus = cpus
        self._resources = resources
        self._images = images
        self._seconds = seconds

    def pod(self, chance: Chance, number: int) -> dict[str, Any]:
        arrives = chance.one(0, chance.number(0, 60), chance.number(0, self._seconds - 2))
        source = "file" if chance.happens(10) else "api"
        qos = chance.one("Guaranteed", "Burstable", "Burstable", "BestEffort")
        scripts: dict[str, Any] = {}
        spec: dict[str, Any] = {"containers": []}
        for index in range(chance.one(1, 1, 2, 3)):
            name = f"c{index}"
            spec["containers"].append(self._container(chance.of(name), name, qos, scripts))
        if chance.happens(25):
            spec["initContainers"] = [
                self._init(chance.of(f"i{index}"), f"i{index}", qos, scripts)
                for index in range(chance.number(1, 2))
            ]
        if chance.happens(35):
            spec["restartPolicy"] = chance.one("Never", "OnFailure")
        spec["terminationGracePeriodSeconds"] = chance.one(0, 1, 5, 30)
        if source == "api" and chance.happens(20):
            spec.update(chance.one(*_CRITICAL))
        elif source == "api" and chance.happens(20):
            spec["priority"] = chance.one(-5, 100, 1_000_000)
        if chance.of("deadline").happens(10):
            spec["activeDeadlineSeconds"] = chance.of("deadline is").number(1, self._seconds)
        if chance.happens(15):
            spec["tolerations"] = [{"operator": "Exists"}]
        namespace = "kube-system" if "priorityClassName" in spec else "default"
        pod: dict[str, Any] = {
            "pod": {"metadata": {"name": f"p{number}", "namespace": namespace}, "spec": spec},
            "arrives": f"{arrives}s",
            "source": source,
            "containers": scripts,
        }
        if chance.happens(40):
            pod["deleted"] = f"{chance.number(arrives + 1, self._seconds - 1)}s"
        return pod

    def _container(
        self, chance: Chance, name: str, qos: str, scripts: dict[str, Any]
    ) -> dict[str, Any]:
        script: dict[str, Any] = {}
        container = self._bare(chance, name, qos)
        probes: dict[str, Any] = {}
        for kind, percent in (("liveness", 40), ("readiness", 30), ("startup", 20)):
            if chance.happens(percent):
                container[f"{kind}Probe"] = _probe(chance.of(kind), kind)
                if chance.happens(70):
                    probes[kind] = _findings(chance.of(f"{kind} finds"), self._seconds)
        if probes:
            script["probes"] = probes
        if chance.happens(40):
            script["exits"] = [
                {"after": f"{chance.number(1, 80)}s", "code": chance.one(0, 0, 1, 137)}
                for _ in range(chance.number(1, 3))
            ]
            script["exitsRepeat"] = chance.happens(50)
        if chance.happens(30):
            script["stopsAfter"] = chance.one("1s", "3s", "20s", "60s")
        if chance.happens(25):
            script["usage"] = [
                {"from": f"{at}s", "memory": f"{chance.number(1, 1500)}Mi", "disk": "10Mi"}
                for at in (0, chance.number(1, self._seconds))
            ]
            script["child"] = chance.of("child").happens(30)
        if chance.of("hook").happens(10):
            container["lifecycle"] = {"postStart": {"exec": {"command": ["true"]}}}
            script["postStartFailures"] = chance.of("hook fails").number(0, 2)
        if script:
            scripts[name] = script
        return container

    def _init(self, chance: Chance, name: str, qos: str, scripts: dict[str, Any]) -> dict[str, Any]:
        if self._sidecars and chance.happens(40):
            return {**self._container(chance, name, qos, scripts), "restartPolicy": "Always"}
        exits = [{"after": f"{chance.number(0, 15)}s", "code": chance.one(0, 0, 0, 1)}]
        scripts[name] = {"exits": [*exits, {"after": "2s", "code": 0}], "exitsRepeat": True}
        return self._bare(chance, name, qos)

    def _bare(self, chance: Chance, name: str, qos: str) -> dict[str, Any]:
        resources: dict[str, Any] = {}
        cpu = max(chance.number(10, self._cpus * 400), 10)
        memory = chance.number(16, 900)
        if qos == "Guaranteed":
            resources["limits"] = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        elif qos == "Burstable":
            resources["requests"] = {"cpu": f"{cpu}m"}
            if chance.happens(60):
                resources["requests"]["memory"] = f"{memory}Mi"
            if chance.happens(40):
                resources["limits"] = {"memory": f"{memory * 2}Mi"}
            if chance.happens(30):
                resources.setdefault("limits", {})["cpu"] = f"{cpu * 2}m"
        if self._resources and chance.happens(30):
            resource = chance.one(*self._resources)
            resources.setdefault("limits", {})[resource] = chance.number(1, 3)
        return {"name": name, "image": chance.one(*self._images), "resources": resources}


def _probe(chance: Chance, kind: str) -> dict[str, Any]:
    probe: dict[str, Any] = {
        "periodSeconds": chance.number(1, 10),
        "failureThreshold": chance.number(1, 4),
        "initialDelaySeconds": chance.one(0, 0, 1, 10),
        "timeoutSeconds": chance.number(1, 3),
    }
    if kind == "readiness":
        probe["successThreshold"] = chance.number(1, 3)
    handler: dict[str, Any] = chance.one(
        {"httpGet": {"path": "/healthz", "port": 8080}},
        {"tcpSocket": {"port": 8080}},
        {"exec": {"command": ["true"]}},
    )
    return {**probe, **handler}


def _findings(chance: Chance, seconds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"since": chance.one("container", "container", "start")}
    kind = chance.one("steps", "fails", "fails", "flaps")
    if kind == "fails":
        fails: dict[str, Any] = {"from": f"{chance.number(0, 120)}s"}
        if chance.happens(70):
            fails["for"] = f"{chance.number(1, 60)}s"
        found["fails"] = fails
    elif kind == "flaps":
        found["flaps"] = {"every": f"{chance.number(1, 40)}s"}
    else:
        at = 0
        steps: list[dict[str, str]] = []
        while at < seconds and (not steps or chance.happens(80)):
            result = chance.one("success", "success", "failure", "failure", "warning",
                                "unknown", "error")  # fmt: skip
            steps.append({"from": f"{at}s", "result": result})
            at += chance.number(1, 60)
        found["steps"] = steps
    if kind != "steps":
        found["result"] = chance.one("failure", "failure", "failure", "unknown", "error")
        found["output"] = chance.one("", "HTTP probe failed with statuscode: 500")
    return found
