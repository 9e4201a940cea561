"""What a case does to a drive's namespaces: it attaches, makes, formats and deletes them.

Nothing here decides what the layout should be: :mod:`eraser.case.restore` does.
"""
