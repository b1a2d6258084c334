"""The command that tests claims."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from albertine import progress
from albertine.cli.application import BENCHMARKS, ClusterOption, JsonFlag, app
from albertine.command import DEFAULT_OPTIONS, SETTINGS_PARAMETER, CommonOptions, PathOrUrl
from albertine.errors import InputError
from albertine.executors.cluster import open_cluster
from albertine.settings.schema import first_changed
from albertine.study.settings import StudySettings


@app.command(group=BENCHMARKS, usage="Usage: albertine study [OPTIONS] [CLAIMS...]")
def study(
    *claims: str,
    out: PathOrUrl = Path("albertine-studies"),
    all_claims: Annotated[bool, Parameter(name="--all", negative="")] = False,
    print_plan: Annotated[bool, Parameter(negative="")] = False,
    cluster: ClusterOption = None,
    json: JsonFlag = False,
    settings: Annotated[StudySettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Test claims of the ALBERT paper, or your own, by training runs with several seeds.

    Without CLAIMS, list all claims with their latest verdicts. Claims share their runs. If interrupted,
    run the same command again to resume.

    Example: albertine study table-5 --scale minutes --out my-studies

    Args:
        claims: Names of claims (see `albertine study`), or TOML files of your own.
        out: The folder or URL of all studies.
        all_claims: Test all built-in claims that have this --scale; of those on real tasks, the ones whose
            tasks are in --data.
        print_plan: Print runs, FLOPs, expected time and the differences that the seeds can detect, and stop.
    """
    from albertine.study import display
    from albertine.study import study as studies
    from albertine.study.catalog import claims_for, find_claim
    from albertine.study.mirrored_studies import downloaded_reports

    resolved_settings = options.read_settings(StudySettings)
    if claims and all_claims:
        raise InputError("--all: claims are named too; leave out --all or the names")
    chosen = [find_claim(name) for name in dict.fromkeys(claims)]
    if all_claims:
        chosen = claims_for(resolved_settings)
    if not chosen:
        unused = "print_plan" if print_plan else None if cluster is None else "cluster"
        if unused := unused or first_changed(resolved_settings, ("scale", "text", "data", "seeds")):
            option = unused.replace("_", "-")
            raise InputError(f"--{option}: no claims; name some, or give --all")
        display.show_claims(downloaded_reports(out), as_json=json)
    elif print_plan:
        if cluster is not None:
            progress.print_message(
                f"--cluster {cluster}: not used; the time of the plan is that of this machine"
            )
        display.show_plans(studies.plan_studies(chosen, out, resolved_settings), as_json=json)
    else:
        with open_cluster(cluster) as executor:
            reports = studies.run_studies(chosen, out, resolved_settings, executor)
        display.show_reports(reports, as_json=json)
