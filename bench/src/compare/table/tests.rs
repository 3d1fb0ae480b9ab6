use super::super::sample;
use super::*;

const PLAIN: Paint = Paint { colour: false };

#[test]
fn correctness_stands_first() {
    let text = render(&sample::results(), None, PLAIN);
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("no {needle} in {text}"));
    assert!(at("G  Nothing lost") < at("A  Append one event"));
    assert!(text.contains("0 (0–55)"), "{text}");
    assert!(text.contains("<script>alert(1)</script> !"), "{text}");
}

#[test]
fn it_fits_a_terminal_and_has_no_colour_in_a_file() {
    let text = render(&sample::results(), Some(&sample::results()), PLAIN);
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
    assert!(!text.contains('\x1b'));
    assert!(render(&sample::results(), None, Paint { colour: true }).contains("\x1b[1;31m"));
}

#[test]
fn medians_marks_notes_and_reasons_are_there() {
    let text = render(&sample::results(), None, PLAIN);
    for needle in [
        "▸ highwater-execute",
        "2,000 ±5%*",
        "—¹",
        "¹ stores one at a time, <b>always</b>",
        "absent: not measured: error: no such <package> | found",
        "missed",
        "≥ 0.9 ",
    ] {
        assert!(text.contains(needle), "no {needle} in {text}");
    }
    assert!(text.contains("1 reached, 1 missed, 0 within the noise, 1 not measured"), "{text}");
}

#[test]
fn what_others_say_does_not_command_the_terminal() {
    let mut results = sample::results();
    results.contestants[5].not_measured = Some("\x1b[2J gone".to_owned());
    assert!(!render(&results, None, PLAIN).contains('\x1b'));
}

#[test]
fn changes_are_told_with_their_basis() {
    let mut earlier = sample::results();
    earlier.quick = true;
    for row in &mut earlier.scenarios[0].rows {
        if row.contestant == "highwater" {
            row.samples.iter_mut().for_each(|figure| *figure /= 10.0);
        }
    }
    let text = render(&sample::results(), Some(&earlier), PLAIN);
    assert!(text.contains("A 32 callers · highwater") && text.contains("×10"), "{text}");
    assert!(text.contains("of raw-tokio-postgres") && text.contains("Warning: the earlier run was quick"), "{text}");
}

#[test]
fn the_last_line_is_for_programs() {
    let line = last_line(&sample::results()).unwrap();
    assert!(!line.contains('\n'));
    let ratios =
        r#""ratios":{"a1_vs_raw":0.612,"a32_vs_best_peer":25.123,"e100_p50_vs_best_peer":null,"h_processes":2.0}"#;
    assert!(line.starts_with(r#"{"scenario":"compare","#) && line.contains(ratios), "{line}");
    assert!(line.contains(r#""missed":["a1_vs_raw"]"#), "{line}");
}
