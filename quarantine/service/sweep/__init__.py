"""What the cloud as a whole lacks, or has too much: seen in listings, not slot by slot."""
