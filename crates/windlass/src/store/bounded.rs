//! Pages of lists: so many rows, and about so many bytes. What a page does not show is not kept in memory, and little of it is read:
//! rows are asked for in slices, so that a page that is full by its bytes has asked for few that it does not need.

use tokio_postgres::Row;

use super::database::Rows;

/// Bytes of a page, as the database sends them. A page has at least one row, however large, and ends with the one that fills it.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// Rows of one slice.
pub(crate) const SLICE: usize = 50;

/// A page that is filled slice by slice.
pub(crate) struct Slices {
    limit: usize,
    rows: Vec<Row>,
    bytes: usize,
    /// Nothing more is asked for; whether there is more.
    ended: Option<bool>,
}

impl Slices {
    pub(crate) fn new(limit: impl TryInto<usize>) -> Self {
        Self { limit: limit.try_into().unwrap_or(usize::MAX - 1), rows: Vec::new(), bytes: 0, ended: None }
    }

    /// How many rows to ask for next, after the last one so far, and how many bytes of them to keep.
    pub(crate) fn wanted(&self) -> Option<(i64, usize)> {
        self.ended.is_none().then(|| (self.slice() as i64, PAGE_BYTES - self.bytes))
    }

    pub(crate) fn last(&self) -> Option<&Row> {
        self.rows.last()
    }

    pub(crate) fn take(&mut self, answer: Rows) {
        let is_short = answer.rows.len() < self.slice();
        self.bytes += answer.rows.iter().map(Row::raw_size_bytes).sum::<usize>();
        self.rows.extend(answer.rows);
        self.ended = if self.rows.len() > self.limit || answer.is_cut {
            Some(true)
        } else if is_short {
            Some(false)
        } else {
            (self.bytes >= PAGE_BYTES).then_some(true)
        };
    }

    /// The rows of the page, and whether there are more.
    pub(crate) fn page(mut self) -> (Vec<Row>, bool) {
        self.rows.truncate(self.limit);
        (self.rows, self.ended.unwrap_or(false))
    }

    /// At the end one more than fits, which tells whether there is a next page.
    fn slice(&self) -> usize {
        (self.limit + 1 - self.rows.len()).min(SLICE)
    }
}
