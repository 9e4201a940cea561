"""The protocol searched exhaustively: the real decision code in a model of everything around it."""
