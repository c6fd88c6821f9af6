//! Pages of lists: how many, after how many, and after which one.

use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::Problem;

/// How many of a list, within its bounds; `usual`, if not said.
pub(crate) fn page_limit(given: Option<u16>, usual: u16, most: u16) -> Result<u16, Problem> {
    let limit = given.unwrap_or(usual);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::invalid("?limit", format!("must be between 1 and {most}")))
}

/// Deeper than this only a cursor goes: what an offset leaves out is read all the same.
const DEEPEST_OFFSET: u16 = 10_000;

pub(crate) fn page_offset(given: Option<u16>) -> Result<u16, Problem> {
    let offset = given.unwrap_or(0);
    if offset <= DEEPEST_OFFSET {
        return Ok(offset);
    }
    let message = format!("must be at most {DEEPEST_OFFSET}; use the cursor to go deeper");
    Err(Problem::invalid("?offset", message))
}

/// Which part of a list that is short enough to be read whole: definitions, tenants, tokens and the like.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Rows per page: 1000, if not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
    /// Leaves out the first so many.
    #[param(minimum = 0, maximum = 10000)]
    offset: Option<u16>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

impl PageQuery {
    /// The part that is asked for, and the cursor of the next. In the order of the names, each of which is one row's; so a page
    /// goes on in the right place even if the row it began after is gone.
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
    fn pages_follow_each_other_by_name_even_after_one_that_is_gone() {
        assert_eq!(page(2, 0, None), (vec![1, 2], Some("2".to_owned())));
        assert_eq!(page(2, 0, Some("2")), (vec![3, 4], Some("4".to_owned())));
        assert_eq!(page(2, 0, Some("4")), (vec![5], None));
        assert_eq!(page(2, 0, Some("20")), (vec![3, 4], Some("4".to_owned())));
        assert_eq!(page(2, 3, None), (vec![4, 5], None));
        assert_eq!(page(5, 0, None).1, None, "nothing comes after a full last page");
    }

    #[test]
    fn what_is_beyond_the_bounds_is_refused() {
        for (limit, offset) in [(0, 0), (1001, 0), (1, 10_001)] {
            let query = PageQuery { limit: Some(limit), offset: Some(offset), cursor: None };
            assert!(query.of(vec![1], u32::to_string).is_err(), "{limit} {offset}");
        }
    }
}
