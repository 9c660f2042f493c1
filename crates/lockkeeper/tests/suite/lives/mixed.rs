//! Everything at once: several processes, hot and cold names, killed and frozen workers, a server that crashes and comes
//! back with its data. Who believed to hold what is recorded and judged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{HoldState, Keeper, Layout, Lease, MutexGuard};
use lockkeeper_testkit::history::{History, RecordedHold, Recorder, Sharing};
use lockkeeper_testkit::register::{RegisterClient, RegisterServer};
use lockkeeper_testkit::{Process, RedisServer, boot_time_ns, wait_until};
use redis::cmd;

use super::stage::{SOON, ms};
use super::worker;

const WORKERS: usize = 4;
const TASKS: u64 = 8;
const COLD_NAMES: u32 = 20;
const LEASE: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(3);

/// How long the run lasts, in seconds; more than the default for a soak.
const SOAK: &str = "LOCKKEEPER_SOAK_SECONDS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redisson() {
    run(Layout::Redisson).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain() {
    run(Layout::Plain).await;
}

struct Run {
    layout: Layout,
    server: RedisServer,
    guarded: RegisterServer,
    blind: RegisterServer,
    workers: Vec<(String, Process)>,
    files: Vec<PathBuf>,
    /// Processes that were killed, with the moment at which they were gone.
    killed: Vec<(String, u64)>,
    /// Moments at which a disturbance was over.
    healed: Vec<u64>,
    /// What workers said that have ended.
    said: Vec<String>,
    seed: u64,
}

impl Run {
    async fn start_worker(&mut self) {
        let name = format!("worker-{}", self.files.len() + 1);
        let file = self.server.folder().join(format!("{name}.jsonl"));
        let arguments = [
            self.server.url(),
            format!("{:?}", self.layout),
            file.display().to_string(),
            name.clone(),
            self.guarded.address().to_string(),
            self.blind.address().to_string(),
            self.seed.wrapping_add(self.files.len() as u64).to_string(),
        ];
        let mut process = worker::start("mixed", &arguments);
        process
            .line_starting_with("> ready", SOON)
            .await
            .expect("a worker that works");
        self.files.push(file);
        self.workers.push((name, process));
    }

    async fn kill_a_worker(&mut self) {
        let (name, mut process) = self.workers.remove(0);
        process.kill().unwrap();
        self.killed.push((name, boot_time_ns()));
        self.healed.push(boot_time_ns());
        self.listen(&mut process).await;
        self.start_worker().await;
    }

    async fn freeze_a_worker(&mut self) {
        let (_, process) = &self.workers[1];
        process.freeze();
        tokio::time::sleep(LEASE * 2).await;
        process.thaw();
        self.healed.push(boot_time_ns());
    }

    fn crash_the_server(&mut self) {
        self.server.kill();
        self.server.restart();
        self.healed.push(boot_time_ns());
    }

    /// Reads what a worker said until its end.
    async fn listen(&mut self, process: &mut Process) {
        while let Ok(line) = process.next_line(ms(5000)).await {
            if let Some(line) = line.strip_prefix("> ") {
                self.said.push(line.to_owned());
            }
        }
    }
}

async fn run(layout: Layout) {
    let seconds = std::env::var(SOAK).map_or(9, |text| text.parse().expect("a number of seconds"));
    let seed = fastrand::u64(..);
    println!("seed {seed}, {seconds} s");
    let mut run = Run {
        layout,
        server: RedisServer::builder()
            .append_only()
            .config("appendfsync", "always")
            .start(),
        guarded: RegisterServer::start(),
        blind: RegisterServer::start(),
        workers: Vec::new(),
        files: Vec::new(),
        killed: Vec::new(),
        healed: Vec::new(),
        said: Vec::new(),
        seed,
    };
    for _ in 0..WORKERS {
        run.start_worker().await;
    }
    // The last seconds are quiet, so that the way back to work can be seen.
    let quiet = LEASE * 2 + ms(500);
    let end = Instant::now() + Duration::from_secs(seconds);
    for round in 0_u64.. {
        tokio::time::sleep(ms(500)).await;
        // Each disturbance at least once, however slow the machine.
        if round >= 4 && Instant::now() + quiet > end {
            break;
        }
        match round % 4 {
            0 | 3 => run.kill_a_worker().await,
            1 => run.freeze_a_worker().await,
            _ => run.crash_the_server(),
        }
    }
    tokio::time::sleep(quiet).await;
    let mut workers = std::mem::take(&mut run.workers);
    for (_, process) in &mut workers {
        process.close_input();
    }
    for (name, process) in &mut workers {
        let status = process.wait(WAIT + SOON).await;
        let status = status.unwrap_or_else(|error| panic!("{name} does not end: {error}"));
        assert!(status.success(), "{name}: {status}");
        run.listen(process).await;
    }
    judge(&run).await;
}

async fn judge(run: &Run) {
    let said = &run.said;
    let mut history = History::read(&run.files).unwrap();
    for (name, at) in &run.killed {
        history.process_ended(name, *at);
    }
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    for entry in history.entries() {
        if let Some(lockkeeper_testkit::history::Ending::Refused(reason)) = &entry.ending {
            *refused.entry(reason.clone()).or_default() += 1;
        }
    }
    let count = |word: &str| said.iter().filter(|line| line.starts_with(word)).count() as u64;
    let (late, harmed, stale) = (count("late"), count("harmed"), count("stale"));
    let (blind, guarded) = (run.blind.register().tally(), run.guarded.register().tally());
    println!(
        "{} attempts, {} grants, refused {refused:?}; {late} late, {harmed} harmed; blind {blind:?}, guarded {guarded:?}",
        history.entries().len(),
        history.grants(),
    );
    history.assert_sound();
    assert!(history.grants() > 500, "{} grants prove little", history.grants());
    assert!(run.healed.len() >= 4, "{} disturbances", run.healed.len());
    assert!(guarded.writes > 100, "{guarded:?}");
    assert_eq!(stale, 0, "a believed holder's write was refused: {said:?}");
    // A write that came after its writer's deadline harms at most itself and the one it ran into.
    assert!(blind.lost_updates <= 2 * late, "{blind:?} with {late} late writes");
    assert!(harmed <= late, "{harmed} holders were harmed by {late} late writes");
    for at in &run.healed {
        let next = history
            .entries()
            .iter()
            .filter(|entry| entry.object == "hot")
            .filter_map(|entry| Some(entry.grant()?.returned))
            .filter(|granted| granted > at)
            .min();
        let waited = next.map(|granted| Duration::from_nanos(granted - at));
        assert!(
            waited.is_some_and(|waited| waited < LEASE + Duration::from_secs(2)),
            "the first grant after a disturbance came after {waited:?}"
        );
    }
    nothing_left(&run.server).await;
}

/// After the leases only token records are left, and each of them ends by itself.
async fn nothing_left(server: &RedisServer) {
    wait_until("an empty server", SOON, async || {
        let mut keys = server.keys().await;
        keys.retain(|key| !key.starts_with("lockkeeper_token:"));
        let left = (keys, server.pubsub_channels().await);
        if left.0.is_empty() && left.1.is_empty() {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
    for key in server.keys().await {
        let left: i64 = server.query(cmd("PTTL").arg(&key)).await;
        assert!((1..=660_000).contains(&left), "{key} lives for {left} ms");
    }
}

/// The worker's side; ends when its input does.
pub(super) fn work(arguments: &[&str]) {
    let [url, layout, file, name, guarded, blind, seed] = arguments else {
        panic!("arguments: {arguments:?}")
    };
    let layout = if *layout == "Plain" {
        Layout::Plain
    } else {
        Layout::Redisson
    };
    let registers: [SocketAddr; 2] = [guarded.parse().unwrap(), blind.parse().unwrap()];
    let seed: u64 = seed.parse().unwrap();
    let recorder = Recorder::open(file, *name).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    std::thread::spawn(move || {
        // Its end is the sign to stop, or the end of the test.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        told.store(true, Ordering::SeqCst);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let builder = Keeper::builder().response_limit(ms(500));
        let keeper = builder.connect(url).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let caller = Caller {
                keeper: keeper.clone(),
                layout,
                recorder: recorder.clone(),
                guarded: RegisterClient::connect(registers[0]).unwrap(),
                blind: RegisterClient::connect(registers[1]).unwrap(),
                random: fastrand::Rng::with_seed(seed.wrapping_mul(31).wrapping_add(task)),
            };
            tasks.spawn(caller.work(Arc::clone(&over)));
        }
        println!("> ready");
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        let report = keeper.close().await;
        assert!(report.unconfirmed.is_empty(), "{report:?}");
    });
}

struct Caller {
    keeper: Keeper,
    layout: Layout,
    recorder: Recorder,
    guarded: RegisterClient,
    blind: RegisterClient,
    random: fastrand::Rng,
}

fn is_lost(guard: &MutexGuard) -> bool {
    matches!(guard.state(), HoldState::Lost(_))
}

fn deadline(guard: &MutexGuard) -> u64 {
    // Read first, so that the deadline is never told too late.
    let now = boot_time_ns();
    now + u64::try_from(guard.remaining().as_nanos()).unwrap()
}

impl Caller {
    async fn work(mut self, over: Arc<AtomicBool>) {
        while !over.load(Ordering::Relaxed) {
            let hot = self.random.bool();
            let name = if hot {
                "hot".to_owned()
            } else {
                format!("cold:{}", self.random.u32(0..COLD_NAMES))
            };
            let mutex = self.keeper.mutex(&name).layout(self.layout);
            let mutex = mutex.lease(Lease::renewed(LEASE)).wait(WAIT);
            let attempt = self.recorder.call(&name, Sharing::Exclusive);
            match mutex.lock().await {
                Ok(guard) => {
                    let until = deadline(&guard);
                    let hold = attempt.granted(guard.owner(), Some(guard.token().get()), Some(until));
                    if hot {
                        self.change_the_shared(&guard, &hold).await;
                    } else {
                        self.hold_for_a_while(&guard, &hold).await;
                    }
                    if is_lost(&guard) {
                        hold.lost();
                    }
                    hold.release_called();
                    if self.random.bool() {
                        drop(guard);
                    } else {
                        // A lost hold or a server that is away: told, and seen in the history.
                        let _ = guard.unlock().await;
                    }
                }
                Err(error) => {
                    let text = format!("{error:?}");
                    attempt.refused(text.split([' ', '(']).next().unwrap_or_default());
                    if !error.is_contention() {
                        tokio::time::sleep(ms(20)).await;
                    }
                }
            }
        }
    }

    /// Reads, thinks and writes, as code under a lock does, in both kinds of store.
    async fn change_the_shared(&mut self, guard: &MutexGuard, hold: &RecordedHold) {
        let seen = self.blind.read().unwrap();
        if self.random.u8(..) < 8 {
            tokio::time::sleep(ms(self.random.u64(0..20))).await;
        } else {
            tokio::task::yield_now().await;
        }
        if is_lost(guard) {
            hold.lost();
            return;
        }
        let kept = self.blind.write(seen + 1).unwrap();
        let accepted = self.guarded.write_guarded(guard.token().get(), seen + 1).unwrap();
        let lost = is_lost(guard);
        if lost {
            println!("> late {kept} {accepted:?}");
        } else {
            if !kept {
                println!("> harmed {}", guard.token());
            }
            if accepted.is_err() {
                println!("> stale {} {accepted:?}", guard.token());
            }
        }
    }

    async fn hold_for_a_while(&mut self, guard: &MutexGuard, hold: &RecordedHold) {
        if self.random.u8(..) > 2 {
            tokio::time::sleep(Duration::from_micros(self.random.u64(0..3000))).await;
            return;
        }
        // Longer than the lease, so that it lives by its renewals.
        let started = Instant::now();
        while started.elapsed() < LEASE + LEASE / 2 && !is_lost(guard) {
            tokio::time::sleep(ms(50)).await;
            if !is_lost(guard) {
                hold.renewed(deadline(guard));
            }
        }
    }
}
