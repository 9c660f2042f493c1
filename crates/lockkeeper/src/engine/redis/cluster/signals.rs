//! Listening on a cluster: each channel where its slot is, and somewhere else when that moves.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::shards::Shards;
use super::slot_of;
use crate::engine::{Channel, Engine, SignalChange, SignalTable};

/// How long to wait for a master where none is known, if nothing is heard of a new map.
const LOOK: Duration = Duration::from_millis(500);

/// Starts the task that listens for whoever subscribes to the returned table.
pub(super) fn start(shards: &Arc<Shards>, keeper: &Handle) -> Arc<SignalTable> {
    let (tell, changes) = mpsc::unbounded_channel();
    let table = Arc::new(SignalTable::new(move |change| {
        // Nobody listens any more once the keeper's thread has ended.
        let _ = tell.send(change);
    }));
    keeper.spawn(route(Arc::downgrade(shards), changes));
    table
}

/// One task for each channel in use.
async fn route(shards: Weak<Shards>, mut changes: mpsc::UnboundedReceiver<SignalChange>) {
    let mut tasks: HashMap<Arc<str>, JoinHandle<()>> = HashMap::new();
    while let Some(change) = changes.recv().await {
        match change {
            SignalChange::First(channel) => {
                let name = Arc::clone(channel.name());
                let task = tokio::spawn(forward(shards.clone(), channel));
                if let Some(previous) = tasks.insert(name, task) {
                    previous.abort();
                }
            }
            SignalChange::Last(channel) => {
                if let Some(task) = tasks.remove(channel.name()) {
                    task.abort();
                }
            }
        }
    }
    tasks.into_values().for_each(|task| task.abort());
}

/// Passes on what is heard on the master that has the channel's slot.
async fn forward(shards: Weak<Shards>, channel: Arc<Channel>) {
    let slot = slot_of(channel.name());
    loop {
        let Some(present) = shards.upgrade() else { return };
        let mut changes = present.changes();
        let master = present.known_master(slot).ok().flatten();
        drop(present);
        let Some(master) = master else {
            let _ = tokio::time::timeout(LOOK, changes.changed()).await;
            continue;
        };
        let subscription = master.subscribe(channel.name());
        let source = subscription.channel();
        let (mut seen, mut messages) = (source.count(), source.messages());
        channel.set_live(source.is_live());
        loop {
            let elsewhere = tokio::select! {
                () = source.changed(seen) => false,
                changed = changes.changed() => {
                    let Some(present) = shards.upgrade() else { return };
                    let present = present.known_master(slot).ok().flatten();
                    changed.is_err() || present.is_none_or(|present| !Arc::ptr_eq(&present, &master))
                }
            };
            if elsewhere {
                break;
            }
            seen = source.count();
            let heard = source.messages();
            for _ in messages..heard {
                channel.message(source.last_message());
            }
            messages = heard;
            channel.set_live(source.is_live());
        }
        channel.set_live(false);
    }
}
