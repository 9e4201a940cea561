"""``python -m tests.lab.nvme.portraits``: the tables of docs/portraits.md."""

from tests.lab.nvme.portraits.page import tables

print(tables(), end="")
