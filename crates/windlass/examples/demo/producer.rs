//! What the tenants ask for: a big one in bursts, a small one now and then.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass::{NewJob, Queue};

use crate::figures::Tenant;
use crate::jobs::{self, Charge, Email, Post, Transcript, Video};

/// How the tenants differ: jobs per burst of the first, and of the others.
const BIG_BURST: usize = 600;
const SMALL_BURST: usize = 12;
const EVERY: Duration = Duration::from_secs(2);

/// Ends on its token, after the burst at hand.
pub(crate) async fn run(queue: Queue, tenants: Vec<Tenant>, stop: CancellationToken) {
    let mut turn = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = turn.tick() => {}
        }
        for (position, tenant) in tenants.iter().enumerate() {
            let size = if position == 0 { BIG_BURST } else { SMALL_BURST };
            if let Err(error) = burst(&queue, tenant, size).await {
                tracing::error!(tenant = tenant.name, %error, "a burst was not enqueued");
            }
        }
    }
}

async fn burst(queue: &Queue, tenant: &Tenant, size: usize) -> windlass::Result<()> {
    let few = |share: usize| 0..(size / share).max(1);
    let emails = few(1).map(|n| {
        NewJob::new(jobs::SEND_EMAIL).payload(&Email::new(format!("customer-{n}@example.com"))).priority(100)
    });
    let charges = few(10).map(|n| {
        NewJob::new(jobs::CHARGE_CARD)
            .payload(&Charge { card: format!("card-{n}"), cents: rand::random_range(100..10_000) })
            .priority(50)
    });
    let transcripts = few(60)
        .map(|n| NewJob::new(jobs::AWAIT_TRANSCRIPT).payload(&Transcript { operation: format!("op-{n}") }));
    let jobs: Vec<NewJob> =
        emails.chain(charges).chain(transcripts).map(|job| job.tenant(tenant.id)).collect();
    queue.enqueue_many(&jobs).await?;

    // A post waits for its video: blocked until the render has succeeded.
    let video = NewJob::new(jobs::RENDER_VIDEO).payload(&Video { frames: rand::random_range(20..60) });
    let video = queue.enqueue(&video.tenant(tenant.id)).await?;
    let post = NewJob::new(jobs::PUBLISH_POST).payload(&Post { followers: 5 });
    queue.enqueue(&post.tenant(tenant.id).depends_on(video.id)).await?;
    Ok(())
}
