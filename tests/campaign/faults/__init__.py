"""Faults: interrupted commands, full disks, two writers and damaged files.

Despite a fault, the results of a command must be those of an undisturbed run, or the command must
refuse in one line. The same command, run again, must resume.
"""

from tests.campaign.faults.run import run_part

__all__ = ["run_part"]
