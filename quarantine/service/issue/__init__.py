"""What we sign and send: orders, tickets, certificates, heads of the chain."""
