"""Every named drive of the lab, erased by the real eraser in a guest, audited from outside."""
