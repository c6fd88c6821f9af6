use tokio::sync::oneshot;
use tokio::sync::oneshot::Receiver;

use super::*;
use crate::pull::interest::ClaimPermits;
use crate::pull::{Claim, PulledJob};

const LOUD: Uuid = Uuid::from_u128(1);
const QUIET: Uuid = Uuid::from_u128(2);

/// A claim, and its caller.
fn claim(
    permits: &ClaimPermits,
    tenant: Option<Uuid>,
    key: &str,
    wait: Duration,
) -> (Waiter, Receiver<Vec<PulledJob>>) {
    let claim = Claim::new([key]).wait(wait);
    let interest = Interest::new(tenant, claim.definition_keys.clone(), Vec::new());
    let (reply, response) = oneshot::channel();
    (Waiter::new(&claim, permits.take(interest).unwrap(), 1, reply), response)
}

const WAITS: Duration = Duration::from_secs(60);

fn lane(id: i32, tenant: Uuid, key: &str) -> PullLane {
    PullLane {
        id,
        tenant,
        definition_key: key.into(),
        queue: "default".into(),
        priority: 100,
        weight: 1,
        limits: Vec::new(),
    }
}

/// what one arrival costs, in visits of groups, from its arrival until its group has its turn.
fn visits_of_an_arrival(groups_of_loud: usize) -> usize {
    let (permits, mut groups, now) = (ClaimPermits::default(), Groups::default(), Instant::now());
    let mut callers = Vec::new();
    for n in 0..groups_of_loud {
        // Workers of the installation have no limit, so there can be more groups than any tenant can have.
        let (waiter, caller) = claim(&permits, None, &format!("made up {n}"), WAITS);
        groups.add(waiter, now);
        callers.push(caller);
    }
    groups.replace(Vec::new(), now);
    groups.visits = 0;
    let (waiter, _caller) = claim(&permits, Some(QUIET), "real", WAITS);
    groups.add(waiter, now);
    assert_eq!(groups.fresh_keys(), Some(vec!["real".to_owned()]), "no lane of another group is searched");
    groups.replace_fresh(vec![lane(7, QUIET, "real")], now);
    let turn = groups.turn();
    assert_eq!(turn.len(), 1, "only the group with work is served");
    assert!(groups.group(turn[0]).is_some_and(|group| group.interest.tenant == Some(QUIET)));
    groups.end_claims_without_wait();
    groups.visits
}

#[test]
fn the_work_of_an_arrival_does_not_grow_with_the_groups_of_others() {
    assert_eq!(visits_of_an_arrival(10), visits_of_an_arrival(5_000));
}

#[test]
fn each_tenant_with_work_has_one_group_in_every_turn_however_many_the_others_have() {
    let (permits, mut groups, now) = (ClaimPermits::default(), Groups::default(), Instant::now());
    let mut callers = Vec::new();
    for n in 0..100 {
        for extra in ["real", "also real"] {
            let claim = Claim::new([extra.to_owned(), format!("made up {n}")]).wait(WAITS);
            let interest = Interest::new(Some(LOUD), claim.definition_keys.clone(), Vec::new());
            let (reply, caller) = oneshot::channel();
            groups.add(Waiter::new(&claim, permits.take(interest).unwrap(), 1, reply), now);
            callers.push(caller);
        }
    }
    let (waiter, _caller) = claim(&permits, Some(QUIET), "real", WAITS);
    groups.add(waiter, now);
    groups.replace(vec![lane(1, LOUD, "real"), lane(2, LOUD, "also real"), lane(3, QUIET, "real")], now);
    let tenants = |groups: &mut Groups| {
        let turn = groups.turn();
        let of_tenant = |id| groups.group(id).map(|group| group.interest.tenant);
        let mut tenants: Vec<_> = turn.into_iter().filter_map(of_tenant).collect();
        tenants.sort_unstable();
        tenants
    };
    assert_eq!(tenants(&mut groups), [Some(LOUD), Some(QUIET)]);
    assert_eq!(tenants(&mut groups), [Some(LOUD)]);
    // The next notification of the other tenant gives it a turn again, at once.
    assert!(groups.wake(3, now));
    assert_eq!(tenants(&mut groups), [Some(LOUD), Some(QUIET)]);
}

#[test]
fn claims_are_accepted_in_turn_by_tenant_and_disconnected_ones_are_dropped() {
    let (permits, mut arrivals, mut callers) = (ClaimPermits::default(), Arrivals::default(), Vec::new());
    for n in 0..2_000 {
        let (waiter, caller) = claim(&permits, Some(LOUD), &format!("made up {}", n % 200), WAITS);
        arrivals.push(waiter);
        callers.push(caller);
    }
    // Half of them hang up while they wait for their turn; their permits stay taken until they are dropped here.
    callers.truncate(1_000);
    assert_eq!(permits.claims(Some(LOUD)), 2_000);
    let (waiter, _caller) = claim(&permits, Some(QUIET), "real", WAITS);
    arrivals.push(waiter);
    let first = arrivals.turn();
    assert_eq!(first.len(), waiter::PER_TURN + 1);
    assert!(first.iter().any(|waiter| waiter.permit.interest.tenant == Some(QUIET)));
    let mut turns = vec![first];
    while !arrivals.is_empty() {
        turns.push(arrivals.turn());
    }
    assert_eq!(turns.iter().map(Vec::len).sum::<usize>(), 1_001);
    assert_eq!(permits.claims(Some(LOUD)), 1_000);
    // A claim that hangs up after it was taken in is gone with the next search.
    let (mut groups, now) = (Groups::default(), Instant::now());
    turns.into_iter().flatten().for_each(|waiter| groups.add(waiter, now));
    drop(callers);
    groups.replace(Vec::new(), now);
    assert_eq!(permits.claims(Some(LOUD)), 0);
}

#[test]
fn the_number_of_remembered_names_is_bounded() {
    let (permits, mut groups, now) = (ClaimPermits::default(), Groups::default(), Instant::now());
    let (ordinary, _caller) = claim(&permits, Some(QUIET), "ordinary", Duration::ZERO);
    groups.add(ordinary, now);
    groups.hasty.clear();
    for n in 0..10_000 {
        let (waiter, _caller) = claim(&permits, Some(LOUD), &format!("made up {n}"), Duration::ZERO);
        groups.add(waiter, now);
        groups.end_claims_without_wait();
    }
    assert!(groups.groups.len() <= MAX_UNUSED + 2, "{}", groups.groups.len());
    assert_eq!(groups.by_tenant[&Some(LOUD)].all.len(), groups.groups.len() - 1);
    assert_eq!(groups.by_tenant[&Some(LOUD)].unused.len(), groups.groups.len() - 1);
    assert!(groups.fresh.len() <= groups.groups.len(), "nothing is kept of those that were removed");
    assert!(groups.keys().is_some_and(|keys| keys.contains(&"ordinary".to_owned())));
}

#[test]
fn a_check_names_a_bounded_number_of_definitions() {
    let (permits, mut groups, mut callers) = (ClaimPermits::default(), Groups::default(), Vec::new());
    for n in 0..=MAX_KEYS {
        let tenant = Some(Uuid::from_u128(n as u128));
        let (waiter, caller) = claim(&permits, tenant, &format!("{n}"), Duration::ZERO);
        groups.add(waiter, Instant::now());
        callers.push(caller);
    }
    assert_eq!(groups.keys(), None);
}

/// what a notification of a running limit costs, in visits of groups.
fn visits_of_a_room(groups_of_loud: usize) -> usize {
    let (permits, mut groups, now) = (ClaimPermits::default(), Groups::default(), Instant::now());
    let mut callers = Vec::new();
    for n in 0..groups_of_loud {
        let (waiter, caller) = claim(&permits, None, &format!("made up {n}"), WAITS);
        groups.add(waiter, now);
        callers.push(caller);
    }
    let (waiter, _caller) = claim(&permits, Some(QUIET), "real", WAITS);
    groups.add(waiter, now);
    groups.replace(vec![PullLane { limits: vec![5], ..lane(7, QUIET, "real") }], now);
    groups.turn();
    groups.visits = 0;
    assert!(groups.wake_limit(5, now));
    assert_eq!(groups.turn().len(), 1, "its group has a turn");
    let visits = groups.visits;
    assert!(!groups.wake_limit(6, now), "a limit that is not known may be new");
    assert!(groups.wake_limit(6, now), "and is not after the search that found nothing");
    groups.replace(Vec::new(), now);
    assert!(groups.by_limit.is_empty());
    visits
}

#[test]
fn the_work_of_a_running_limit_does_not_grow_with_the_groups_of_others() {
    assert_eq!(visits_of_a_room(10), visits_of_a_room(5_000));
}
