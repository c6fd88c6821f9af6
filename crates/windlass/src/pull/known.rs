//! The workers that are registered, so that a claim need not register again. Workers choose their names, so each tenant has
//! its own limit: a tenant that makes up names makes no worker of another register again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use crate::store::worker::WorkerRegistration;

/// The maximum number of one tenant. Above it, those of the tenant are forgotten and register again.
const MAX: usize = 2_000;
/// The same for the workers of the installation, which belong to the operator.
const MAX_OF_INSTALLATION: usize = 100_000;

#[derive(Debug, Clone, Default)]
pub(super) struct KnownWorkers(Arc<Mutex<ByTenant>>);

type ByTenant = HashMap<Option<Uuid>, HashMap<String, WorkerSlot>>;
type WorkerSlot = Arc<tokio::sync::Mutex<Option<KnownWorker>>>;

#[derive(Debug)]
pub(super) struct KnownWorker {
    pub(super) number: i32,
    pub(super) version: String,
    pub(super) registration: WorkerRegistration,
}

/// Exclusive access to one worker. If it is not registered when this is dropped, nothing is kept of it: a name whose
/// registration was refused takes no memory.
pub(super) struct WorkerEntry {
    all: KnownWorkers,
    tenant: Option<Uuid>,
    name: String,
    slot: WorkerSlot,
    worker: OwnedMutexGuard<Option<KnownWorker>>,
}

impl KnownWorkers {
    /// Waits for exclusive access to the worker with this name.
    pub(super) async fn of(&self, tenant: Option<Uuid>, name: &str) -> WorkerEntry {
        let slot = {
            let mut all = self.all();
            let of_tenant = all.entry(tenant).or_default();
            if of_tenant.len() >= if tenant.is_some() { MAX } else { MAX_OF_INSTALLATION } {
                of_tenant.clear();
            }
            of_tenant.entry(name.to_owned()).or_default().clone()
        };
        let worker = slot.clone().lock_owned().await;
        WorkerEntry { all: self.clone(), tenant, name: name.to_owned(), slot, worker }
    }

    /// Removes workers whose rows no longer exist.
    pub(super) fn forget(&self, gone: &[i32]) {
        let is_gone = |slot: &WorkerSlot| {
            // A worker that is being registered is not gone.
            let known = slot.try_lock().ok();
            known.is_some_and(|known| known.as_ref().is_some_and(|known| gone.contains(&known.number)))
        };
        self.all().retain(|_, of_tenant| {
            of_tenant.retain(|_, slot| !is_gone(slot));
            !of_tenant.is_empty()
        });
    }

    fn all(&self) -> MutexGuard<'_, ByTenant> {
        self.0.lock()
    }
}

impl WorkerEntry {
    pub(super) fn known(&self) -> Option<&KnownWorker> {
        self.worker.as_ref()
    }

    pub(super) fn set(&mut self, known: KnownWorker) {
        *self.worker = Some(known);
    }

    pub(super) fn forget(&mut self) {
        *self.worker = None;
    }
}

impl Drop for WorkerEntry {
    fn drop(&mut self) {
        if self.worker.is_some() {
            return;
        }
        let mut all = self.all.all();
        let Some(of_tenant) = all.get_mut(&self.tenant) else { return };
        if of_tenant.get(&self.name).is_some_and(|slot| Arc::ptr_eq(slot, &self.slot)) {
            of_tenant.remove(&self.name);
        }
        if of_tenant.is_empty() {
            all.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(number: i32) -> KnownWorker {
        let registration = WorkerRegistration {
            worker_id: number.to_string(),
            hostname: String::new(),
            queues: None,
            definition_keys: Vec::new(),
            lease_seconds: 1,
            metadata: String::new(),
        };
        KnownWorker { number, version: String::new(), registration }
    }

    /// names whose registration was refused, and more names than a tenant may have.
    #[tokio::test]
    async fn made_up_names_of_a_tenant_make_no_worker_of_another_unknown() {
        let (loud, quiet) = (Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2)));
        let known = KnownWorkers::default();
        known.of(quiet, "real").await.set(worker(7));
        for n in 0..MAX + 10 {
            drop(known.of(loud, &format!("refused {n}")).await);
        }
        assert!(!known.all().contains_key(&loud), "a refused registration leaves nothing");
        for n in 0..MAX + 10 {
            known.of(loud, &format!("made up {n}")).await.set(worker(0));
        }
        assert!(known.all()[&loud].len() <= MAX);
        assert_eq!(known.of(quiet, "real").await.known().map(|known| known.number), Some(7));
        known.forget(&[7, 0]);
        assert!(known.all().is_empty());
    }
}
