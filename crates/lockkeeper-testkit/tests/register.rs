//! The resource behind the lock, in this process and for several.

use std::sync::Barrier;
use std::time::Duration;

use lockkeeper_testkit::Process;
use lockkeeper_testkit::register::{Register, RegisterClient, RegisterServer, Stale};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_blind_write_over_an_unread_change_is_a_lost_update() {
    let register = Register::new();
    let (mine, theirs) = (register.read(), register.read());
    assert!(register.write(mine, mine.value + 1));
    assert!(!register.write(theirs, theirs.value + 1));
    assert_eq!(register.read().value, 1);
    let tally = register.tally();
    assert_eq!((tally.writes, tally.lost_updates, tally.refused_stale), (2, 1, 0));
}

#[test]
fn a_guarded_write_needs_the_highest_token_so_far() {
    let register = Register::new();
    register.write_guarded(5, 50).unwrap();
    register.write_guarded(5, 51).unwrap();
    register.write_guarded(7, 70).unwrap();
    assert_eq!(register.write_guarded(6, 60), Err(Stale { highest: 7 }));
    assert_eq!(register.read().value, 70);
    let tally = register.tally();
    assert_eq!((tally.writes, tally.lost_updates, tally.refused_stale), (3, 0, 1));
}

#[test]
fn clients_are_judged_each_by_its_own_reading() {
    let server = RegisterServer::start();
    let mut first = RegisterClient::connect(server.address()).unwrap();
    let mut second = RegisterClient::connect(server.address()).unwrap();
    assert_eq!((first.read().unwrap(), second.read().unwrap()), (0, 0));
    assert!(first.write(-3).unwrap());
    assert!(!second.write(4).unwrap());
    assert!(second.write(5).is_err(), "a write needs a reading of its own");
    assert_eq!(first.write_guarded(u64::MAX, 9).unwrap(), Ok(()));
    assert_eq!(second.write_guarded(1, 8).unwrap(), Err(Stale { highest: u64::MAX }));
    assert_eq!(second.read().unwrap(), 9);
    let tally = server.register().tally();
    assert_eq!((tally.writes, tally.lost_updates, tally.refused_stale), (3, 1, 1));
    drop(server);
    assert!(first.read().is_err());
}

#[test]
fn unlocked_increments_lose_exactly_the_updates_that_are_counted() {
    let server = RegisterServer::start();
    let together = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = RegisterClient::connect(server.address()).unwrap();
                for _ in 0..50 {
                    // All read before any writes: three of four updates get lost in each round.
                    let value = client.read().unwrap();
                    together.wait();
                    client.write(value + 1).unwrap();
                    together.wait();
                }
            });
        }
    });
    let tally = server.register().tally();
    assert_eq!((tally.writes, tally.lost_updates), (200, 150));
    assert_eq!(server.register().read().value, 50);
}

/// Not a test of its own: the process that the next test starts.
#[test]
#[ignore = "run as a process by another test"]
fn worker_that_writes() {
    let address = std::env::var("REGISTER_ADDRESS")
        .expect("the address is given")
        .parse()
        .unwrap();
    let mut client = RegisterClient::connect(address).unwrap();
    let value = client.read().unwrap();
    println!("\nread {value}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    println!("\nkept {}", client.write(value + 1).unwrap());
}

#[tokio::test]
async fn several_processes_share_one_register() {
    let server = RegisterServer::start();
    let mut workers: Vec<Process> = (0..2)
        .map(|_| {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "worker_that_writes", "--ignored", "--nocapture"])
                .env("REGISTER_ADDRESS", server.address().to_string());
            Process::from_command(command).unwrap()
        })
        .collect();
    for worker in &mut workers {
        assert_eq!(worker.line_starting_with("read ", SOON).await.unwrap(), "0");
    }
    for (worker, kept) in workers.iter_mut().zip(["true", "false"]) {
        worker.write_line("go").unwrap();
        assert_eq!(worker.line_starting_with("kept ", SOON).await.unwrap(), kept);
        assert!(worker.wait(SOON).await.unwrap().success());
    }
    assert_eq!(server.register().tally().lost_updates, 1);
}
