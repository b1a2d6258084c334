"""The pictures of the demo's report on the front page: `python tools/report_pictures.py albertine-demo`.

They show what a finished demo has learned: the key figures, the scores and the first masked words of its
report, in Chromium, in light and dark mode, for wide windows and for phones.
"""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent.parent / "docs"
MAX_BYTES = 200_000  # of a picture, because each clone and each visit of the site loads it
# Width, height and pixels per unit of length; the last section is cut after its first examples.
_WINDOWS = {"report": (1000, 1450, 1), "report-phone": (400, 1345, 1.5)}
_SCHEMES = {"dark": 0, "light": 1}  # values of Chromium's setting
_SECTIONS = ("Fine-tuning", "Predictions for masked words")
_SHOW_PART = """<script>
for (const section of document.querySelectorAll("main > section"))
  if (!%s.includes(section.querySelector("h2").innerText)) section.remove();
</script></body>"""


def main(demo: Path) -> str | None:
    """Write both pictures; return what is wrong, or None."""
    report, browser = demo.resolve() / "report.html", shutil.which("chromium")
    if not report.exists():
        return f"{report}: missing; give the folder of a finished demo"
    if browser is None:
        return "chromium: not found; install it"
    text = report.read_text(encoding="utf-8")
    if missing := [title for title in _SECTIONS if f"<h2>{title}" not in text]:
        return f"{report}: has no section {missing[0]}"
    with TemporaryDirectory() as folder:
        part = Path(folder) / "part.html"
        part.write_text(text.replace("</body>", _SHOW_PART % list(_SECTIONS)), encoding="utf-8")
        for (name, window), scheme in itertools.product(_WINDOWS.items(), _SCHEMES):
            picture = FOLDER / f"{name}-{scheme}.png"
            _take_picture(browser, part, picture, window, scheme)
            size = picture.stat().st_size
            if size > MAX_BYTES:
                return f"{picture}: {size:,} bytes, more than {MAX_BYTES:,}; show less of the page"
    return None


def _take_picture(
    browser: str, page: Path, picture: Path, window: tuple[int, int, float], scheme: str
) -> None:
    width, height, scale = window
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *(f"--window-size={width},{height}", f"--force-device-scale-factor={scale}"),
        *(f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}", f"--screenshot={picture}"),
        page.as_uri(),
    ]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/report_pictures.py DEMO")
    sys.exit(main(Path(sys.argv[1])))
