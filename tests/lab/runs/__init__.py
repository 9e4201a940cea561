"""How tests are run: where their time goes, what failed, what was searched before."""
