use super::*;

const TENANT: Uuid = Uuid::from_u128(1);

fn active(ids: &[i32]) -> Vec<ActiveLane> {
    let lane = |id: &i32| ActiveLane {
        id: *id,
        tenant: TENANT,
        priority: 100,
        definition_key: "a".to_owned(),
        weight: 1,
        limits: Vec::new(),
    };
    ids.iter().map(lane).collect()
}

/// Claims once; every lane returns what was requested, in jobs of this size.
fn claim(cursors: &mut LaneCursors, slots: usize, bytes: usize, now: Instant) -> Vec<(i32, i32)> {
    let Some(turn) = cursors.deal_within(slots, now, |_, wanted| wanted) else { return Vec::new() };
    let asked: Vec<(i32, i32)> =
        turn.wanted.lanes.iter().copied().zip(turn.wanted.counts.iter().copied()).collect();
    let taken = asked.iter().flat_map(|(lane, count)| (1..=*count).map(|seq| (*lane, i64::from(seq), bytes)));
    cursors.settle(&turn, taken, now, Duration::ZERO);
    asked
}

#[test]
fn a_recent_lane_is_idle_until_a_check_finds_work_in_it() {
    let now = Instant::now();
    let mut cursors = LaneCursors::new();
    cursors.replace(active(&[1, 2]), now);
    claim(&mut cursors, 8, 10, now);
    // Lane 1 is empty or paused; nothing is claimed from it, even after a notification, because it may be paused.
    cursors.replace(active(&[2]), now);
    assert_eq!(cursors.recent(now), [1]);
    assert!(!cursors.wake(1, now), "it is looked up");
    cursors.wake_recent(now);
    assert_eq!(claim(&mut cursors, 8, 10, now), [(2, 8)]);
    cursors.found(&[1]);
    assert_eq!(claim(&mut cursors, 8, 10, now).len(), 2);
    // After a while without work it is removed.
    let later = now + RECENT_FOR;
    cursors.replace(active(&[2]), later);
    assert!(cursors.recent(later).is_empty());
}

/// a busy worker is not notified, so a lane that it forgets waits for the next search.
#[test]
fn a_tenant_with_many_lanes_does_not_displace_the_recent_lane_of_another() {
    let now = Instant::now();
    let mut cursors = LaneCursors::new();
    let many: Vec<i32> = (1..=1000).collect();
    let mut found = active(&many);
    found[0].tenant = Uuid::from_u128(2);
    cursors.replace(found, now);
    while cursors.lanes.values().any(|cursor| cursor.gave_at.is_none()) {
        claim(&mut cursors, 500, 10, now);
    }
    cursors.replace(Vec::new(), now);
    assert_eq!(cursors.lanes.len(), MAX_RECENT);
    assert!(cursors.recent(now).contains(&1));
}

/// A lane that did not fit into the bytes of a claim continues to age, and comes first in the end.
#[test]
fn a_lane_of_lower_priority_does_not_starve_behind_large_jobs() {
    let mut now = Instant::now();
    let mut cursors = LaneCursors::new();
    let mut found = active(&[1, 2]);
    found[1].priority = 110;
    cursors.replace(found, now);
    claim(&mut cursors, 8, CLAIM_BYTES, now);
    let mut served = HashSet::new();
    for _ in 0..3_000 {
        now += Duration::from_millis(5);
        served.extend(claim(&mut cursors, 8, CLAIM_BYTES, now).iter().map(|(lane, _)| *lane));
    }
    assert_eq!(served.len(), 2, "15 seconds are more than the difference of their priorities");
}

#[test]
fn a_claim_requests_a_bounded_number_of_bytes() {
    let now = Instant::now();
    let mut cursors = LaneCursors::new();
    cursors.replace(active(&[1, 2, 3]), now);
    let large = CLAIM_BYTES / 2;
    assert_eq!(claim(&mut cursors, 12, large, now).iter().map(|(_, count)| count).sum::<i32>(), 12);
    // Their size is known now. Jobs that were not requested cause no disadvantage, and no lane is skipped.
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let asked = claim(&mut cursors, 12, large, now);
        assert_eq!(asked.iter().map(|(_, count)| count).sum::<i32>(), 2);
        seen.extend(asked.iter().map(|(lane, _)| *lane));
    }
    assert_eq!(seen.len(), 3);
    // A single job may be larger than that.
    claim(&mut cursors, 2, CLAIM_BYTES * 4, now);
    claim(&mut cursors, 2, CLAIM_BYTES * 4, now);
    assert_eq!(claim(&mut cursors, 12, CLAIM_BYTES * 4, now).len(), 1);
}
