"""The host as a part of a cloud: the Celery worker, the watcher, and all that they keep moving."""
