"""What is put on a drive, or noted about it, before an erase, and must be gone after it.

Reading back tells what a drive answers now. Only a probe tells that this is not what it would
have answered before: canaries are blocks that we wrote, fingerprints are keyed hashes of what the
last owner left. Keys are secret until the case ends, so nobody can forge or look for a probe.
"""
