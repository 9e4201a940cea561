"""The last gate on the host: which guest may start on which drive, and who has it since."""
