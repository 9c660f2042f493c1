//! Which script a request runs, so that a fault can strike just that step.

use std::sync::LazyLock;

use lockkeeper_testkit::proxy::Request;

/// The hashes of one step's scripts, one a layout.
type Hashes = LazyLock<[String; 2]>;

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../src/engine/redis/scripts/", $name, ".lua"))
    };
}

macro_rules! hashes {
    ($mutex:expr, $plain:expr) => {
        LazyLock::new(|| [$mutex, $plain].map(|source| redis::Script::new(source).get_hash().to_owned()))
    };
}

static ACQUIRE: Hashes = hashes!(
    concat!(script!("mutex/acquire"), script!("shared/grant")),
    concat!(script!("plain/acquire"), script!("shared/grant"))
);
static RENEW: Hashes = hashes!(script!("mutex/renew"), script!("plain/renew"));
static RELEASE: Hashes = hashes!(script!("mutex/release"), script!("plain/release"));

fn calls(request: &Request, hashes: &Hashes) -> bool {
    request.command == "EVALSHA" && hashes.iter().any(|hash| request.argument(0) == hash.as_str())
}

pub(crate) fn is_acquire(request: &Request) -> bool {
    calls(request, &ACQUIRE)
}

pub(crate) fn is_renewal(request: &Request) -> bool {
    calls(request, &RENEW)
}

pub(crate) fn is_release(request: &Request) -> bool {
    calls(request, &RELEASE)
}
