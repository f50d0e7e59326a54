"""The HTML report in Chromium: filters, keys, links, comparison, hostile texts, sizes, accessibility."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import report_runs

from .conftest import Opened, report_from

pytestmark = pytest.mark.browser

HOSTILE = {
    "script": '</script><script>window.PWNED=1</script><img src=x onerror="window.PWNED=1">',
    "link": '[click](javascript:window.PWNED=1) <a href="javascript:window.PWNED=1">here</a>',
    "ansi": "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x00 nul",
    "bidi": "safe \u202egnp.exe\u202c \u2066abc\u2069 zero\u200bwidth tag\U000e0041 lone\ud800end",
    "style": "<!-- <script> --> {{7*7}} ${1} $' $& \u2028 <svg onload=window.PWNED=1><style>*{display:none}</style>"
    "<base href=//evil.example>",
}

PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAADCAIAAADZSiLoAAAAEElEQVR4nGP8zwAFTAyYLAAdWwEFNX6VDAAAAABJRU5ErkJggg=="
"""Three by three red ones, as PNG."""


class TestList:
    def test_outcomes_filter_and_the_address_keeps_them(self, opened: Opened, page: Any) -> None:
        assert opened.count().startswith("500 results")
        page.click("[data-outcome=error]")
        assert "of 500 results: 0 passed, 0 failed" in opened.count()
        assert page.evaluate("location.hash") == "#outcome=error"
        assert page.get_attribute("[data-outcome=error]", "aria-pressed") == "true"
        assert set(page.eval_on_selector_all("#list .tag", "all => all.map(n => n.className)")) == {"tag error"}

    def test_scores_without_a_threshold_are_no_verdict(self, browser: Any, tmp_path: Path) -> None:
        values = [{"eval_id": f"c{n}", "score": n / 4} for n in range(4)]
        opened = Opened(browser, report_from(tmp_path, values))
        page = opened.open()
        assert page.title() == "? 37.5 % – agentv report"
        assert opened.count() == "4 results: 0 passed, 0 failed, 0 errors, 4 with a score only"
        page.click("[data-outcome=scored]")
        assert opened.ids() == ["c0", "c1", "c2", "c3"]
        page.click("#list .row >> nth=1")
        page.wait_for_selector(".why-box.scored")
        assert page.text_content(".why-box") == "Scored: score 0.25, no threshold is known"
        assert page.text_content("#case-title") == "○ Scored c1"
        assert opened.said == []
        opened.context.close()

    @pytest.mark.parametrize(("name", "value"), [("file", "evals/returns.eval.yaml"), ("target", "large-model")])
    def test_choices_filter(self, opened: Opened, page: Any, name: str, value: str) -> None:
        page.select_option(f"#f-{name}", value)
        assert "of 500 results" in opened.count()
        shown = page.eval_on_selector_all("#list .row", "all => all.map(n => n.textContent)")
        assert shown
        assert all(value in text for text in shown)

    def test_tags_evaluators_and_changes_filter_together(self, opened: Opened, page: Any) -> None:
        page.select_option("#f-tag", "policy")
        by_tag = int(opened.count().split()[0])
        page.select_option("#f-evaluator", "facts")
        both = int(opened.count().split()[0])
        page.select_option("#f-change", "broken")
        three = int(opened.count().split()[0])
        assert 500 > by_tag > both > three > 0
        page.click("#clear")
        assert opened.count().startswith("500 results")

    def test_search_finds_what_only_answers_say(self, opened: Opened, page: Any) -> None:
        page.fill("#f-q", "call us please find")
        page.wait_for_selector("#count:has-text('of 500')")
        assert 0 < int(opened.count().split()[0]) < 100

    def test_links_of_reasons_find_as_many_cases_as_they_say(self, opened: Opened, page: Any) -> None:
        shown = page.eval_on_selector_all(
            ".reasons li", "all => all.map(n => [n.children[0].hash, n.children[2].innerText])"
        )
        assert shown
        for link, figure in shown:
            opened.open(link)
            assert opened.count().startswith(f"{figure} of 500 results")
            assert page.evaluate("document.getElementById('f-reason').selectedIndex") > 0

    def test_search_finds_the_text_of_a_reason_with_several_misses(self, browser: Any, tmp_path: Path) -> None:
        long, short = (
            {"name": name, "type": "heuristic", "score": 0, "misses": misses}
            for name, misses in (("first", ["a long fact " * 20] * 3), ("second", ["missing: tent", "missing: stove"]))
        )
        case = {"score": 0, "threshold": 1, "evaluator_results": [long, short]}
        path = report_from(tmp_path, [{"eval_id": f"case-{n}", **case} for n in range(3)])
        own = Opened(browser, path)
        own.open("#q=missing%3A+tent%3B+missing%3A+stove")
        assert own.count().startswith("3 results")
        own.open()
        own.page.click(".reasons a:has-text('missing: tent; missing: stove')")
        own.page.wait_for_function("location.hash.includes('reason=')")
        assert own.count().startswith("3 results")
        own.context.close()

    def test_nothing_found_says_so(self, opened: Opened, page: Any) -> None:
        page.fill("#f-q", "no such words anywhere")
        page.wait_for_selector("#count:has-text('Nothing matches')")
        assert opened.ids() == []

    def test_order(self, opened: Opened, page: Any) -> None:
        page.select_option("#f-sort", "name")
        names = opened.ids()
        assert names == sorted(names)
        page.select_option("#f-sort", "score")
        assert opened.ids() != names

    def test_the_worst_come_first(self, page: Any) -> None:
        page.click("#list .row >> nth=0")
        assert page.text_content(".why-box .tag") == "Broken"

    def test_a_plot_filters(self, opened: Opened, page: Any) -> None:
        page.click(".charts > summary")
        page.click(".rates .name:has-text('policy')")
        page.wait_for_selector("#count:has-text('of 500')")
        assert page.input_value("#f-tag") == "policy"

    def test_many_rows_are_drawn_as_needed(self, page: Any) -> None:
        assert page.locator("#list li").count() < 100
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_selector("#list li[aria-posinset='500']")
        assert page.locator("#list li").count() < 150


class TestCase:
    def test_keys(self, opened: Opened, page: Any) -> None:
        page.keyboard.press("j")
        page.keyboard.press("j")
        second = opened.ids()[1]
        page.keyboard.press("o")
        page.wait_for_selector("#case-title")
        assert second in page.text_content("#case-title")
        assert page.evaluate("document.activeElement.id") == "case-title"
        page.keyboard.press("k")
        page.wait_for_selector("#list li:first-child .row[aria-current]")
        page.keyboard.press("Escape")
        assert not page.evaluate("document.body.classList.contains('split')")
        assert page.evaluate("document.activeElement.className") == "row"
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "f-q"
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        assert page.evaluate("document.getElementById('help').open")

    def test_single_keys_can_be_switched_off(self, page: Any) -> None:
        page.keyboard.press("?")
        page.uncheck("#keys-on")
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        assert page.locator(".row[aria-current]").count() == 0

    def test_a_link_opens_its_case_and_back_returns(self, opened: Opened, page: Any) -> None:
        page.click("[data-outcome=fail]")
        page.click("#list .row >> nth=3")
        page.wait_for_selector("#case-title")
        address, title = page.evaluate("location.hash"), page.text_content("#case-title")
        page.go_back()
        page.wait_for_selector("body:not(.split)")
        assert page.get_attribute("[data-outcome=fail]", "aria-pressed") == "true"
        opened.open(address)
        assert page.text_content("#case-title") == title

    def test_a_link_to_a_case_that_is_gone_says_so(self, opened: Opened, page: Any) -> None:
        opened.open("#case=no-such-case")
        assert "no case no-such-case" in opened.count()
        page.mouse.wheel(0, 300)
        page.wait_for_function("scrollY > 300")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert opened.ids()
        assert page.evaluate("list.view.length") == 500
        assert page.locator("#count").evaluate("node => node.getBoundingClientRect().bottom") > 0

    def test_a_link_to_the_list_shows_its_rows(self, opened: Opened, page: Any) -> None:
        opened.open("#cases")
        assert opened.count().startswith("500 results")
        assert page.evaluate("list.view.length") == 500

    def test_the_command_says_where_to_run_it(self, page: Any) -> None:
        page.click("#list .row >> nth=0")
        page.wait_for_selector("#case-title")
        assert "root folder" in page.get_attribute("#detail button:has-text('Copy command')", "title")

    def test_a_broken_case_opens_on_the_difference_to_the_baseline(self, page: Any) -> None:
        page.click("#list .row >> nth=0")
        page.wait_for_selector("#case-title")
        assert page.text_content(".choice [aria-pressed=true] >> nth=1") == "Diff to the baseline"
        assert "You can return it at any time." in page.text_content("#detail .quote ins")
        assert "[added: " in page.text_content("#detail .quote ins")

    def test_answers_of_a_repeated_case(self, page: Any) -> None:
        page.click("[data-outcome=flaky]")
        page.click("#list .row >> nth=0")
        page.wait_for_selector("#case-title")
        page.click("#detail button:has-text('✓ answer')")
        assert page.locator("#detail h2:has-text('Evaluators on answer')").count() == 1
        assert page.locator("#detail .evaluator .score:has-text('✕')").count() == 0

    def test_each_answer_has_a_bar_from_its_begin(self, page: Any) -> None:
        page.click("[data-outcome=fail]")
        page.click("#list .row >> nth=0")
        page.wait_for_selector(".lanes")
        assert page.locator(".lanes li").count() == 5
        begins = page.eval_on_selector_all(".lanes .lane", "all => all.map(n => +n.children[1].getAttribute('x'))")
        assert min(begins) == 0
        assert begins[4] > begins[2] > 0
        assert "answer 5begun after " in page.text_content(".lanes li >> nth=4")

    def test_what_a_case_shows(self, page: Any) -> None:
        page.select_option("#f-tag", "tools")
        page.click("[data-outcome=fail]")
        page.click("#list .row >> nth=0")
        page.wait_for_selector("#case-title")
        text = page.inner_text("#detail")
        for part in (
            "Question",
            "Criteria:",
            "Evaluators",
            "Conversation",
            "Time and cost",
            "Raw record",
            "judge-model",
        ):
            assert part in text
        assert "by the price table genai-prices" in text
        assert "This case in other runs" in text
        page.click("#detail .message summary:has-text('search(query=')")
        assert '"Tarp"' in page.inner_text("#detail .message pre >> nth=1")


class TestLook:
    def test_dark_and_light(self, opened: Opened, page: Any) -> None:
        colour = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(colour)
        page.click("#theme")
        assert page.evaluate(colour) != light
        opened.shoot("4-dark")

    @pytest.mark.parametrize("width", [320, 390, 720, 1000, 1440])
    def test_nothing_is_wider_than_the_screen(self, opened: Opened, page: Any, width: int) -> None:
        page.set_viewport_size({"width": width, "height": 844})
        wider = "document.documentElement.scrollWidth - innerWidth"
        assert page.evaluate(wider) <= 0
        opened.shoot({390: "5-narrow", 1440: "1-first"}.get(width, f"width-{width}"))
        page.click("#list .row >> nth=0")
        page.wait_for_selector("#case-title")
        assert page.evaluate(wider) <= 0
        if width == 1440:
            opened.shoot("3-comparison")

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_on_paper(self, opened: Opened, page: Any, scheme: str) -> None:
        page.emulate_media(media="print", color_scheme=scheme)
        page.set_viewport_size({"width": 700, "height": 1000})  # as wide as a page between its margins
        try:
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert page.locator("#bar").is_hidden()
            assert page.locator("#list .row .why >> nth=0").is_visible()
            opened.shoot(f"6-paper-{scheme}")
        finally:
            page.emulate_media(media="null", color_scheme="light")
        data = page.pdf(format="A4", prefer_css_page_size=True)
        assert 2 <= data.count(b"/Type /Page\n") <= 10

    def test_labels_of_plots_stay_readable_on_a_narrow_screen(self, page: Any) -> None:
        page.set_viewport_size({"width": 390, "height": 844})
        page.click(".charts > summary")
        sizes = page.eval_on_selector_all("figure text", "all => all.map(n => n.getBoundingClientRect().height)")
        assert min(sizes) >= 11

    def test_axe_finds_nothing_serious(self, opened: Opened, browser: Any, report_of_500: Path) -> None:
        axe = pytest.importorskip("axe_playwright_python.sync_playwright")
        for scheme, size in (("light", (1440, 900)), ("dark", (390, 844))):
            # The report's own policy would refuse the script of axe.
            own = Opened(browser, report_of_500, size=size, color_scheme=scheme, bypass_csp=True)
            own.open("#outcome=error")
            assert _serious(axe.Axe().run(own.page)) == []
            own.page.click("#list .row >> nth=0")
            own.page.wait_for_selector("#case-title")
            assert _serious(axe.Axe().run(own.page)) == []
            own.open()
            own.page.click(".charts > summary")
            own.shoot(f"7-charts-{scheme}")
            assert _serious(axe.Axe().run(own.page)) == []
            own.context.close()


def _serious(found: Any) -> list[str]:
    return [
        f"{each['id']}: {each['nodes'][0]['html']}"
        for each in found.response["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_images_of_answers_and_tools_are_shown(browser: Any, tmp_path: Path) -> None:
    uri = f"data:image/png;base64,{PIXELS}"
    record = _hostile("image", f"Here it is: ![tent]({uri}), and {uri[:26]}")
    call = {"tool": "screenshot", "output": [{"type": "image", "data": PIXELS, "mimeType": "image/png"}]}
    drawing = {"type": "image", "source": {"data": "PHN2Zz4=", "media_type": "image/svg+xml"}}
    record["output_messages"] = [
        {"role": "assistant", "content": [{"type": "text", "text": "words"}, {"type": "image_url", "image_url": uri}]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "assistant", "content": [drawing]},
    ]
    own = Opened(browser, report_from(tmp_path, [record]))
    page = own.open()
    page.click("#list .row >> nth=0")
    page.wait_for_selector("#detail .images img")
    page.eval_on_selector_all("#detail img", "all => Promise.all(all.map(img => img.decode()))")
    assert page.eval_on_selector_all("#detail img", "all => all.map(img => img.naturalWidth)") == [3, 3, 3]
    assert page.get_attribute("#detail .images img >> nth=0", "alt") == "image (image/png, 0.1 kB)"
    assert "[image (image/svg+xml, 0.0 kB)]" in page.inner_text("#detail")
    assert "Here it is: ![tent]([image (image/png, 0.1 kB)])" in page.inner_text("#detail .quote")
    assert own.said == []
    tried = """() => new Promise((done) => {
        const image = new Image();
        image.onload = () => done("loaded"); image.onerror = () => done("refused");
        image.src = "http://127.0.0.1:9/x.png";
    })"""
    assert page.evaluate(tried) == "refused"
    assert "Content Security Policy" in own.said[0]
    own.context.close()


@pytest.fixture(scope="module")
def hostile(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    records = [_hostile(name, text) for name, text in HOSTILE.items()]
    opened = Opened(browser, report_from(tmp_path_factory.mktemp("hostile"), records))
    opened.open()
    yield opened
    opened.context.close()


class TestHostileTexts:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_case_is_text(self, hostile: Opened, name: str) -> None:
        page = hostile.page
        page.evaluate(f"location.hash = 'case=' + encodeURIComponent('evals/a.eval.yaml::{name}@t')")
        page.wait_for_selector(f"#case-title:has-text('{name}')")
        for each in page.query_selector_all("#detail .choice button"):
            each.click()
        for each in page.query_selector_all("#detail summary"):
            each.click()
        assert page.evaluate("window.PWNED") is None
        assert page.locator("img, base, iframe, #detail script, main style").count() == 0
        assert page.evaluate("[...document.links].every(link => link.getAttribute('href').startsWith('#'))")
        shown = page.inner_text("#detail")
        hidden = {"ansi": "U+001B", "bidi": "U+202E"}
        assert hidden.get(name, HOSTILE[name][:12]) in shown
        assert not {"\u202e", "\u200b", "\x1b"} & set(shown)

    def test_the_first_screen_is_text(self, hostile: Opened) -> None:
        assert hostile.page.evaluate("window.PWNED") is None
        assert hostile.said == []
        assert {url for url in hostile.requests if not url.startswith("about:")} == {hostile.path.as_uri()}

    def test_markup_from_data_is_refused_even_if_our_script_tried(self, hostile: Opened) -> None:
        tried = "() => { try { document.body.innerHTML = '<b>x</b>'; return 'made'; } catch (e) { return 'refused'; } }"
        assert hostile.page.evaluate(tried) == "refused"


def _hostile(name: str, text: str) -> dict[str, Any]:
    judged = {"name": f"e {text}", "type": "llm_judge", "score": 0, "misses": [text], "hits": [text], "reasoning": text}
    return {
        "eval_id": name, "score": 0, "status": "fail", "threshold": 1, "target": "t", "eval_file": "evals/a.eval.yaml",
        "candidate_answer": text, "reference_answer": f"{text} and more", "expected_outcome": text, "tags": [text],
        "evaluator_results": [judged], "lm_provider_request": {"question": text}, "node_id": f"a::{name}",
        "output_messages": [{"role": text, "content": text, "tool_calls": [{"tool": text, "input": text}]}],
    }  # fmt: skip


def test_scripts_off(browser: Any, report_of_500: Path) -> None:
    own = Opened(browser, report_of_500, java_script_enabled=False)
    own.page.goto(report_of_500.as_uri())
    assert "Failed: 5 cases broke" in own.page.inner_text("h1")
    assert own.page.locator("#list .row").count() == 40
    assert own.page.locator("#keys").is_hidden()
    own.context.close()


def test_where_the_server_forbids_scripts_and_styles(browser: Any, report_of_500: Path) -> None:
    own = Opened(browser, report_of_500)
    headers = {"Content-Security-Policy": "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"}
    body = report_of_500.read_text("utf-8")
    own.page.route("**/*", lambda route: route.fulfill(body=body, headers=headers, content_type="text/html"))
    own.page.goto("http://jenkins.example/report.html")
    own.page.click(".charts > summary")
    said = own.page.inner_text("main")
    assert "Failed: 5 cases broke against the baseline" in said
    assert "Pass rate by tag" in said
    assert "✕ Failed hooded-shell-001 evals/returns.eval.yaml" in said
    own.context.close()


def test_10_000_cases_open(browser: Any, tmp_path: Path) -> None:
    records = report_runs.results(10_000, targets=("small-model",), repeat=1)
    opened = Opened(browser, report_from(tmp_path, records))
    page = opened.open()
    assert opened.count().startswith("10,000 results")
    page.evaluate("scrollTo(0, 200000)")
    page.wait_for_selector("#list li[aria-posinset^='45']", state="attached")
    page.click("[data-outcome=error]")
    page.click("#list .row >> nth=0")
    page.wait_for_selector("#case-title")
    assert (tmp_path / "report.html").stat().st_size < 10e6
    opened.context.close()
