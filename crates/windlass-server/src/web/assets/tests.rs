//! Rules of the stylesheet, checked against the file itself.

use std::collections::BTreeMap;

use super::{CSS, JS};

type Roles = BTreeMap<String, String>;

/// The variables of the first block after a marker.
fn roles(marker: &str) -> Roles {
    let (_, rest) = CSS.split_once(marker).unwrap();
    let (block, _) = rest.split_once('}').unwrap();
    let declarations = block.split(';').filter_map(|line| line.trim().split_once(':'));
    declarations.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn light() -> Roles {
    roles(":root {")
}

fn dark() -> Roles {
    roles(":root[data-theme=\"dark\"] {")
}

/// Relative luminance, as WCAG defines it.
fn luminance(hex: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

const OUTCOMES: [&str; 6] = ["waiting", "running", "succeeded", "retrying", "failed", "canceled"];

/// Every pair of text and background colors that the stylesheet uses.
fn pairs() -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut add = |text: &str, ground: &str| pairs.push((format!("--{text}"), format!("--{ground}")));
    for ground in ["bg", "surface", "sunken"] {
        for text in ["text", "muted", "faint", "accent", "failed"] {
            add(text, ground);
        }
        for outcome in OUTCOMES {
            add(outcome, ground);
        }
    }
    for outcome in OUTCOMES {
        add(outcome, &format!("{outcome}-soft"));
        add("text", &format!("{outcome}-soft"));
    }
    add("on-accent", "accent");
    add("accent", "accent-soft");
    add("text", "accent-soft");
    add("muted", "accent-soft");
    add("text", "glow");
    for text in ["terminal-text", "terminal-faint", "terminal-error"] {
        add(text, "terminal");
    }
    pairs
}

#[test]
fn text_has_contrast_of_at_least_four_and_a_half_in_both_themes() {
    let mut weak = Vec::new();
    for (theme, roles) in [("light", light()), ("dark", dark())] {
        for (text, ground) in pairs() {
            let ratio = contrast(&roles[&text], &roles[&ground]);
            if ratio < 4.5 {
                weak.push(format!("{theme}: {text} on {ground} is {ratio:.2}"));
            }
        }
    }
    assert!(weak.is_empty(), "{weak:#?}");
}

#[test]
fn the_edges_of_fields_have_contrast_of_at_least_three() {
    for roles in [light(), dark()] {
        for ground in ["--bg", "--surface"] {
            let ratio = contrast(&roles["--line-strong"], &roles[ground]);
            assert!(ratio >= 3.0, "{ratio:.2} on {ground}");
        }
    }
}

#[test]
fn the_systems_dark_and_the_chosen_dark_are_the_same() {
    assert_eq!(dark(), roles(":root:not([data-theme=\"light\"]) {"));
}

#[test]
fn colors_are_named_by_role_outside_the_lists_of_roles() {
    let (_, rules) = CSS.split_once("/* Base */").unwrap();
    let bare: Vec<&str> = rules.lines().filter(|line| line.contains('#') && !line.contains("url(")).collect();
    // The search highlights in the terminal, which is dark in both themes, and its focus.
    assert_eq!(bare.len(), 2, "{bare:#?}");
    assert!(bare.iter().all(|line| line.contains(".terminal")), "{bare:#?}");
}

#[test]
fn nothing_external_is_fetched_and_nothing_is_evaluated() {
    for text in [CSS, JS] {
        for word in ["http://", "https://", "@import", "eval(", "new Function", "innerHTML", "document.write"]
        {
            assert!(!text.contains(word), "{word}");
        }
    }
}

#[test]
fn script_and_stylesheet_stay_small() {
    assert!(JS.len() < 24_000, "{}", JS.len());
    assert!(CSS.len() < 36_000, "{}", CSS.len());
}
