use std::time::Duration;

use lockkeeper::{Keeper, Layout, Mutex};
use lockkeeper_testkit::RedisServer;

/// An engine with a layout, on which several keepers play several processes.
pub(crate) struct Stage {
    layout: Layout,
    engine: Engine,
}

enum Engine {
    Embedded(Keeper),
    Redis(Box<RedisServer>),
}

impl Stage {
    pub(crate) fn embedded(layout: Layout) -> Self {
        Self {
            layout,
            engine: Engine::Embedded(Keeper::builder().fair_grace(Duration::from_secs(2)).embedded()),
        }
    }

    pub(crate) async fn redis(layout: Layout) -> Self {
        Self {
            layout,
            engine: Engine::Redis(Box::new(RedisServer::start())),
        }
    }

    /// A keeper of its own, as another process would have.
    pub(crate) async fn keeper(&self) -> Keeper {
        match &self.engine {
            Engine::Embedded(first) => first.embedded_peer().expect("embedded"),
            Engine::Redis(server) => Keeper::connect(&server.url()).await.expect("a running server"),
        }
    }

    /// A keeper whose fair mutexes keep places for `grace`.
    pub(crate) async fn keeper_with_grace(&self, grace: Duration) -> Keeper {
        match &self.engine {
            // Peers share the first one's settings.
            Engine::Embedded(_) => self.keeper().await,
            Engine::Redis(server) => Keeper::builder()
                .fair_grace(grace)
                .connect(&server.url())
                .await
                .expect("a running server"),
        }
    }

    /// A lock in this stage's layout.
    pub(crate) fn mutex(&self, keeper: &Keeper, name: &str) -> Mutex {
        keeper.mutex(name).layout(self.layout)
    }

    /// The same lock seen by two processes.
    pub(crate) async fn two(&self, name: &str) -> (Mutex, Mutex) {
        let (first, second) = (self.keeper().await, self.keeper().await);
        (self.mutex(&first, name), self.mutex(&second, name))
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }
}

/// Long enough for anything that is to happen, short enough to fail a hung test.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Fails instead of hanging.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("still waiting for: {what}"),
    }
}
