//! Children of this process, each with a share of the buyers.

use super::message::{News, Order};
use super::plan::Plan;
use super::tally::Tally;
use super::trouble::Trouble;
use crate::arguments::{PASSWORD_VARIABLE, Server};
use serde::Serialize;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

/// To start and to connect.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// All children, connected and waiting for the word. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Crew(Vec<Worker>);

/// One child.
#[derive(Debug)]
struct Worker {
    child: Child,
    orders: ChildStdin,
    news: Lines<BufReader<ChildStdout>>,
}

impl Crew {
    /// Starts a child for each plan and waits until all are connected.
    pub(super) async fn gather(plans: Vec<Plan>, server: &Server) -> Result<Self, Trouble> {
        let mut coming = JoinSet::new();
        for plan in plans {
            let mut worker = Worker::start(server)?;
            coming.spawn(async move {
                worker.order(&Order::Prepare(plan)).await?;
                match tokio::time::timeout(READY_LIMIT, worker.hear()).await {
                    Ok(News::Ready) => Ok(worker),
                    Ok(News::Failed(trouble)) => Err(trouble),
                    Ok(_) => Err(Trouble::Process("it spoke out of turn".to_owned())),
                    Err(_) => Err(Trouble::Process("it was never ready".to_owned())),
                }
            });
        }
        let mut workers = Vec::new();
        while let Some(worker) = coming.join_next().await {
            workers.push(worker.map_err(|error| Trouble::Process(error.to_string()))??);
        }
        Ok(Self(workers))
    }

    /// Gives the word, and adds up what the children bring home. `done` counts the requests that have ended.
    pub(super) async fn work(self, done: Arc<AtomicU64>) -> Result<Tally, Trouble> {
        let mut working = JoinSet::new();
        for worker in self.0 {
            working.spawn(worker.work(Arc::clone(&done)));
        }
        let mut whole = Tally::default();
        while let Some(tally) = working.join_next().await {
            whole.add(&tally.map_err(|error| Trouble::Process(error.to_string()))??);
        }
        Ok(whole)
    }
}

impl Worker {
    fn start(server: &Server) -> Result<Self, Trouble> {
        let failed = |error: std::io::Error| Trouble::Process(error.to_string());
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .arg(super::BUYERS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if let Some(password) = &server.password {
            command.env(PASSWORD_VARIABLE, password);
        }
        let mut child = command.spawn().map_err(failed)?;
        let (Some(orders), Some(news)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::Process("it has no pipes".to_owned()));
        };
        Ok(Self {
            child,
            orders,
            news: BufReader::new(news).lines(),
        })
    }

    async fn order(&mut self, order: &impl Serialize) -> Result<(), Trouble> {
        let mut line = serde_json::to_vec(order).map_err(|error| Trouble::Process(error.to_string()))?;
        line.push(b'\n');
        let written = self.orders.write_all(&line).await;
        written.map_err(|error| Trouble::Process(error.to_string()))
    }

    /// The next word of the child, its silence included.
    async fn hear(&mut self) -> News {
        let failed = |text: String| News::Failed(Trouble::Process(text));
        match self.news.next_line().await {
            Ok(Some(line)) => serde_json::from_str(&line).unwrap_or_else(|error| failed(error.to_string())),
            Ok(None) => failed("it ended before its work was done".to_owned()),
            Err(error) => failed(error.to_string()),
        }
    }

    async fn work(mut self, done: Arc<AtomicU64>) -> Result<Tally, Trouble> {
        self.order(&Order::Begin).await?;
        let mut counted = 0;
        loop {
            match self.hear().await {
                News::Done(now) => {
                    done.fetch_add(now.saturating_sub(counted), Ordering::Relaxed);
                    counted = now;
                }
                News::Finished(tally) => {
                    // It ends by itself when its input does.
                    drop(self.orders);
                    let _ = self.child.wait().await;
                    return Ok(tally);
                }
                News::Failed(trouble) => return Err(trouble),
                News::Ready => return Err(Trouble::Process("it spoke out of turn".to_owned())),
            }
        }
    }
}
