"""Where what is shown comes from: the door of ``source``, and the record behind it on the control
plane's own machine. A cloud's API behind it: ``quarantine/osc``."""
