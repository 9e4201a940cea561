"""What of a report, or of a certificate, cannot be, does not fit, or may be believed: one question
for each module. Each parses on purpose a second time what the host has parsed. Pure.
"""
