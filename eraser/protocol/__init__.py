"""What crosses between the hosts and the control plane, and nothing else.

``quarantine`` may import this package and no other part of ``eraser``.
"""
