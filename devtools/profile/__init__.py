"""From a recorded run to the lines of source that took its time."""

from devtools.profile.frame import events_frame, inspector_frame
from devtools.profile.load import load_profile
from devtools.profile.profile_types import (
    Call,
    Coverage,
    DelegateCall,
    Event,
    Line,
    Phase,
    Profile,
    Unresolved,
)

__all__ = [
    "Call",
    "Coverage",
    "DelegateCall",
    "Event",
    "Line",
    "Phase",
    "Profile",
    "Unresolved",
    "events_frame",
    "inspector_frame",
    "load_profile",
]
