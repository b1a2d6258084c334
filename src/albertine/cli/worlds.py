"""Commands that generate a little world."""

from typing import Annotated

from cyclopts import App

from albertine.cli.application import WORLDS, ClusterOption, JsonFlag, app
from albertine.command import DEFAULT_OPTIONS, SETTINGS_PARAMETER, CommonOptions, PathOrUrl
from albertine.executors.cluster import open_cluster
from albertine.world.settings import StorySettings, WorldSettings

world = App(
    name="world", help="Generate a little world: stories, and tasks with known answers.", group=WORLDS
)


app.command(world)


@world.command(name="write")
def world_write(
    out: PathOrUrl,
    /,
    *,
    cluster: ClusterOption = None,
    json: JsonFlag = False,
    settings: Annotated[WorldSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Generate stories for a corpus, and GLUE, SQuAD and RACE tasks about them in their official layouts.

    Example: albertine world write my-world --stories 20000 --train 2000 --seed 1

    Args:
        out: A new folder or URL.
    """
    from albertine.world import show
    from albertine.world.write import write_world

    resolved_settings = options.read_settings(WorldSettings)
    with open_cluster(cluster, resolved_settings.workers) as executor:
        written = write_world(out, resolved_settings, executor)
    show.show_written_world(out, *written, as_json=json)


@world.command(name="show", usage="Usage: albertine world show [OPTIONS] [NUMBER]")
def world_show(
    number: int = 0,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[StorySettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show a story and the events in it.

    Example: albertine world show 7 --genre mystery

    Args:
        number: The number of the story; any number is valid.
    """
    from albertine.world import show

    show.show_story(number, options.read_settings(StorySettings), as_json=json)
