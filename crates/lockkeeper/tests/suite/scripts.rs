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

/// The hash of a script of the read-write lock, which has shared parts between its header and its body.
fn with_openings(openings: &str, source: &str) -> String {
    let is_header = |line: &&str| line.starts_with("--");
    let header: usize = source.split_inclusive('\n').take_while(is_header).map(str::len).sum();
    let (header, body) = source.split_at(header);
    redis::Script::new(&[header, openings, body].concat())
        .get_hash()
        .to_owned()
}

macro_rules! rwlock_script {
    ($predicate:ident, $name:literal after $($opening:literal)+ $(then $shared:literal)?) => {
        pub(crate) fn $predicate(request: &Request) -> bool {
            static HASH: LazyLock<String> = LazyLock::new(|| {
                with_openings(
                    concat!($(script!($opening)),+),
                    concat!(script!($name), $(script!($shared))?),
                )
            });
            request.command == "EVALSHA" && request.argument(0) == HASH.as_str()
        }
    };
}

rwlock_script!(is_upgrade, "rwlock/upgrade" after "shared/rwlock" then "shared/grant");
rwlock_script!(is_downgrade, "rwlock/downgrade" after "shared/opening" "shared/rwlock");
rwlock_script!(is_read_renewal, "rwlock/renew_read" after "shared/opening");
