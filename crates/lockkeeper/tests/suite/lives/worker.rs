//! The second process of the tests: this very program, started again for one hidden test.
//!
//! It takes orders, one a line, and answers each with one line. The process can be killed and frozen, which a task cannot.

use std::io::BufRead;
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use lockkeeper::{Keeper, Layout, Leadership, Lease, MutexGuard, Periodic, PeriodicGuard};
use lockkeeper_testkit::Process;
use lockkeeper_testkit::register::RegisterClient;

use super::mixed;
use super::stage::SOON;

const ROLE: &str = "LOCKKEEPER_TEST_ROLE";
const ARGUMENTS: &str = "LOCKKEEPER_TEST_ARGUMENTS";

/// Starts a second process.
pub(super) fn start(role: &str, arguments: &[String]) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command
        .args(["--exact", "lives::worker::role", "--ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(ARGUMENTS, arguments.join("\n"));
    Process::from_command(command).expect("a second process")
}

/// A process that takes orders.
pub(super) struct Worker(pub(super) Process);

impl Worker {
    pub(super) fn start(url: &str, layout: Layout) -> Self {
        Self(start("orders", &[url.to_owned(), format!("{layout:?}")]))
    }

    pub(super) fn send(&mut self, order: &str) {
        self.0.write_line(order).expect("a living worker");
    }

    pub(super) async fn answer(&mut self) -> String {
        self.0.line_starting_with("> ", SOON).await.expect("an answer")
    }

    pub(super) async fn ask(&mut self, order: &str) -> String {
        self.send(order);
        self.answer().await
    }
}

#[test]
#[ignore = "the second process of other tests; by itself it does nothing"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let arguments = std::env::var(ARGUMENTS).expect("arguments beside the role");
    let arguments: Vec<&str> = arguments.split('\n').collect();
    // The test runner has begun a line.
    println!();
    match role.as_str() {
        "orders" => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(take_orders(arguments[0], arguments[1])),
        "mixed" => mixed::work(&arguments),
        other => panic!("no role {other}"),
    }
}

/// Never dropped, as statics are.
static KEPT: OnceLock<Mutex<MutexGuard>> = OnceLock::new();

async fn take_orders(url: &str, layout: &str) {
    let layout = if layout == "Plain" {
        Layout::Plain
    } else {
        Layout::Redisson
    };
    let builder = Keeper::builder().flush_on_drop(Duration::from_secs(5));
    let mut keeper = Some(builder.connect(url).await.unwrap());
    let mut guard: Option<MutexGuard> = None;
    let mut run: Option<PeriodicGuard> = None;
    let mut leadership: Option<Leadership> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words.as_slice() {
            ["lock", name, lease] => {
                let lease = Lease::renewed(Duration::from_millis(lease.parse().unwrap()));
                let taken = mutex(&keeper, name, layout).lease(lease).lock().await.unwrap();
                let answer = format!("{} {}", taken.token(), taken.owner());
                guard = Some(taken);
                answer
            }
            ["begin", name, least, most] => {
                match periodic(&keeper, name, layout, least, most).try_start().await.unwrap() {
                    Some(run) => {
                        let token = run.token();
                        run.unlock().await.unwrap();
                        token.to_string()
                    }
                    None => "none".to_owned(),
                }
            }
            ["work", name, least, most] => {
                run = periodic(&keeper, name, layout, least, most).try_start().await.unwrap();
                run.as_ref().map_or("none".to_owned(), |run| run.token().to_string())
            }
            ["campaign", name, candidate, lease] => {
                let lease = Lease::renewed(Duration::from_millis(lease.parse().unwrap()));
                let election = keeper
                    .as_ref()
                    .unwrap()
                    .election(name)
                    .candidate(candidate)
                    .lease(lease);
                let begun = election.campaign().await.unwrap();
                let term = begun.term();
                leadership = Some(begun);
                term.to_string()
            }
            ["led"] => format!("{:?}", leadership.as_ref().unwrap().state()),
            ["resign"] => match leadership.take().unwrap().resign().await {
                Ok(_) => "ended".to_owned(),
                Err(_) => "not ours".to_owned(),
            },
            ["state"] => format!("{:?}", guard.as_ref().unwrap().state()),
            ["lost"] => format!("{:?}", guard.as_ref().unwrap().lost().await),
            ["write", address, value] => {
                let mut register = RegisterClient::connect(address.parse().unwrap()).unwrap();
                let token = guard.as_ref().unwrap().token().get();
                format!("{:?}", register.write_guarded(token, value.parse().unwrap()).unwrap())
            }
            ["unlock"] => format!("{:?}", guard.take().unwrap().unlock().await),
            ["drop"] => {
                guard = None;
                "dropped".to_owned()
            }
            ["close"] => format!("{:?}", keeper.as_ref().unwrap().close().await.freed),
            ["keep"] => {
                assert!(KEPT.set(Mutex::new(guard.take().unwrap())).is_ok());
                "kept".to_owned()
            }
            ["fork", name] => {
                become_a_child();
                let taken = guard.as_ref().unwrap();
                let state = taken.state();
                let own = taken.owner()[..36].to_owned();
                let reentered = taken.reenter().is_ok();
                let unlocked = guard.take().unwrap().unlock().await;
                let again = mutex(&keeper, name, layout).try_lock().await;
                let new_owner = again.as_ref().map(|guard| guard.owner()[..36] != own);
                format!("{state:?} {reentered} {unlocked:?} {new_owner:?}")
            }
            ["exit"] => std::process::exit(0),
            ["leave"] => {
                drop(guard.take());
                drop(run.take());
                drop(leadership.take());
                drop(keeper.take());
                std::process::exit(0)
            }
            other => panic!("no order {other:?}"),
        };
        println!("> {answer}");
    }
}

fn mutex(keeper: &Option<Keeper>, name: &str, layout: Layout) -> lockkeeper::Mutex {
    keeper
        .as_ref()
        .expect("a keeper that was not let go")
        .mutex(name)
        .layout(layout)
}

fn periodic(keeper: &Option<Keeper>, name: &str, layout: Layout, least: &str, most: &str) -> Periodic {
    let milliseconds = |text: &str| Duration::from_millis(text.parse().unwrap());
    keeper
        .as_ref()
        .expect("a keeper that was not let go")
        .periodic(name)
        .layout(layout)
        .at_least(milliseconds(least))
        .at_most(milliseconds(most))
}

/// Forks, and goes on in the child: the parent ends at once, without any destructor.
fn become_a_child() {
    nix::unistd::daemon(true, true).expect("a fork");
    // Whatever happens, the child must not outlive the test.
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(20));
        std::process::exit(3);
    });
}
