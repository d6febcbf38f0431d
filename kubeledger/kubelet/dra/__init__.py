"""The DRA manager: claims of pods, prepared by drivers and unprepared."""
