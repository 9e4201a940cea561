"""What is decided on what a host says: reports, receipts, tickets."""
