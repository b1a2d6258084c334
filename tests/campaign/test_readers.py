"""Every command has a command line in the campaign, and every reader names commands that exist."""

from tests.campaign.hostile_input.command_lines import COMMAND_LINES, command_names
from tests.campaign.hostile_input.readers import READERS


def test_every_command_has_a_command_line() -> None:
    assert set(COMMAND_LINES) == set(command_names())


def test_readers_name_existing_commands() -> None:
    names = set(command_names())
    for reader in READERS.values():
        for command in reader.commands:
            assert names & {command.split()[0], " ".join(command.split()[:2])}, command
