"""Faults: interrupted commands, full disks, two writers and damaged files.

Finished results must be those of an undisturbed run, or the command refuses clearly; running it
again always resumes.
"""

from tests.campaign.faults.run import run_part

__all__ = ["run_part"]
