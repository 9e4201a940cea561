"""Properties are held for as long as they take: machines are shared, and seconds prove nothing."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
