//! One page of jobs, limited by number and bytes.

use tokio_postgres::Row;
use uuid::Uuid;

use super::database::{Database, Session};
use super::list::{begin, jobs_up_to, pick};
use crate::error::Result;
use crate::model::filter::Filter;
use crate::model::record::Job;

/// Returns the jobs of one page, and the start of the next one if there is one.
pub(crate) async fn page(db: &Database, filter: &Filter) -> Result<(Vec<Job>, Option<Uuid>)> {
    let session = begin(db, Some(filter.tenant)).await?;
    let page = page_in(&session, filter).await?;
    session.commit().await?;
    Ok(page)
}

/// The same inside an open transaction.
pub(crate) async fn page_in(session: &Session, filter: &Filter) -> Result<(Vec<Job>, Option<Uuid>)> {
    let Picked { ids, behind, next } = pick(session, filter).await?;
    jobs_of(session, filter.tenant, &ids, &behind, next).await
}

/// Returns as many of these jobs as fit on a page, and the start of the next one: after the last that was read, or
/// `next` if all were.
pub(crate) async fn jobs_of(
    session: &Session,
    tenant: Uuid,
    ids: &[Uuid],
    behind: &[Uuid],
    next: Option<Uuid>,
) -> Result<(Vec<Job>, Option<Uuid>)> {
    let (jobs, cut_at) = jobs_up_to(session, tenant, ids).await?;
    Ok((jobs, cut_at.map_or(next, |last| behind.get(last).copied())))
}

/// The jobs of a page, the start of the next page if this one ended after each of them, and the start of the next page
/// if this one is full.
pub(super) struct Picked {
    pub(super) ids: Vec<Uuid>,
    pub(super) behind: Vec<Uuid>,
    pub(super) next: Option<Uuid>,
}

/// Skips the offset. Queued and running jobs have their position.
pub(super) fn picked(rows: &[Row], filter: &Filter) -> Picked {
    let behind = |row: &Row| if row.len() > 1 { Filter::after_place(row.get(1)) } else { row.get(0) };
    let whole = usize::from(filter.limit) + usize::from(filter.offset);
    let next = rows.last().filter(|_| rows.len() == whole).map(behind);
    let rows = rows.get(usize::from(filter.offset)..).unwrap_or_default();
    Picked {
        ids: rows.iter().map(|row| row.get(0)).collect(),
        behind: rows.iter().map(behind).collect(),
        next,
    }
}
