"""Guests of the emulated rack: QEMU, the Debian image it boots, and the agent inside.

``build.ensure()`` makes (or finds) the images and ``snapshot.ensure()`` the saved VM state;
``vm.Guest`` is one running machine. Tests normally hold a ``tests.lab.rack.Rack`` instead.
"""
