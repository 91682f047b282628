"""Open every page of the built site in a browser and check it: the second half of `make docs`.

Every page is opened wide and narrow, light and dark; generated ones wide and light, and narrow and dark.  A page fails
if it writes errors to the console, requests anything from another place than the site, is wider than the window, has a
picture without a description, or headings out of order.  Without chromium and chromedriver nothing is checked.
"""

import functools
import http.server
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

DOCS = Path(__file__).parent
SITE = DOCS / "_build" / "html"
sys.path.insert(0, str(DOCS.parent / "tests"))

import browsers  # noqa: E402 - it is beside the tests

LOOKS = [(1280, "light"), (390, "light"), (390, "dark"), (1280, "dark")]
GENERATED, LOOKS_OF_GENERATED = "reference/generated/", [(1280, "light"), (390, "dark")]  # a hundred pages of one kind
ICON = "favicon.ico"  # the browser asks for it once, by itself
QUERY = "search.html?q=partition"
FIND_FAULTS = """
const article = document.querySelector('article') || document.body;
const name = node => (node.textContent || node.src || '').trim().slice(0, 60);
const faults = [];
const levels = [...article.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(node => node.offsetParent);
levels.forEach((node, at) => {
    const level = Number(node.tagName[1]);
    const before = at ? Number(levels[at - 1].tagName[1]) : 0;
    if (level > before + 1 || (level === 1 && at)) faults.push(`heading out of order: ${name(node)}`);
});
for (const image of document.images) {
    if (!image.alt) faults.push(`no description of the picture ${image.src}`);
    if (image.complete && !image.naturalWidth) faults.push(`no picture at ${image.src}`);
}
return faults;
"""
FIND_OVERFLOW = """
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth <= width) return '';
const wide = [...document.querySelectorAll('article *')].find(node => node.getBoundingClientRect().right > width + 1);
return `wider than the window by ${document.documentElement.scrollWidth - width} pixels` +
    (wide ? `: ${wide.outerHTML.slice(0, 120)}` : '');
"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the site, and writes no log."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def serve() -> Iterator[str]:
    """Serve the site on this machine only; yield its address."""
    handler = functools.partial(QuietHandler, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def check_page(driver: webdriver.Chrome, root: str, page: str) -> list[str]:
    """Return what is wrong with a page."""
    reader = browsers.Reader(driver, root + page)
    faults = []
    for width, scheme in LOOKS_OF_GENERATED if page.startswith(GENERATED) else LOOKS:
        reader.emulate(prefers_color_scheme=scheme)
        reader.resize(width)
        driver.get(root + page)
        where = f"{width} pixels, {scheme}"
        if driver.execute_script("return document.documentElement.dataset.theme") != scheme:
            faults.append(f"not {scheme}")
        faults += [f"{where}: {fault}" for fault in [driver.execute_script(FIND_OVERFLOW)] if fault]
        complaints = [entry["message"] for entry in reader.complaints()]
        faults += [f"{where}: {text}" for text in complaints if ICON not in text]
        faults += [
            f"{where}: requests {url}" for url in reader.requests() if not url.startswith((root, "data:", "blob:"))
        ]
    return faults + driver.execute_script(FIND_FAULTS)


def check_search(driver: webdriver.Chrome, root: str) -> list[str]:
    """Return what is wrong with the search: a common word must be found."""
    reader = browsers.Reader(driver, root + QUERY)
    driver.get(reader.address)
    reader.wait(lambda: driver.execute_script("return document.querySelectorAll('ul.search li').length"))
    return [entry["message"] for entry in reader.complaints()]


def main() -> int:
    """Check all pages; return the exit code."""
    if browsers.CHROMIUM is None or browsers.DRIVER is None:
        print("the site is built; without chromium and chromedriver its pages are not checked")
        return 0
    pages = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts)
    with serve() as root, tempfile.TemporaryDirectory() as profile, browsers.chrome(Path(profile)) as driver:
        driver.get("about:blank")
        driver.get_log("performance")  # of the browser's own first page
        faults = {page: check_page(driver, root, page) for page in pages}
        faults[QUERY] = check_search(driver, root)
    for page, found in faults.items():
        for fault in found:
            print(f"{page}: {fault}", file=sys.stderr)
    wrong = sum(map(bool, faults.values()))
    print(f"{len(pages)} pages checked, wide and narrow, light and dark; {wrong} with faults: {SITE / 'index.html'}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
