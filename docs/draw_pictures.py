"""Draw the pictures of how-to/inspect.md: `make docs-pictures`.  That of the page needs chromium."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

import spaql
from spaql.agents.inspection import write_page
from spaql.viz import figures

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Train on CartPole, and write both pictures."""
    agent = spaql.Tessera("CartPole-v1", seed=0).learn(10_000)
    evaluation = agent.evaluate(episodes=1000)
    agent.record_evaluation(evaluation)
    print(evaluation)
    print(f"{len(agent.cells())} cells")
    figures.save(agent.plot(), IMAGES / "inspect-plot.png")
    chromium = shutil.which("chromium")
    if chromium is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        page, picture = write_page([agent], Path(folder) / "cartpole.html"), Path(folder) / "page.png"
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}"]
        words += ["--window-size=1100,1180", "--virtual-time-budget=3000", f"--screenshot={picture}", page.as_uri()]
        subprocess.run([chromium, *words], check=True, capture_output=True)
        Image.open(picture).convert("RGB").quantize(96).save(IMAGES / "inspect-page.png", optimize=True)


if __name__ == "__main__":
    main()
