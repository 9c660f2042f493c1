//! A holder that is frozen past its lease and goes on as if nothing had happened.

use std::time::Duration;

use lockkeeper::{HoldState, Layout, Lease};
use lockkeeper_testkit::register::RegisterServer;

use super::in_both_layouts;
use super::stage::{Stage, ms, soon};
use super::worker::Worker;

in_both_layouts!(a_frozen_holder_finds_its_hold_lost_and_its_write_refused);

async fn a_frozen_holder_finds_its_hold_lost_and_its_write_refused(layout: Layout) {
    let stage = Stage::new(layout);
    let register = RegisterServer::start();
    let address = register.address();
    let lease = ms(800);
    let mutex = stage
        .mutex(&stage.keeper().await, "frozen")
        .lease(Lease::renewed(Duration::from_secs(30)));
    let mut worker = Worker::start(&stage.server.url(), layout);
    for round in 1..=3 {
        let held = worker.ask(&format!("lock frozen {}", lease.as_millis())).await;
        let token: u64 = held.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(worker.ask(&format!("write {address} {round}")).await, "Ok(())");
        worker.0.freeze();
        // Asked while it stands: its first look is the first thing it does when it goes on.
        worker.send("state");
        worker.send(&format!("write {address} -1"));
        worker.send("lost");
        worker.send("unlock");
        let next = soon("the next holder", mutex.lock()).await.unwrap();
        tokio::time::sleep(lease).await;
        assert!(next.token().get() > token);
        register
            .register()
            .write_guarded(next.token().get(), round)
            .expect("the present holder's write");
        worker.0.thaw();
        assert_eq!(worker.answer().await, "Lost(DeadlinePassed)");
        assert!(worker.answer().await.contains("Stale"), "a late write is refused");
        assert_eq!(worker.answer().await, "DeadlinePassed");
        assert_eq!(worker.answer().await, "Err(Lost(DeadlinePassed))");
        assert_eq!(next.state(), HoldState::Held, "its late unlock changes nothing");
        assert_eq!(stage.holder("frozen").await.as_deref(), Some(next.owner()));
        assert_eq!(register.register().read().value, round);
        assert_eq!(register.register().tally().refused_stale, u64::try_from(round).unwrap());
        next.unlock().await.unwrap();
    }
}
