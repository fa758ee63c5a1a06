"""The HTML page: one file, small, quiet, every control works, names of user code stay text. Needs Chromium."""

import re
import time

import pytest

import tinygrad_lite as tl
from tests.look.browser import BROWSER, DRIVER, Browser
from tinygrad_lite import models, nn, viz
from tinygrad_lite.cli.options import TrainOptions
from tinygrad_lite.cli.training import make_optimizer, training_step
from tinygrad_lite.errors import UserError

needs_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium and chromedriver")
needs_renderer = pytest.mark.skipif(viz.renderer_program() is None, reason="nothing to draw with")
READY = "document.documentElement.dataset.ready === 'true'"
EVIL = '<img src=x onerror="document.title=1"><script>document.title=2</script>&"\''


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    """The page of gpt-nano's training step with its profile."""
    tl.manual_seed(0)
    model, options = models.build("gpt-nano"), TrainOptions()
    step = tl.compile(training_step(model, make_optimizer(model, options), options.clip))
    ids = tl.randint(0, 65, (1, 64))
    step(ids, ids)
    path = tmp_path_factory.mktemp("page") / "nano.html"
    path.write_text(viz.page(step, profile=step.profile(3)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def opened(browser, nano):
    browser.open(nano)
    browser.wait_for(READY)
    return browser


def test_one_small_file_without_network(nano):
    text = nano.read_text(encoding="utf-8")
    assert len(text) < 3_000_000
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)=\"(?!data:)", text)
    assert "http://www.w3.org/2000/svg" in text and "https://" not in text


@needs_browser
@needs_renderer
def test_it_opens_quickly_and_says_nothing_to_the_console(browser, nano):
    browser.errors()
    start = time.perf_counter()
    browser.open(nano)
    browser.wait_for(READY)
    assert time.perf_counter() - start < 6  # 2 s on a machine of its own
    assert browser.run("performance.now()") < 6000
    assert browser.errors() == []
    assert browser.run("document.querySelectorAll('#canvas g.node[tabindex]').length") > 15


@needs_browser
@needs_renderer
def test_the_slider_walks_through_stages_and_passes(opened):
    where = "document.getElementById('where').textContent"
    steps = int(opened.run("document.getElementById('step').max")) + 1
    assert steps >= 8
    assert opened.run(where) == f"1/{steps} traced"
    opened.click("#next")
    assert opened.run(where) == f"2/{steps} after cse"
    opened.click("#next")
    assert "cast_cast" in opened.run("document.getElementById('note').textContent")
    assert opened.run("document.querySelectorAll('#canvas g.added, #canvas g.changed').length") > 3
    opened.click("#previous")
    assert opened.run(where) == f"2/{steps} after cse"
    opened.run("document.getElementById('step').focus()")
    opened.press("\ue010")  # End
    assert opened.run(where) == f"{steps}/{steps} scheduled"
    opened.run("document.getElementById('canvas').focus()")
    opened.press("[")
    assert opened.run(where).startswith(f"{steps - 1}/{steps}")
    assert opened.errors() == []


@needs_browser
@needs_renderer
def test_zoom_detail_and_closed_modules(opened):
    width = "Number(document.querySelector('#canvas svg').getAttribute('width'))"
    before = opened.run(width)
    opened.click("#larger")
    assert opened.run(width) > before * 1.2
    opened.click("#smaller")
    opened.click("#smaller")
    assert opened.run(width) < before
    opened.click("#fit")
    assert opened.run(width) == before
    boxes = "document.querySelectorAll('#canvas g.node[tabindex]').length"
    many = opened.run(boxes)
    change = "(l => { l.value = VALUE; l.dispatchEvent(new Event('change')) })(document.getElementById('level'))"
    opened.run(change.replace("VALUE", "l.options.length - 1"))
    assert 0 < opened.run(boxes) < many
    opened.run(change.replace("VALUE", "0"))
    frame = "document.querySelector('#canvas g.cluster[aria-label=\"module mlp\"]')"
    opened.run(f"{frame}.focus()")
    opened.press("\ue007")  # Enter
    shut = "document.querySelectorAll('#canvas g.closed').length"
    assert opened.run(shut) == 1 and opened.run(f"{frame}.style.display") == "none"
    assert opened.run("document.activeElement.getAttribute('aria-label')").startswith("module mlp, closed: ")
    assert opened.run("document.activeElement.getAttribute('aria-expanded')") == "false"
    opened.press("\ue007")
    assert opened.run("document.activeElement.getAttribute('aria-label')") == "module mlp"
    assert opened.run(shut) == 0 and opened.run(f"{frame}.style.display") == ""
    opened.click("#shut")
    assert opened.run(shut) == 3  # forward, backward, optimiser: what is in them is out of sight
    opened.click("#open")
    assert opened.run(shut) == 0
    assert opened.errors() == []


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(nn.Linear(2, 3), nn.Sigmoid())
        self.high = nn.Linear(3, 4)

    def forward(self, x):
        return self.high(self.low(x).exp())


SEEN = "filter(n => getComputedStyle(n.closest('g')).display !== 'none')"
SHOWN = f"[...document.querySelectorAll('#canvas SELECTOR')].{SEEN}.map(n => n.ariaLabel)"


@needs_browser
@needs_renderer
def test_a_closed_module_is_one_box_with_its_edges(browser, tmp_path):
    browser.open(tl.trace(Two(), tl.zeros(1, 2)).save(tmp_path / "two.html"))
    browser.wait_for(READY)
    frames, boxes = SHOWN.replace("SELECTOR", "g.cluster[tabindex]"), SHOWN.replace("SELECTOR", "g.node[tabindex]")
    arrows = f"[...document.querySelectorAll('#canvas g.edge')].{SEEN}.length"
    height = "Number(document.querySelector('#canvas svg').getAttribute('viewBox').split(' ')[3])"
    before = [browser.run(v) for v in (frames, boxes, arrows, height)]
    assert before[0] == ["module low", "module 0", "module 1", "module high"]
    close = "document.querySelector('#canvas g.cluster[aria-label=\"module NAME\"]').dispatchEvent(new Event('click'))"

    browser.run(close.replace("NAME", "low"))
    assert browser.run(frames) == ["module high"]
    (shut,) = browser.run(SHOWN.replace("SELECTOR", "g.closed"))
    left = browser.run(boxes)
    assert shut.startswith(f"module low, closed: {len(before[1]) - len(left)} boxes, ")
    assert "exp" in left and "sigmoid" not in left and "sigmoid" in before[1]
    assert browser.run("document.querySelectorAll('#canvas .made.edge').length") == 2  # from x, to exp
    assert browser.run(height) < before[3] - 100  # its place is taken up
    outlines = "[...document.querySelectorAll('#canvas g.node > :not(title), #canvas g.closed > rect')]"
    tops = f"{outlines}.{SEEN}.map(n => n.getBoundingClientRect().top)"
    assert min(browser.run(tops)) >= browser.run("document.querySelector('#canvas svg').getBoundingClientRect().top")

    browser.run("document.querySelector('#canvas g.closed').focus()")
    assert "sigmoid" in browser.run("document.getElementById('details').textContent")
    browser.type("#search", "sigmoid")
    assert browser.run("document.getElementById('found').textContent") == "1 found"
    assert browser.run("document.querySelector('#canvas g.closed').classList.contains('match')")
    browser.click("#next")
    assert len(browser.run(SHOWN.replace("SELECTOR", "g.closed"))) == 1  # in the next step too
    browser.click("#previous")
    browser.run("(s => { s.value = ''; s.dispatchEvent(new Event('input')) })(document.getElementById('search'))")

    browser.run("document.querySelector('#canvas g.closed').dispatchEvent(new Event('click'))")
    assert [browser.run(v) for v in (frames, boxes, arrows, height)] == before
    browser.run(close.replace("NAME", "0"))
    browser.run(close.replace("NAME", "low"))
    browser.run("document.querySelector('#canvas g.closed').dispatchEvent(new Event('click'))")
    assert browser.run(frames) == ["module low", "module 1", "module high"]  # what was closed in it still is
    browser.click("#shut")
    assert browser.run(SHOWN.replace("SELECTOR", "g.closed")) != [] == browser.run(frames)
    browser.click("#open")
    assert browser.run(frames) == before[0]
    assert browser.errors() == []


@needs_browser
@needs_renderer
def test_boxes_tell_what_they_are(opened):
    details = "document.getElementById('details').textContent"
    opened.run("[...document.querySelectorAll('#canvas g.node')].find(n => n.ariaLabel?.startsWith('fc')).focus()")
    text = opened.run(details)
    assert "matmul" in text and "FLOP" in text and "gpt.py:" in text
    for _ in range(20):
        opened.press("]")
    opened.run("[...document.querySelectorAll('#canvas g.node')].find(n => n.ariaLabel?.startsWith('fc')).focus()")
    assert "kernel" in opened.run(details) and "def kernel(args, lo, hi, worker):" in opened.run(details)


@needs_browser
@needs_renderer
def test_search_finds_boxes_and_lines(opened):
    opened.press("/")
    assert opened.run("document.activeElement.id") == "search"
    opened.type("#search", "blocks.0.mlp matmul")
    hits = int(opened.run("document.getElementById('found').textContent").split()[0])
    assert hits == opened.run("document.querySelectorAll('#canvas .match').length") >= 2
    opened.press("\ue007")
    assert opened.run("document.getElementById('found').textContent") == f"1 of {hits}"
    opened.click("#tab-text")
    assert opened.run("document.querySelectorAll('#lines .line.match').length") >= 6
    opened.run("(s => { s.value = ''; s.dispatchEvent(new Event('input')) })(document.getElementById('search'))")
    assert opened.run("document.querySelectorAll('.match').length") == 0


@needs_browser
@needs_renderer
def test_the_text_shows_changes_and_closes_modules(opened):
    opened.click("#next")
    opened.click("#next")
    opened.click("#tab-text")
    lines = "document.querySelectorAll('#lines .line').length"
    everything = opened.run(lines)
    assert opened.run("document.querySelectorAll('#lines [data-mark=\"+\"]').length") > 10
    opened.click("#only")
    assert 0 < opened.run(lines) < everything
    opened.click("#closeall")
    assert opened.run("document.querySelectorAll('#lines details[open]').length") == 0
    opened.click("#closeall")
    opened.click("#lines .line[data-row]")
    assert "shape" in opened.run("document.getElementById('details').textContent")


@needs_browser
@needs_renderer
def test_tabs_by_keyboard_memory_kernels_profile(opened, tmp_path):
    opened.run("document.getElementById('tab-graph').focus()")
    opened.press("\ue014", "\ue014")  # right, right
    assert opened.run("document.querySelector('[aria-selected=true]').id") == "tab-memory"
    assert opened.run("document.querySelectorAll('#memory rect.life').length") > 50
    assert opened.run("document.querySelector('#memory svg').getBoundingClientRect().height") > 200
    opened.press("\ue014")
    assert "def kernel(args, lo, hi, worker):" in opened.run("document.getElementById('kernels').textContent")
    opened.press("\ue014")
    assert "roofline" in opened.run("document.getElementById('profile').textContent")
    first = "document.querySelector('#profile tbody td').textContent"
    biggest = opened.run(first)
    opened.click("#profile th:nth-child(2) button")
    opened.click("#profile th:nth-child(2) button")
    assert opened.run(first) != biggest
    assert opened.run("document.querySelector('#profile th:nth-child(2)').ariaSort") == "ascending"
    opened.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    assert opened.errors() == []


@needs_browser
@needs_renderer
def test_names_from_user_code_are_text(browser, tmp_path):
    model = nn.Sequential()
    model.add_module(EVIL.replace(".", "_"), nn.Linear(2, 2))
    graph = tl.trace(model, tl.zeros(1, 2))
    graph = type(graph)(f"{EVIL}</script>", graph.args, graph.states, graph.outputs)
    text = graph.save(tmp_path / "evil.html").read_text()
    assert "<img" not in text and text.count("<script") == 2
    browser.open(tmp_path / "evil.html")
    browser.wait_for(READY)
    for tab in ("text", "memory", "kernels", "graph"):
        browser.click(f"#tab-{tab}")
    assert browser.run("document.title") == f"{EVIL}</script>"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert "onerror" in browser.run("document.getElementById('canvas').textContent")
    assert browser.errors() == []


@needs_renderer
def test_pages_of_other_things(tmp_path):
    model = models.build("gpt-nano", n_layer=1, n_embd=16)
    ids = tl.zeros((1, 64), dtype=tl.int64)
    assert "<svg" not in viz.page(viz.architecture(model, ids)).split('id="data"')[0]
    compiled = tl.compile(lambda x: x + 1)
    compiled(tl.ones(3))
    for stage in ("optimised", "scheduled", "kernels", "tape"):
        assert compiled.graph(stage).save(tmp_path / f"{stage}.html").stat().st_size > 10_000


def test_a_page_has_a_largest_graph(monkeypatch):
    monkeypatch.setattr("tinygrad_lite.viz.webpage.LARGEST", 3)
    with pytest.raises(UserError, match="the graph has 7 nodes, a page shows at most 3"):
        viz.page(tl.trace(lambda x: (x + 1.0).exp().sin(), tl.zeros(3)))
