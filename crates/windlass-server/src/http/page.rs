//! Pagination: limit, offset and cursor.

use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::Problem;

/// The limit of a page, within its bounds; `usual` if not given.
pub(crate) fn page_limit(given: Option<u16>, usual: u16, most: u16) -> Result<u16, Problem> {
    let limit = given.unwrap_or(usual);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::invalid("?limit", format!("must be between 1 and {most}")))
}

/// Beyond this only a cursor works: the database reads the skipped rows anyway.
const MAX_OFFSET: u16 = 10_000;

pub(crate) fn page_offset(given: Option<u16>) -> Result<u16, Problem> {
    let offset = given.unwrap_or(0);
    if offset <= MAX_OFFSET {
        return Ok(offset);
    }
    let message = format!("must be at most {MAX_OFFSET}; use the cursor beyond that");
    Err(Problem::invalid("?offset", message))
}

/// The page of a list that is short enough to be read completely, such as definitions, tenants and tokens.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// The maximum number of rows (default 1000).
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
    /// The number of rows to skip.
    #[param(minimum = 0, maximum = 10000)]
    offset: Option<u16>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

impl PageQuery {
    /// The requested page, and the cursor of the next one. Rows are ordered by their unique name; so a page continues in the right
    /// place even if the row of the cursor was deleted.
    pub(crate) fn of<T>(
        &self,
        all: Vec<T>,
        name: impl Fn(&T) -> String,
    ) -> Result<(Vec<T>, Option<String>), Problem> {
        let (limit, offset) = (page_limit(self.limit, 1000, 1000)?, page_offset(self.offset)?);
        let mut named: Vec<(String, T)> = all.into_iter().map(|row| (name(&row), row)).collect();
        named.retain(|(name, _)| self.cursor.as_ref().is_none_or(|cursor| name > cursor));
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut rest = named.into_iter().skip(offset.into());
        let page: Vec<(String, T)> = rest.by_ref().take(limit.into()).collect();
        let last = page.last().map(|(name, _)| name.clone());
        let next = rest.next().and(last);
        Ok((page.into_iter().map(|(_, row)| row).collect(), next))
    }
}

#[cfg(test)]
mod tests {
    use super::PageQuery;

    fn page(limit: u16, offset: u16, cursor: Option<&str>) -> (Vec<u32>, Option<String>) {
        let query = PageQuery { limit: Some(limit), offset: Some(offset), cursor: cursor.map(str::to_owned) };
        query.of(vec![3, 1, 5, 2, 4], u32::to_string).unwrap()
    }

    #[test]
    fn pages_continue_by_name_even_after_a_deleted_row() {
        assert_eq!(page(2, 0, None), (vec![1, 2], Some("2".to_owned())));
        assert_eq!(page(2, 0, Some("2")), (vec![3, 4], Some("4".to_owned())));
        assert_eq!(page(2, 0, Some("4")), (vec![5], None));
        assert_eq!(page(2, 0, Some("20")), (vec![3, 4], Some("4".to_owned())));
        assert_eq!(page(2, 3, None), (vec![4, 5], None));
        assert_eq!(page(5, 0, None).1, None, "there is no cursor after a full last page");
    }

    #[test]
    fn out_of_range_values_are_rejected() {
        for (limit, offset) in [(0, 0), (1001, 0), (1, 10_001)] {
            let query = PageQuery { limit: Some(limit), offset: Some(offset), cursor: None };
            assert!(query.of(vec![1], u32::to_string).is_err(), "{limit} {offset}");
        }
    }
}
