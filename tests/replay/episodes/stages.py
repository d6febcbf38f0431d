"""The stages that records tell of."""

from collections.abc import Iterable

from kubeledger.model.record import Record
from kubeledger.replay.episodes.pod_stages import PodStages, StageEpisode


def stage_episodes(records: Iterable[Record]) -> list[StageEpisode]:
    stages = PodStages()
    for record in records:
        stages.take(record)
    return stages.episodes()
