//! Writes the ends of attempts: by place, in blocks, for a worker that claimed the jobs; by id for a caller that knows
//! only the fence.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Session, Statement, query_unnamed};
use super::job::FenceColumns;
use super::param::JsonText;
use crate::error::Result;
use crate::model::job::claimed::{BlockPlace, Fence};

pub(crate) const STATEMENTS: &[&Statement] = &[&PLAIN, &DETAILED, &MIXED, &BY_ID, &BY_ID_FREE];

/// The end of one attempt, ready to be written: its fence and the decision, in the format of the statement.
#[derive(Debug, Clone)]
pub(crate) struct SettleEntry {
    pub(crate) fence: Fence,
    /// None if the caller knows only the fence.
    pub(crate) place: Option<BlockPlace>,
    pub(crate) ran_ms: Option<i32>,
    /// `None` means a plain success.
    pub(crate) detail: Option<String>,
    /// Whether other jobs are enqueued with it, which may be refused, or have to wait for a transaction of its tenant.
    pub(crate) has_chain: bool,
}

/// Positions, from 0, of the ends that took effect, of those among them that a cancel request overruled, and of those
/// that must be written again because another transaction has locked their blocks.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) settled: Vec<usize>,
    pub(crate) overruled: Vec<usize>,
    pub(crate) busy: Vec<usize>,
}

impl Settled {
    /// From the columns of the statement by id, which count from 1.
    pub(crate) fn of(settled: Option<Vec<i32>>, overruled: Option<Vec<i32>>) -> Self {
        Self { settled: from_zero(settled), overruled: from_zero(overruled), busy: Vec::new() }
    }

    /// Adds the result of the statements by place for these entries: the columns from `first` are those without effect,
    /// the overruled and the busy ones.
    fn add(&mut self, entries: &[usize], row: &tokio_postgres::Row, first: usize) {
        let mut took_effect = vec![true; entries.len()];
        for missed in from_zero(row.get(first)) {
            took_effect[missed] = false;
        }
        self.settled
            .extend(entries.iter().zip(&took_effect).filter(|(_, took)| **took).map(|(entry, _)| *entry));
        self.overruled.extend(from_zero(row.get(first + 1)).into_iter().map(|entry| entries[entry]));
        self.busy.extend(from_zero(row.get(first + 2)).into_iter().map(|entry| entries[entry]));
    }
}

fn from_zero(ords: Option<Vec<i32>>) -> Vec<usize> {
    ords.unwrap_or_default().into_iter().filter_map(|ord| usize::try_from(ord - 1).ok()).collect()
}

const PLAIN_TYPES: &[Type] = &[
    Type::UUID_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::UUID_ARRAY,
    Type::INT4_ARRAY,
    Type::INT2_ARRAY,
    Type::INT4_ARRAY,
];
const DETAILED_TYPES: &[Type] = &[
    Type::UUID_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::UUID_ARRAY,
    Type::INT2_ARRAY,
    Type::INT4_ARRAY,
    Type::JSONB_ARRAY,
];

static PLAIN: Statement = Statement {
    text: "select missed, overruled, busy from windlass.settle_plain($1, $2, $3, $4, $5, $6, $7, $8)",
    types: PLAIN_TYPES,
};

static DETAILED: Statement = Statement {
    text: "select missed, overruled, busy from windlass.settle_blocks($1, $2, $3, $4, $5, $6, $7, $8, null, true)",
    types: DETAILED_TYPES,
};

/// Both in one transaction, so that an error of one end leaves none of the batch written.
static MIXED: Statement = Statement {
    text: "select p.missed, p.overruled, p.busy, d.missed, d.overruled, d.busy \
           from windlass.settle_plain($1, $2, $3, $4, $5, $6, $7, $8) p, \
                windlass.settle_blocks($9, $10, $11, $12, $13, $14, $15, $16, null, true) d",
    types: &[
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::JSONB_ARRAY,
    ],
};

const BY_ID_TYPES: &[Type] = &[
    Type::UUID_ARRAY,
    Type::UUID_ARRAY,
    Type::INT4_ARRAY,
    Type::UUID_ARRAY,
    Type::INT4_ARRAY,
    Type::JSONB_ARRAY,
];

pub(crate) static BY_ID: Statement = Statement {
    text: "select settled, overruled from windlass.settle($1, $2, $3, $4, $5, $6)",
    types: BY_ID_TYPES,
};

static BY_ID_FREE: Statement = Statement {
    text: "select settled, overruled, busy from windlass.settle($1, $2, $3, $4, $5, $6, null, true)",
    types: BY_ID_TYPES,
};

/// A batch with details and fewer plain successes than this is written by one function. The second one costs as much as
/// a few ends.
const FEW: usize = 8;

/// Does not wait for open transactions: see `settle_blocks.sql`.
pub(crate) async fn settle(session: &Session, endings: &[SettleEntry]) -> Result<Settled> {
    let mut result = Settled::default();
    let mut placed: Vec<(usize, BlockPlace)> = Vec::with_capacity(endings.len());
    placed.extend(endings.iter().enumerate().filter_map(|(entry, ending)| Some((entry, ending.place?))));
    if placed.len() < endings.len() {
        let columns = IdColumns::of(endings);
        let rows = session.query(&BY_ID_FREE, &columns.params()).await?;
        return Ok(Settled { busy: from_zero(rows[0].get(2)), ..read_settled(&rows[0]) });
    }
    placed.sort_unstable_by_key(|(entry, place)| (endings[*entry].fence.tenant, *place));
    let is_plain = |entry: usize| endings[entry].detail.is_none() && endings[entry].ran_ms.is_some();
    let (mut plain, mut detailed): (Vec<_>, Vec<_>) = placed.iter().partition(|(entry, _)| is_plain(*entry));
    // Chained jobs need a lock that is taken before any block.
    if !detailed.is_empty() && (plain.len() < FEW || endings.iter().any(|ending| ending.has_chain)) {
        (plain, detailed) = (Vec::new(), placed);
    }
    let (groups, rest) = (PlainColumns::of(endings, &plain), DetailedColumns::of(endings, &detailed));
    let entries =
        |of: Vec<(usize, BlockPlace)>| -> Vec<usize> { of.into_iter().map(|(entry, _)| entry).collect() };
    match (plain.is_empty(), detailed.is_empty()) {
        (_, true) => {
            let rows = session.query(&PLAIN, &groups.params()).await?;
            result.add(&entries(plain), &rows[0], 0);
        }
        (true, false) => {
            let rows = session.query(&DETAILED, &rest.params()).await?;
            result.add(&entries(detailed), &rows[0], 0);
        }
        (false, false) => {
            let params: Vec<_> = groups.params().into_iter().chain(rest.params()).collect();
            let rows = session.query(&MIXED, &params).await?;
            result.add(&entries(plain), &rows[0], 0);
            result.add(&entries(detailed), &rows[0], 3);
        }
    }
    Ok(result)
}

/// The same inside the caller's own transaction, which waits for locks on the job's block.
pub(crate) async fn settle_in<C: tokio_postgres::GenericClient + Sync>(
    client: &C,
    ending: &SettleEntry,
) -> Result<Settled> {
    let columns = IdColumns::of(std::slice::from_ref(ending));
    let rows = query_unnamed(client, &BY_ID, &columns.params()).await?;
    Ok(read_settled(&rows[0]))
}

pub(crate) fn read_settled(row: &tokio_postgres::Row) -> Settled {
    Settled::of(row.get(0), row.get(1))
}

/// Plain successes, grouped by block.
#[derive(Default)]
struct PlainColumns {
    tenants: Vec<Uuid>,
    lanes: Vec<i32>,
    blocks: Vec<i64>,
    attempts: Vec<i32>,
    tokens: Vec<Uuid>,
    counts: Vec<i32>,
    positions: Vec<i16>,
    ran_ms: Vec<Option<i32>>,
}

impl PlainColumns {
    /// `of` is sorted by tenant and place.
    fn of(endings: &[SettleEntry], of: &[(usize, BlockPlace)]) -> Self {
        let mut columns = Self::default();
        let mut last = None;
        for &(entry, place) in of {
            let ending = &endings[entry];
            let block =
                (ending.fence.tenant, place.lane, place.block, ending.fence.attempt, ending.fence.token);
            if last != Some(block) {
                columns.tenants.push(block.0);
                columns.lanes.push(block.1);
                columns.blocks.push(block.2);
                columns.attempts.push(block.3);
                columns.tokens.push(block.4);
                columns.counts.push(0);
                last = Some(block);
            }
            if let Some(count) = columns.counts.last_mut() {
                *count += 1;
            }
            columns.positions.push(place.position);
            columns.ran_ms.push(ending.ran_ms);
        }
        columns
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.tenants,
            &self.lanes,
            &self.blocks,
            &self.attempts,
            &self.tokens,
            &self.counts,
            &self.positions,
            &self.ran_ms,
        ]
    }
}

/// Any ends, one element each.
struct DetailedColumns<'a> {
    fences: FenceColumns,
    lanes: Vec<i32>,
    blocks: Vec<i64>,
    positions: Vec<i16>,
    ran_ms: Vec<Option<i32>>,
    details: Vec<Option<JsonText<'a>>>,
}

impl<'a> DetailedColumns<'a> {
    fn of(endings: &'a [SettleEntry], of: &[(usize, BlockPlace)]) -> Self {
        Self {
            fences: FenceColumns::of(of.iter().map(|(entry, _)| &endings[*entry].fence)),
            lanes: of.iter().map(|(_, place)| place.lane).collect(),
            blocks: of.iter().map(|(_, place)| place.block).collect(),
            positions: of.iter().map(|(_, place)| place.position).collect(),
            ran_ms: of.iter().map(|(entry, _)| endings[*entry].ran_ms).collect(),
            details: of.iter().map(|(entry, _)| endings[*entry].detail.as_deref().map(JsonText)).collect(),
        }
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        let fences = &self.fences;
        [
            &fences.tenants,
            &self.lanes,
            &self.blocks,
            &fences.attempts,
            &fences.tokens,
            &self.positions,
            &self.ran_ms,
            &self.details,
        ]
    }
}

struct IdColumns<'a> {
    fences: FenceColumns,
    ran_ms: Vec<Option<i32>>,
    details: Vec<Option<JsonText<'a>>>,
}

impl<'a> IdColumns<'a> {
    fn of(endings: &'a [SettleEntry]) -> Self {
        Self {
            fences: FenceColumns::of(endings.iter().map(|ending| &ending.fence)),
            ran_ms: endings.iter().map(|ending| ending.ran_ms).collect(),
            details: endings.iter().map(|ending| ending.detail.as_deref().map(JsonText)).collect(),
        }
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 6] {
        let fences = &self.fences;
        [&fences.tenants, &fences.jobs, &fences.attempts, &fences.tokens, &self.ran_ms, &self.details]
    }
}
