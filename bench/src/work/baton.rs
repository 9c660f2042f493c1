//! The floor of a hand-over: the message that is published is the ownership itself.

use lockkeeper_testkit::boot_time_ns;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use crate::client::{LEASE, connection, connection_with_messages};
use crate::stage::{CHILD_LIMIT, two_workers};
use crate::work::hand_over::HOLD;
use crate::work::{ready_and_wait, tell};

const PASS: &str = "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return redis.call('PUBLISH', KEYS[2], ARGV[1])";

/// One turn as the parent reads it.
pub(crate) fn turn(acquired: u64, released: u64) -> String {
    format!(" {acquired}-{released}")
}

/// The child's part: place 0 begins.
pub(crate) fn carry(url: &str, name: &str, place: u8, turns: u32) {
    two_workers().block_on(async {
        let (mut signals, messages) = connection_with_messages(url).await;
        let mut commands = connection(url).await;
        signals
            .subscribe(channel(name, place))
            .await
            .expect("the server takes the subscription");
        let script: String = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(PASS)
            .query_async(&mut commands)
            .await
            .expect("the server takes the script");
        ready_and_wait();
        let name = name.to_owned();
        let events = tokio::spawn(async move {
            let mut messages = messages;
            let mut events = String::new();
            for number in 0..turns {
                if number > 0 || place > 0 {
                    message(&mut messages).await;
                }
                let acquired = boot_time_ns();
                sleep(HOLD).await;
                let released = boot_time_ns();
                // The last message of all finds nobody who waits for it, and that is fine.
                let next = 1 - place;
                let _: i64 = redis::cmd("EVALSHA")
                    .arg(&script)
                    .arg(2)
                    .arg(&name)
                    .arg(channel(&name, next))
                    .arg(next)
                    .arg(LEASE.as_millis().to_string())
                    .query_async(&mut commands)
                    .await
                    .expect("the server runs the script");
                events.push_str(&turn(acquired, released));
            }
            events
        })
        .await
        .expect("no task fails");
        drop(signals);
        tell(&format!("events{events}"));
    });
}

fn channel(name: &str, place: u8) -> String {
    format!("{name}:{place}")
}

/// Waits for the next message.
async fn message(messages: &mut UnboundedReceiver<PushInfo>) -> Vec<Value> {
    let next = async {
        loop {
            let push = messages.recv().await.expect("the connection lives");
            if push.kind == PushKind::Message {
                return push.data;
            }
        }
    };
    timeout(CHILD_LIMIT, next)
        .await
        .expect("the other process passes the lock on")
}
