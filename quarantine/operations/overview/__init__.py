"""What people look at: the fleet, its capacity, its holds, alarms and refusals, its health."""
