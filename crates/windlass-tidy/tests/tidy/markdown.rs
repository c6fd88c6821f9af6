//! A minimal Markdown parser: links, headings, and tables that a comment marks as checked.

use crate::source::line_at;
use crate::tree::File;

/// The text with code blocks and inline code blanked out, line by line.
pub(crate) fn without_code(text: &str) -> Vec<String> {
    let mut in_block = false;
    text.lines()
        .map(|line| {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
                return String::new();
            }
            if in_block {
                return String::new();
            }
            // Every second part is between backticks.
            line.split('`').step_by(2).collect::<Vec<_>>().join("")
        })
        .collect()
}

/// The targets of inline links, each with its line.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in without_code(text).iter().enumerate() {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            found.push((index + 1, target.to_owned()));
        }
    }
    found
}

/// The anchors of the headings.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut in_block = false;
    let headings = text.lines().filter(|line| {
        in_block ^= line.trim_start().starts_with("```");
        !in_block && line.starts_with('#')
    });
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept =
                words.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
            kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
        })
        .collect()
}

/// A table under a comment `<!-- checked: NAME -->`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) cells: Vec<String>,
}

const MARK: &str = "<!-- checked:";

/// Every marked table of the file. A mark without a table below gives a table without columns.
pub(crate) fn checked_tables(file: &File) -> Vec<Table> {
    let lines: Vec<&str> = file.text.lines().collect();
    file.text
        .match_indices(MARK)
        // A document may mention the mark; only one at the beginning of a line counts.
        .filter(|(at, _)| *at == 0 || file.text[..*at].ends_with('\n'))
        .map(|(at, _)| {
            let line = line_at(&file.text, at);
            let name = lines[line - 1][MARK.len()..].trim_end_matches("-->").trim().to_owned();
            let below = lines.iter().enumerate().skip(line).skip_while(|(_, text)| text.is_empty());
            let mut rows = below
                .take_while(|(_, text)| text.starts_with('|'))
                .map(|(index, text)| Row { line: index + 1, cells: cells(text) });
            let columns = rows.next().map(|header| header.cells).unwrap_or_default();
            Table { name, path: file.path.clone(), line, columns, rows: rows.skip(1).collect() }
        })
        .collect()
}

/// The cells of a row; `\|` does not end one.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').replace("\\|", "\0");
    let row = row.strip_suffix('|').unwrap_or(&row);
    row.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

#[test]
fn a_row_is_split_at_its_bars() {
    assert_eq!(cells("| a | b \\| c | |"), ["a", "b | c", ""]);
}
