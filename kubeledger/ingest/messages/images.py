"""Messages of the image manager and of image garbage collection."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text, klog, text, texts

MESSAGES = (
    klog("Adding image ID to currentImages", since="1.21"),
    klog("Adding image ID with runtime class to currentImages", since="1.29"),
    klog("Attempting to delete unused images", since="1.21"),
    klog("Availability is larger than capacity", since="1.21"),
    klog(
        "Disk usage on image filesystem is over the high threshold, trying to free "
        "bytes down to the low threshold",
        since="1.21",
    ),
    klog("Evaluating image ID for possible garbage collection", since="1.21", until="1.28"),
    klog(
        "Evaluating image ID for possible garbage collection based on disk usage",
        to="Evaluating image ID for possible garbage collection",
        since="1.29",
    ),
    klog("Evaluating image ID for possible garbage collection based on image age", since="1.29"),
    klog("Eviction manager:", since="1.21", available="resourceName"),
    klog("Eviction manager: failed to get summary stats after resource reclaim", since="1.21"),
    klog(
        "Eviction manager: unexpected error when attempting to reduce resource pressure",
        since="1.21",
    ),
    klog("Failed to remove image", since="1.21", imageID="image"),
    klog("Image ID has size", since="1.21"),
    klog(
        "Image ID is being used",
        to="Evaluating image ID for possible garbage collection",
        since="1.21",
    ),
    klog("Image ID is new", since="1.21"),
    klog("Image ID is no longer present, removing from imageRecords"),
    klog(
        "Image ID is no longer present; removing from imageRecords",
        to="Image ID is no longer present, removing from imageRecords",
        since="1.21",
    ),
    klog("Image ID is pinned", since="1.23"),
    klog(
        "Image ID was used too recently, not eligible for garbage collection",
        to="Evaluating image ID for possible garbage collection",
        since="1.21",
    ),
    klog(
        "Image ID's age is less than the policy's minAge, not eligible for garbage collection",
        to="Evaluating image ID for possible garbage collection",
        since="1.21",
    ),
    klog("Image garbage collection failed multiple times in a row", since="1.21"),
    klog(
        "Image garbage collection failed once. Stats initialization may not have completed yet",
        to="Image garbage collection failed multiple times in a row",
        since="1.21",
    ),
    klog("Image garbage collection succeeded", since="1.21"),
    klog(
        "Image is pinned, skipping garbage collection",
        to="Evaluating image ID for possible garbage collection",
        since="1.23",
    ),
    klog(
        "RemoveImage from image service failed",
        to="Failed to remove image",
        since="1.21",
        until="1.30",
        imageID="image",
    ),
    klog("Removing image to free bytes", since="1.21"),
    klog("Setting Image ID lastUsed", since="1.21"),
    *texts(
        "image_gc_manager.go",
        {
            "Adding image ID {imageID:word} to currentImages": "Adding image ID to currentImages",
            "Image ID {imageID:word} is new": "Image ID is new",
            "Setting Image ID {imageID:word} lastUsed to {lastUsed}": "Setting Image ID lastUsed",
            "Image ID {imageID:word} has size {size:int}": "Image ID has size",
            "Image ID {imageID:word} is no longer present": (
                "Image ID is no longer present, removing from imageRecords"
            ),
        },
    ),
    *(
        row
        for manager in ("[imageGCManager]", "[imageGCManager]:")
        for row in (
            text(
                "image_gc_manager.go",
                manager + " Disk usage on image filesystem is at {usage:int}% which is over the "
                "high threshold ({highThreshold:int}%). Trying to free {amountToFree:int} bytes "
                "down to the low threshold ({lowThreshold:int}%)",
                to="Disk usage on image filesystem is over the high threshold, trying to free "
                "bytes down to the low threshold",
            ),
            text(
                "image_gc_manager.go",
                manager + ' Removing image "{imageID}" to free {size:int} bytes',
                to="Removing image to free bytes",
            ),
        )
    ),
    *texts(
        "image_gc_manager.go",
        {
            "attempting to delete unused images": "Attempting to delete unused images",
            "Evaluating image ID {imageID:word} for possible garbage collection": (
                "Evaluating image ID for possible garbage collection"
            ),
            "Image ID {imageID:word} is being used": (
                "Evaluating image ID for possible garbage collection"
            ),
            "Image ID {imageID:word} has lastUsed=": (
                "Evaluating image ID for possible garbage collection"
            ),
            "Image ID {imageID:word} has age ": (
                "Evaluating image ID for possible garbage collection"
            ),
            "available {available:int} is larger than capacity {capacity:int}": (
                "Availability is larger than capacity"
            ),
        },
    ),
    *texts(
        "kubelet.go",
        {
            "Image garbage collection failed once. Stats initialization may not have completed "
            "yet: {err}": ("Image garbage collection failed multiple times in a row"),
            "Image garbage collection failed multiple times in a row: {err}": (
                "Image garbage collection failed multiple times in a row"
            ),
            "Image garbage collection failed: {err}": (
                "Image garbage collection failed multiple times in a row"
            ),
            "Image garbage collection succeeded": "Image garbage collection succeeded",
        },
    ),
    text(
        "remote_image.go",
        'RemoveImage "{imageID}" from image service failed: ',
        to="Failed to remove image",
    ),
    text("kuberuntime_image.go", 'Remove image "{imageID}" failed: ', to="Failed to remove image"),
    *ignore(
        "Container garbage collection failed",
        "Container garbage collection succeeded",
        "Container uses image",
        "Container uses image as mount",
        "Error migrating image pull intents",
        "Error migrating image pulled records",
        "Eviction manager: created memoryThresholdNotifier",
        "Eviction manager: error adding epoll eventfd",
        "Eviction manager: error reading memcg events",
        "Eviction manager: error while waiting for memcg events",
        "Eviction manager: eviction criteria not yet met",
        "Eviction manager: failed to construct signal",
        "Eviction manager: failed to create memory threshold notifier",
        "Eviction manager: failed to get HasDedicatedImageFs",
        "Eviction manager: failed to get get summary stats",
        "Eviction manager: failed to get summary stats",
        "Eviction manager: failed to synchronize",
        "Eviction manager: failed to update notifier",
        "Eviction manager: no observation found for eviction signal",
        "Eviction manager: no ranking function for signal",
        "Eviction manager: pods evicted, waiting for pod to be cleaned up",
        "Eviction manager: pods successfully cleaned up",
        "Eviction manager: setting notifier to capacity",
        "Eviction manager: starting control loop",
        "Eviction manager: threshold had no observation",
        "Eviction manager: threshold was crossed, but reclaim is not implemented for this "
        "threshold.",
        "Eviction manager: timed out waiting for pods to be cleaned up",
        "Failed to monitor images",
        "Failed to update image list",
        "FileSystem detection",
        "ImageGCHighThresholdPercent is set 100 and ImageMaximumGCAge is 0, Disable image GC",
        "ImageGCHighThresholdPercent is set 100, Disable image GC",
        "Unable to access cache records about image pulls",
        "cgroup notifications not supported",
        "eviction manager: failed to check if we have separate container filesystem. Ignoring.",
        "eviction manager: found conflicting containerfs eviction. Ignoring.",
        "failed to list images",
        "failed to parse image name, forcing image credentials reverification",
        "failed to remove an ImagePulledRecord",
        "failed to remove image pull intent",
        "failed to remove image pull intent file",
        "failed to retrieve an ImagePulledRecord",
        "failed to write an image pull record",
        "failed to write an image pulled record",
        "failed to write image pulled record",
        "there were errors listing ImagePullIntents, continuing with an incomplete records list",
        "there were errors listing ImagePulledRecords, garbage collection will proceed "
        "with incomplete records list",
    ),
    *ignore_text(
        "image_gc_manager.go",
        r"Pod \S+, container \S+ uses image ",
        r"\[imageGCManager\] Failed to (?:monitor images|update image list): ",
    ),
    *ignore_text(
        "kubelet.go",
        "Container garbage collection (?:failed: |succeeded)",
        "ImageGCHighThresholdPercent is set 100, Disable image GC",
    ),
    *ignore_text(
        "helpers.go",
        "eviction manager: no observation found for eviction signal ",
        r"eviction manager: .*: threshold \[signal=",
        "eviction manager: threshold .* was crossed, but reclaim is not implemented",
        "eviction manager: eviction criteria not yet met for ",
        "eviction manager: failed to construct signal",
    ),
    *ignore_text("eviction_manager.go", "eviction manager: "),
    *ignore_text("memory_threshold_notifier.go", "eviction manager: (?:created|setting) "),
    *ignore_text("threshold_notifier_linux.go", "eviction manager: error "),
    *ignore_text("threshold_notifier_unsupported.go", "cgroup notifications not supported"),
)
