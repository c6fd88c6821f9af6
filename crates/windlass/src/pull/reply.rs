//! The receiving side of a waiting claim. Jobs that were sent to a claim which is dropped before it has received them are
//! released; the dispatcher cannot know about them.

use tokio::sync::oneshot::Receiver;

pub(super) struct Reply<T: Default, F: Fn(T)> {
    receiver: Receiver<T>,
    /// Called with what was sent and not received.
    abandoned: F,
}

impl<T: Default, F: Fn(T)> Reply<T, F> {
    pub(super) fn new(receiver: Receiver<T>, abandoned: F) -> Self {
        Self { receiver, abandoned }
    }

    /// Waits for the reply; nothing if the dispatcher has stopped.
    pub(super) async fn receive(&mut self) -> T {
        (&mut self.receiver).await.unwrap_or_default()
    }

    /// Stops waiting. Returns a reply that has arrived.
    pub(super) fn close(&mut self) -> T {
        self.receiver.close();
        self.receiver.try_recv().unwrap_or_default()
    }
}

impl<T: Default, F: Fn(T)> Drop for Reply<T, F> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(sent) = self.receiver.try_recv() {
            (self.abandoned)(sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_was_sent_to_a_dropped_claim_is_abandoned_and_what_was_received_is_not() {
        let abandoned = Mutex::new(Vec::new());
        let reply = |receiver| Reply::new(receiver, |jobs: Vec<i32>| abandoned.lock().unwrap().push(jobs));
        let (sender, receiver) = oneshot::channel();
        let mut received = reply(receiver);
        sender.send(vec![1]).unwrap();
        assert_eq!(received.receive().await, [1]);
        drop(received);
        let (sender, receiver) = oneshot::channel();
        let mut late = reply(receiver);
        sender.send(vec![2]).unwrap();
        assert_eq!(late.close(), [2]);
        drop(late);
        let (sender, receiver) = oneshot::channel();
        let dropped = reply(receiver);
        sender.send(vec![3]).unwrap();
        drop(dropped);
        let (sender, receiver) = oneshot::channel();
        drop(reply(receiver));
        assert_eq!(sender.send(vec![4]), Err(vec![4]), "the dispatcher keeps it");
        assert_eq!(*abandoned.lock().unwrap(), [[3]]);
    }
}
