use proptest::prelude::*;

use super::*;

/// A model of the queue: the jobs of each lane, and the result of a claim.
#[derive(Default)]
struct Queue {
    fair: Fair,
    tenants: HashMap<i32, usize>,
    jobs: HashMap<i32, usize>,
    dealt: usize,
}

impl Queue {
    fn lane(&mut self, id: i32, tenant: usize, priority: i16, weight: u32, jobs: usize) {
        self.fair.set_lane(Lane { id, tenant: Uuid::from_u128(tenant as u128), priority }, weight);
        self.fair.activate(id);
        self.tenants.insert(id, tenant);
        self.jobs.insert(id, jobs);
    }

    /// One deal and its claim: (lane, jobs got).
    fn claim(&mut self, slots: usize, now: Duration) -> Vec<(i32, usize)> {
        let deal = self.fair.deal(slots, now);
        self.serve(&deal)
    }

    fn serve(&mut self, deal: &[(i32, usize)]) -> Vec<(i32, usize)> {
        let mut got = Vec::new();
        for &(lane, asked) in deal {
            let jobs = self.jobs.get_mut(&lane).unwrap();
            let taken = asked.min(*jobs);
            *jobs -= taken;
            self.dealt += asked;
            self.fair.settle(lane, asked, taken);
            got.push((lane, taken));
        }
        got
    }

    fn waiting(&self) -> usize {
        self.jobs.values().sum()
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_tenant_at_its_limit_is_skipped_and_keeps_its_place() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 100);
    queue.lane(2, 2, 0, 1, 2);
    let loud = Uuid::from_u128(1);
    let deal = queue.fair.deal_within(8, at(0), |tenant, wanted| if tenant == loud { 0 } else { wanted });
    assert_eq!(queue.serve(&deal), [(2, 2)]);
    assert!(queue.fair.holds_back() && queue.fair.is_active(1));
    let deal = queue.fair.deal_within(8, at(0), |_, wanted| wanted.min(3));
    assert_eq!(queue.serve(&deal).iter().map(|(_, got)| got).sum::<usize>(), 8);
    assert!(!queue.fair.holds_back());
}

#[test]
fn nothing_is_dealt_without_active_lanes() {
    let mut queue = Queue::default();
    assert_eq!(queue.fair.deal(10, at(0)), []);
    queue.lane(1, 1, 0, 1, 1);
    queue.fair.deactivate(1);
    assert_eq!(queue.fair.deal(10, at(0)), []);
    queue.fair.activate(1);
    queue.fair.remove_lane(1);
    queue.fair.activate(1);
    queue.fair.settle(1, 5, 5);
    assert_eq!(queue.fair.deal(10, at(0)), []);
    assert!(!queue.fair.has_active_lanes());
}

#[test]
fn a_tenant_alone_gets_everything() {
    let mut queue = Queue::default();
    queue.lane(7, 1, 0, 1, 10_000);
    for slots in [1, 2, 3, 63, 64, 65, 500, 1000] {
        assert_eq!(queue.claim(slots, at(0)), [(7, slots)]);
    }
}

#[test]
fn small_tenants_beside_a_million_jobs_finish_in_their_first_turns() {
    let mut queue = Queue::default();
    queue.lane(0, 0, 0, 1, 1_000_000);
    (1..=100).for_each(|small| queue.lane(small, small as usize, 0, 1, 10));
    while (1..=100).any(|small| queue.jobs[&small] > 0) {
        queue.claim(500, at(0));
    }
    assert!(queue.dealt <= 3000, "{} dealt", queue.dealt);
    // The last deals only find that the small ones are empty; from then on the huge one gets whole batches.
    while queue.claim(500, at(0)) != [(0, 500)] {
        assert!(queue.dealt <= 3000, "{} dealt", queue.dealt);
    }
}

#[test]
fn a_newcomer_is_served_in_the_next_deal_and_gets_no_credit_for_its_idle_time() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 1_000_000);
    (0..100).for_each(|_| drop(queue.claim(100, at(0))));
    queue.lane(2, 2, 0, 1, 1_000_000);
    let mut got = HashMap::new();
    for (lane, count) in queue.claim(100, at(0)) {
        got.insert(lane, count);
    }
    assert_eq!(got, HashMap::from([(1, 52), (2, 48)]));
}

#[test]
fn unused_slots_of_a_tenant_are_refunded() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 0);
    for _ in 0..1000 {
        queue.fair.activate(1);
        queue.jobs.insert(1, 1);
        assert_eq!(queue.claim(500, at(0)), [(1, 1)]);
    }
    queue.lane(1, 1, 0, 1, 100);
    queue.lane(2, 2, 0, 1, 1000);
    let got = queue.claim(100, at(0));
    assert_eq!(got.iter().map(|(lane, _)| *lane).collect::<Vec<i32>>(), [1, 2]);
}

#[test]
fn after_an_idle_time_all_tenants_start_equal() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 10_000);
    while queue.fair.has_active_lanes() {
        queue.claim(100, at(0));
    }
    queue.lane(2, 2, 0, 1, 1000);
    queue.lane(1, 1, 0, 1, 1000);
    assert_eq!(queue.claim(100, at(0)), [(2, 52), (1, 48)]);
}

#[test]
fn a_tenant_of_many_shallow_lanes_gets_as_much_as_one_with_a_deep_lane() {
    let mut queue = Queue::default();
    queue.lane(0, 0, 0, 1, 1_000_000);
    let mut had = [0, 0];
    for _ in 0..200 {
        // Each lane has less than a portion, so that most of its turns are refunded.
        (1..=50).for_each(|shallow| queue.lane(shallow, 1, 0, 1, 1));
        for (lane, got) in queue.claim(100, at(0)) {
            had[queue.tenants[&lane]] += got;
        }
    }
    assert!(had[0].abs_diff(had[1]) <= 100, "{had:?}");
}

#[test]
fn within_a_tenant_the_lowest_priority_number_runs_first() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 10, 1, 100);
    queue.lane(2, 1, 5, 1, 100);
    queue.lane(3, 1, 5, 1, 100);
    let mut got = queue.claim(100, at(0));
    got.sort_unstable();
    assert_eq!(got, [(2, 52), (3, 48)], "equals share, the less urgent waits");
    while queue.jobs[&2] + queue.jobs[&3] > 0 {
        assert_eq!(queue.jobs[&1], 100);
        queue.claim(100, at(0));
    }
}

#[test]
fn a_lane_of_low_priority_waits_one_second_per_priority_step() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 1_000_000);
    queue.lane(2, 1, 20, 1, 1_000_000);
    let mut served = Vec::new();
    for second in 0..100 {
        if queue.claim(100, at(second)).iter().any(|(lane, _)| *lane == 2) {
            served.push(second);
        }
    }
    assert_eq!(served, [20, 40, 60, 80]);
}

#[test]
fn a_lane_woken_while_its_claim_is_running_stays_active() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 0);
    let deal = queue.fair.deal(10, at(0));
    queue.fair.activate(1);
    queue.serve(&deal);
    assert!(queue.fair.is_active(1));
    queue.claim(10, at(0));
    assert!(!queue.fair.is_active(1));
}

#[test]
fn a_full_claim_keeps_a_lane_active_despite_an_older_claim() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 100);
    let older = queue.fair.deal(10, at(0));
    let newer = queue.fair.deal(10, at(0));
    queue.fair.settle(1, older[0].1, 0);
    assert!(!queue.fair.is_active(1));
    queue.fair.settle(1, newer[0].1, 10);
    assert!(queue.fair.is_active(1));
    queue.fair.settle(1, 10, 3);
    assert!(queue.fair.is_active(1));
}

#[test]
fn a_changed_lane_stays_active_under_its_new_terms() {
    let mut queue = Queue::default();
    queue.lane(1, 1, 0, 1, 100);
    queue.lane(2, 1, 1, 1, 100);
    queue.fair.set_lane(Lane { id: 2, tenant: Uuid::from_u128(1), priority: -1 }, 1);
    assert_eq!(queue.claim(4, at(0)), [(2, 4)]);
    queue.fair.set_lane(Lane { id: 2, tenant: Uuid::from_u128(9), priority: 0 }, 1);
    assert_eq!(queue.claim(4, at(0)).len(), 2);
}

/// `cargo test --release -p windlass --lib ten_thousand -- --nocapture` prints the cost of a deal.
#[test]
fn ten_thousand_tenants_are_each_served_once_a_round() {
    let mut queue = Queue::default();
    (0..10_000).for_each(|id| queue.lane(id, id as usize, 0, 1, 1_000_000));
    let start = std::time::Instant::now();
    let deals = 10_000_usize.div_ceil(62);
    for _ in 0..deals {
        let deal = queue.fair.deal(500, at(0));
        assert!(deal.len() <= MAX_LANES);
        queue.serve(&deal);
    }
    println!("{:?} per deal", start.elapsed() / deals as u32);
    assert!(queue.jobs.values().all(|left| *left < 1_000_000));
}

/// Portions that a limit makes smaller are more of them.
#[test]
fn a_deal_within_limits_has_no_more_lanes_than_any_other() {
    let mut queue = Queue::default();
    (0..500).for_each(|id| queue.lane(id, id as usize, 0, 1, 100));
    let mut served = BTreeSet::new();
    for _ in 0..500_usize.div_ceil(MAX_LANES) {
        let deal = queue.fair.deal_within(500, at(0), |_, wanted| wanted.min(1));
        assert_eq!(deal.len(), MAX_LANES);
        served.extend(queue.serve(&deal).into_iter().map(|(lane, _)| lane));
    }
    assert_eq!(served.len(), 500, "the others come first in the next deal");
}

/// Returns the turns so far, by tenant, after each deal.
fn history(queue: &mut Queue, deals: usize, slots: usize, tenants: usize) -> Vec<Vec<usize>> {
    let mut had = vec![0; tenants];
    let mut history = vec![had.clone()];
    for _ in 0..deals {
        for (lane, got) in queue.claim(slots, at(0)) {
            had[queue.tenants[&lane]] += got;
        }
        history.push(had.clone());
    }
    history
}

#[test]
fn weights_of_one_and_three_share_one_to_three() {
    let mut queue = Queue::default();
    queue.lane(0, 0, 0, 1, 1_000_000);
    queue.lane(1, 1, 0, 3, 1_000_000);
    let had = history(&mut queue, 100, 100, 2).pop().unwrap();
    assert!(had[0].abs_diff(2500) <= 4 && had[1].abs_diff(7500) <= 4, "{had:?}");
}

proptest! {
    #[test]
    fn a_deal_gives_all_slots_and_names_each_lane_once(
        lanes in prop::collection::vec((0..20_usize, -5..5_i16, 1..5_u32, any::<bool>()), 0..200),
        slots in 0..2000_usize,
    ) {
        let mut fair = Fair::new();
        for (id, &(tenant, priority, weight, active)) in (0..).zip(&lanes) {
            fair.set_lane(Lane { id, tenant: Uuid::from_u128(tenant as u128), priority }, weight);
            if active { fair.activate(id) }
        }
        for second in 0..3 {
            let deal = fair.deal(slots, at(second));
            let any_active = lanes.iter().any(|lane| lane.3);
            prop_assert_eq!(deal.iter().map(|turn| turn.1).sum::<usize>(), if any_active { slots } else { 0 });
            prop_assert!(deal.iter().all(|(id, turns)| *turns > 0 && lanes[*id as usize].3));
            let names: BTreeSet<i32> = deal.iter().map(|turn| turn.0).collect();
            prop_assert_eq!(names.len(), deal.len());
            prop_assert!(deal.len() <= MAX_LANES);
        }
    }

    #[test]
    fn backlogged_tenants_drift_apart_by_no_more_than_a_batch_in_any_window(
        weights in prop::collection::vec(1..6_u32, 2..12),
        lanes_each in 1..4_usize,
        slots in 2..300_usize,
    ) {
        let mut queue = Queue::default();
        for (tenant, weight) in weights.iter().enumerate() {
            for lane in 0..lanes_each {
                queue.lane((tenant * lanes_each + lane) as i32, tenant, lane as i16, *weight, 10_000_000);
            }
        }
        let history = history(&mut queue, 40, slots, weights.len());
        for (from, earlier) in history.iter().enumerate() {
            for later in &history[from..] {
                let shares: Vec<f64> = (0..weights.len())
                    .map(|tenant| (later[tenant] - earlier[tenant]) as f64 / f64::from(weights[tenant]))
                    .collect();
                let most = shares.iter().copied().fold(f64::MIN, f64::max);
                let least = shares.iter().copied().fold(f64::MAX, f64::min);
                prop_assert!(most - least <= slots as f64, "{:?}", shares);
            }
        }
    }

    #[test]
    fn a_tenant_with_work_is_served_within_a_batch_for_each_active_tenant(
        tenants in 1..150_usize,
        slots in 1..600_usize,
        before in 0..20_usize,
    ) {
        let mut queue = Queue::default();
        (1..=tenants).for_each(|tenant| queue.lane(tenant as i32, tenant, 0, 1, 1_000_000));
        (0..before).for_each(|_| drop(queue.claim(slots, at(0))));
        queue.lane(0, 0, 0, 1, 1);
        queue.dealt = 0;
        while queue.jobs[&0] > 0 {
            queue.claim(slots, at(0));
        }
        prop_assert!(queue.dealt <= (tenants + 1) * slots);
    }

    #[test]
    fn no_job_is_missed_and_claims_are_not_empty_for_long(
        lanes in prop::collection::vec((0..10_usize, -5..5_i16, 1..4_u32, 0..300_usize), 1..100),
        slots in 1..300_usize,
    ) {
        let mut queue = Queue::default();
        for (id, &(tenant, priority, weight, jobs)) in (0..).zip(&lanes) {
            queue.lane(id, tenant, priority, weight, jobs);
        }
        // A deal either fills all its slots or deactivates a lane, and each lane is deactivated once.
        let mut not_full = 0;
        while queue.waiting() > 0 {
            let got: usize = queue.claim(slots, at(0)).iter().map(|lane| lane.1).sum();
            not_full += usize::from(got < slots);
            prop_assert!(not_full <= lanes.len());
        }
    }

    #[test]
    fn no_lane_starves_under_a_more_urgent_one(
        priorities in prop::collection::vec(-20..20_i16, 2..6),
        slots in 1..100_usize,
    ) {
        let mut queue = Queue::default();
        for (id, priority) in (0..).zip(&priorities) {
            queue.lane(id, 0, *priority, 1, 100_000_000);
        }
        let mut last_served = vec![0; priorities.len()];
        let most_urgent = priorities.iter().min().copied().unwrap();
        for second in 0..300_u64 {
            for (lane, _) in queue.claim(slots, at(second)) {
                last_served[lane as usize] = second;
            }
            for (lane, served) in last_served.iter().enumerate() {
                // One more deal for each other lane that may become due in the same second.
                let behind = (priorities[lane] - most_urgent) as u64;
                let bound = behind + priorities.len() as u64 + 1;
                prop_assert!(second - served <= bound, "lane {lane} waited {} s", second - served);
            }
        }
    }
}
