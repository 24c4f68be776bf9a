"""The page in a browser: nothing is cut off, missing or hard to read, wide or narrow, light or dark.

A page around it holds it in a frame of the asked width, measures it, and leaves what it finds in its own text.
"""

import html
import json
import re
import shutil
import subprocess

import pytest

from stratagp.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")

AROUND = """<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>
<iframe id="page" style="width: WIDTHpx; height: 900px; border: 0"></iframe><pre id="found"></pre>
<script>
const frame = document.getElementById("page");
const light = (text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element, view) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = view.getComputedStyle(each).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
  return "rgb(255, 255, 255)";
};
frame.onload = () => {
  const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
  const texts = [...page.body.querySelectorAll("*")].filter(
    (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
  const contrast = texts.map((e) => {
    const style = view.getComputedStyle(e);
    const a = light(e.closest("svg") ? style.fill : style.color), b = light(ground(e, view));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
  const pictures = [...page.querySelectorAll("figure svg")].map((e) => e.getBoundingClientRect());
  document.getElementById("found").textContent = JSON.stringify({
    scroll: root.scrollWidth, client: root.clientWidth, contrast: Math.min(...contrast), texts: texts.length,
    pictures: pictures.map((box) => [box.width, box.height]),
    images: [...page.images].map((image) => image.naturalWidth),
    dark: light(ground(page.body, view)) < 0.2,
  });
};
frame.srcdoc = PAGE;
</script></body></html>"""


def opened(results, width, dark, folder):
    """What the browser finds in the page, and what it prints to its console."""
    page = write_report(results, folder / "page.html").read_text(encoding="utf-8")
    around = folder / "around.html"
    quoted = json.dumps(page).replace("<", "\\u003c")
    around.write_text(AROUND.replace("WIDTH", str(width)).replace("PAGE", quoted), encoding="utf-8")
    theme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    quiet = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
    ]
    console = ["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=3000", "--window-size=1400,1000"]
    command = [CHROMIUM, *quiet, *console, theme, "--dump-dom", around.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    text = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, flags=re.DOTALL)[1]
    return json.loads(html.unescape(text)), [line for line in run.stderr.splitlines() if ":CONSOLE" in line]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [380, 1280])
@pytest.mark.parametrize("which", ["regression", "classification"])
def test_the_page_in_a_browser(which, width, dark, request, tmp_path):
    results = request.getfixturevalue(which)[2]
    found, console = opened(results, width, dark, tmp_path)
    assert console == []
    assert found["dark"] is dark
    assert found["scroll"] <= found["client"] == width
    assert len(found["pictures"]) >= 5
    assert all(100 < across <= width and down > 80 for across, down in found["pictures"])
    assert all(across > 0 for across in found["images"])
    assert found["texts"] > 100
    assert found["contrast"] >= 4.5


def test_console_messages_would_be_seen(regression, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tests.report.test_browser.AROUND", AROUND.replace("<script>", "<script>console.error('seen');")
    )
    _, console = opened(regression[2], 380, False, tmp_path)
    assert any("seen" in line for line in console)
