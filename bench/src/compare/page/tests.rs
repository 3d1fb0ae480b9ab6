use highwater_pages::balanced;

use super::super::sample;
use super::*;

#[test]
fn the_page_is_well_formed_and_complete() {
    let page = render(&sample::results(), Some(&sample::results()));
    assert!(balanced(&page).unwrap() > 300);
    let svgs: Vec<&str> =
        page.split("<svg ").skip(1).filter_map(|svg| svg.split_once("</svg>").map(|(svg, _)| svg)).collect();
    let plots: Vec<_> = svgs.iter().filter(|svg| svg.contains("role=\"img\"")).collect();
    // Four cases of A, two of E and its distribution, three curves of H.
    assert_eq!(plots.len(), 10);
    assert!(plots.iter().all(|svg| svg.contains("<title>") && svg.contains("<desc>")));
    assert!(!page.contains("NaN") && !page.contains("inf\"") && !page.contains("inf,"));
}

#[test]
fn correctness_stands_first() {
    let page = render(&sample::results(), None);
    let at = |needle: &str| page.find(needle).unwrap_or_else(|| panic!("no {needle}"));
    assert!(at("<h2 id=\"G\">") < at("<h2 id=\"goals\">"));
    assert!(at("<h2 id=\"goals\">") < at("<h2 id=\"A\">"));
    assert!(page.contains("<td class=\"n wrong\">0 (0–55)</td>"));
}

#[test]
fn nothing_is_fetched_and_nothing_runs() {
    let page = render(&sample::results(), None);
    for needle in ["<script", "<link", "@import", "url(", "src=", "<b>always", "href=\"javascript"] {
        assert!(!page.contains(needle), "{needle}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let fetched = page.split("http").skip(1).filter(|rest| !rest.starts_with("s://docs.rs/"));
    assert_eq!(fetched.count(), 0);
}

#[test]
fn who_was_not_measured_is_told_with_the_reason() {
    let page = render(&sample::results(), None);
    assert!(page.contains("<dt>absent</dt><dd>error: no such &lt;package&gt; | found</dd>"));
    assert!(page.contains("<span class=\"badge bad\">missed</span>"));
    assert!(page.contains("<span class=\"badge none\">not measured</span>"));
}

#[test]
fn a_run_without_any_figure_is_a_page_too() {
    let mut results = sample::results();
    results.quick = true;
    for row in results.scenarios.iter_mut().flat_map(|scenario| &mut scenario.rows) {
        row.samples.clear();
        row.distribution.clear();
    }
    let page = render(&results, None);
    balanced(&page).unwrap();
    assert!(page.contains("A quick run") && !page.contains("NaN"));
    results.contestants.clear();
    results.scenarios.clear();
    results.ratios.clear();
    balanced(&render(&results, None)).unwrap();
}
