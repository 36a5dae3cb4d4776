"""Gangs of the input: what group objects and owners of pods tell, and which gang the pods of a controller name.

For the loader and the embedded cluster.  Owners that only tell (JobSets, RayClusters and the like) make no pods here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.model import Gang, GangKey
from scheduler.model.api import ApiPod
from scheduler.model.dialects.owners import GANG_LABEL
from scheduler.model.run_time import EXPECTED_RUN_SECONDS, MAX_EXEC_SECONDS

from .jobs import JOB_NAME_KEY
from .objects import ApiJob, ApiReplicas, copy_meta
from .schema import without_nulls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model.api import ObjectMeta
    from scheduler.model.dialects import GroupSource

    from .kinds import Loaded
    from .objects import PodTemplate
    from .world import Owner


def gangs_of(loaded: Loaded, meta: ObjectMeta, source: GroupSource) -> Sequence[Gang]:
    """Return the gangs that an object with this metadata tells of.

    Of a Job only if its template asks for it: otherwise each Job would stand in reports as a gang that nobody names.
    """
    api: Any = loaded.api
    if isinstance(api, ApiJob | ApiReplicas):
        if isinstance(api, ApiJob) and (api.spec.template.metadata.labels or {}).get(GANG_LABEL) != "true":
            return ()
        api = msgspec.convert(without_nulls(loaded.document.body), source.api_type)
    api = msgspec.structs.replace(api, metadata=meta, api_version=loaded.document.api_version)
    return source.read(api)


def told_by_job(owner: Owner, api: ApiJob | ApiReplicas) -> Gang | None:
    """Return a Job as the engine knows it in a cluster, where it reads all of them, if it says how long it will run.

    Nobody's pods name it as their group, so that it is in no report.
    """
    if not isinstance(api, ApiJob):
        return None
    meta, deadline = api.metadata, api.spec.active_deadline_seconds
    annotations, labels = meta.annotations or {}, meta.labels or {}
    if deadline is None and EXPECTED_RUN_SECONDS not in annotations and MAX_EXEC_SECONDS not in labels:
        return None
    return Gang(
        key=GangKey("job", owner.namespace, owner.name), uid=meta.uid, api_version="batch/v1", kind="Job",
        annotations=annotations, labels=labels, deadline_seconds=deadline,
    )  # fmt: skip


def pod_of_template(owner: Owner, template: PodTemplate) -> ApiPod:
    """Return a pod such as a controller makes them, as far as that says to which gang it belongs."""
    names = {JOB_NAME_KEY: owner.name} if owner.kind == "Job" else {}
    labels = (template.metadata.labels or {}) | names
    meta = copy_meta(template.metadata, namespace=owner.namespace, labels=labels)
    return ApiPod(metadata=meta, spec=template.spec)
