"""The pictures of the demo's report on the front page: `python tools/report_pictures.py albertine-demo`.

It shows the top of the report of a finished demo in Chromium, in light and dark mode.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs"
MAX_BYTES = 200_000  # of a picture, because each clone and each visit of the site loads it
_WIDTH, _HEIGHT = 1000, 1360
_SCHEMES = {"dark": 0, "light": 1}  # values of Chromium's setting


def main(demo: Path) -> str | None:
    """Write both pictures; return what is wrong, or None."""
    report, browser = demo.resolve() / "report.html", shutil.which("chromium")
    if not report.exists():
        return f"{report}: missing; give the folder of a finished demo"
    if browser is None:
        return "chromium: not found; install it"
    for scheme, number in _SCHEMES.items():
        picture = FOLDER / f"report-{scheme}.png"
        command = [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--window-size={_WIDTH},{_HEIGHT}", f"--blink-settings=preferredColorScheme={number}"),
            *(f"--screenshot={picture}", report.as_uri()),
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        size = picture.stat().st_size
        if size > MAX_BYTES:
            return f"{picture}: {size:,} bytes, more than {MAX_BYTES:,}; show less of the page"
    return None


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/report_pictures.py DEMO")
    sys.exit(main(Path(sys.argv[1])))
