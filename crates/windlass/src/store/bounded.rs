//! Pages of lists, limited by rows and approximately by bytes. Rows that a page does not show are not kept in memory,
//! and few are read: rows are requested in slices, so that a page that is full by its bytes has requested few unneeded
//! ones.

use tokio_postgres::Row;

use super::database::Rows;

/// The bytes of a page, as the database sends them. A page has at least one row, regardless of its size, and ends with
/// the row that fills it.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// The rows of one slice.
pub(crate) const SLICE: usize = 50;

/// A page that is filled slice by slice.
pub(crate) struct Slices {
    limit: usize,
    rows: Vec<Row>,
    bytes: usize,
    /// Set when no more rows are requested: whether there are more.
    ended: Option<bool>,
}

impl Slices {
    pub(crate) fn new(limit: impl TryInto<usize>) -> Self {
        Self { limit: limit.try_into().unwrap_or(usize::MAX - 1), rows: Vec::new(), bytes: 0, ended: None }
    }

    /// Returns how many rows to request next, after the last one so far, and how many bytes of them to keep.
    pub(crate) fn wanted(&self) -> Option<(i64, usize)> {
        self.ended.is_none().then(|| (self.slice() as i64, PAGE_BYTES - self.bytes))
    }

    pub(crate) fn last(&self) -> Option<&Row> {
        self.rows.last()
    }

    pub(crate) fn take(&mut self, result: Rows) {
        let is_short = result.rows.len() < self.slice();
        self.bytes += result.rows.iter().map(Row::raw_size_bytes).sum::<usize>();
        self.rows.extend(result.rows);
        self.ended = if self.rows.len() > self.limit || result.is_cut {
            Some(true)
        } else if is_short {
            Some(false)
        } else {
            (self.bytes >= PAGE_BYTES).then_some(true)
        };
    }

    /// Returns the rows of the page, and whether there are more.
    pub(crate) fn page(mut self) -> (Vec<Row>, bool) {
        self.rows.truncate(self.limit);
        (self.rows, self.ended.unwrap_or(false))
    }

    /// The last slice has one row more than fits, which shows whether there is a next page.
    fn slice(&self) -> usize {
        (self.limit + 1 - self.rows.len()).min(SLICE)
    }
}
