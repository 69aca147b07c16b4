//! Tables and lists of fields, for people: with lines and colours on a terminal, plain elsewhere.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, presets};

use crate::{
    out::{Style, clean},
    text::short,
};

/// Longer cells are cut; `show` and `--json` have the whole.
const CELL_CHARS_MAX: usize = 80;
/// Columns up to this width are not broken.
const WHOLE_CHARS_MAX: u16 = 16;
/// On a terminal narrower than this, lines run over rather than columns into shreds.
const NARROW: u16 = 72;

pub struct Table {
    style: Style,
    inner: comfy_table::Table,
}

/// What stands in a cell.
pub enum Item {
    Text(String),
    /// One of our words, in the colour of what it means.
    Word(&'static str),
    Number(String),
}

impl Table {
    pub fn new(style: Style, header: &[&str]) -> Self {
        let mut inner = comfy_table::Table::new();
        if style.tty {
            inner
                .load_style(presets::UTF8_FULL_CONDENSED)
                .set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            inner.load_style(presets::NOTHING).force_no_tty();
        }
        let bold = |name: &&str| match style.colour {
            true => Cell::new(name).add_attribute(Attribute::Bold),
            false => Cell::new(name),
        };
        inner.set_header(header.iter().map(bold));
        Self { style, inner }
    }

    #[must_use]
    pub fn row(mut self, items: impl IntoIterator<Item = Item>) -> Self {
        let cells: Vec<_> = items.into_iter().map(|item| cell(item, self.style)).collect();
        self.inner.add_row(cells);
        self
    }

    /// Nothing at all when there are no rows.
    pub fn render(mut self) -> String {
        if self.inner.is_empty() {
            return String::new();
        }
        let widths = self.inner.column_max_content_widths();
        for (at, column) in self.inner.column_iter_mut().enumerate() {
            if !self.style.tty {
                column.set_padding((0, 2));
            } else if at == 0 || widths[at] <= WHOLE_CHARS_MAX {
                // An id is to be copied whole, and a word is not to be broken.
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        if self.inner.width().is_some_and(|width| width < NARROW) {
            self.inner.set_content_arrangement(ContentArrangement::Disabled);
        }
        self.inner.trim_fmt()
    }
}

fn cell(item: Item, style: Style) -> Cell {
    match item {
        Item::Text(text) => Cell::new(short(&clean(&text), CELL_CHARS_MAX)),
        Item::Word(word) => match colour(word).filter(|_| style.colour) {
            Some(colour) => Cell::new(word).fg(colour),
            None => Cell::new(word),
        },
        Item::Number(number) => Cell::new(number).set_alignment(CellAlignment::Right),
    }
}

fn colour(word: &str) -> Option<Color> {
    Some(match word {
        "completed" | "done" | "ok" | "verified" | "acknowledged" | "injected" => Color::Green,
        "failed" | "lost" | "expired" | "missing" | "disputed" | "CRITICAL" => Color::Red,
        "running" | "assigned" | "building" | "delivered" => Color::Cyan,
        "pending" | "creating" | "queued" | "warn" | "degraded" | "HIGH" => Color::Yellow,
        "cancelled" | "terminated" => Color::DarkGrey,
        _ => return None,
    })
}

impl<T: Into<String>> From<T> for Item {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

pub fn number(n: &impl ToString) -> Item {
    Item::Number(n.to_string())
}

/// Something that has a name or is not there.
pub fn maybe(text: Option<impl ToString>) -> Item {
    Item::Text(text.map_or_else(|| "-".to_owned(), |text| text.to_string()))
}

/// One thing in full: a name and a value per line, absent values left out.
pub fn fields<'a>(pairs: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let indented = format!("\n{:width$}  ", "");
    let lines = pairs.iter().map(|(name, value)| {
        let value = clean(value.trim_end()).replace('\n', &indented);
        format!("{name:width$}  {value}\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_nobody_watches_is_plain_columns() {
        let table = Table::new(Style::PLAIN, &["id", "status", "n"])
            .row(["a-1".into(), Item::Word("failed"), number(&5)])
            .row(["a-22".into(), Item::Word("running"), number(&50)]);
        assert_eq!(table.render(), "id    status   n\na-1   failed    5\na-22  running  50");
    }

    #[test]
    fn a_table_of_nothing_is_nothing() {
        assert_eq!(Table::new(Style::PLAIN, &["id"]).render(), "");
    }

    #[test]
    fn a_cell_is_one_short_harmless_line() {
        let text = format!("\u{1b}[31m{}\nsecond line", "x".repeat(100));
        let table = Table::new(Style::PLAIN, &["title"]).row([text.into()]).render();
        let row = table.lines().nth(1).unwrap();
        assert_eq!((table.lines().count(), row.chars().count()), (2, CELL_CHARS_MAX));
        assert!(row.starts_with("\\u{1b}[31mxxx") && row.ends_with('…'), "{row}");
    }

    #[test]
    fn fields_line_up_and_absent_ones_are_left_out() {
        let text = fields([
            ("id", Some("task-1".to_owned())),
            ("ticket", None),
            ("description", Some("one\ntwo\n".to_owned())),
        ]);
        assert_eq!(text, "id           task-1\ndescription  one\n             two\n");
    }
}
