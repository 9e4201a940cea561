"""What of a report, or of a certificate, cannot be, does not fit, or may be believed: one question
for each module. What the host has parsed is parsed here again, on purpose. Pure.
"""
