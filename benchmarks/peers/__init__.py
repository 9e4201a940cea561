"""The zoo's drives given to others: what they let through, and how long they take."""
