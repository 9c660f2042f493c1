//! Which script a request runs, so that a fault can strike just that step.

use std::sync::LazyLock;

use lockkeeper_testkit::proxy::Request;

/// The hashes of one step's scripts, one a layout or kind.
type Hashes = LazyLock<Vec<String>>;

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../src/engine/redis/scripts/", $name, ".lua"))
    };
}

/// The hash of a script with its shared parts: openings stand between its header and its body, the rest behind it.
fn hash(source: &str, openings: &[&str], rest: &str) -> String {
    let header: usize = source
        .split_inclusive('\n')
        .take_while(|line| line.starts_with("--"))
        .map(str::len)
        .sum();
    let (header, body) = source.split_at(header);
    let whole = [header, &openings.concat(), body, rest].concat();
    redis::Script::new(&whole).get_hash().to_owned()
}

const OPENING: &str = script!("shared/opening");
const LINE: &str = script!("shared/line");
const PERMITS: &str = script!("shared/permits");
const GRANT: &str = script!("shared/grant");
const RWLOCK: &str = script!("shared/rwlock");

static ACQUIRE: Hashes = LazyLock::new(|| {
    vec![
        hash(script!("mutex/acquire"), &[], GRANT),
        hash(script!("plain/acquire"), &[], GRANT),
        hash(script!("fair/acquire"), &[LINE], GRANT),
        hash(script!("permits/acquire"), &[OPENING, PERMITS], ""),
        hash(script!("semaphore/acquire"), &[OPENING, PERMITS], ""),
    ]
});
static RENEW: Hashes = LazyLock::new(|| {
    vec![
        hash(script!("mutex/renew"), &[], ""),
        hash(script!("plain/renew"), &[], ""),
        hash(script!("permits/renew"), &[OPENING, PERMITS], ""),
    ]
});
static RELEASE: Hashes = LazyLock::new(|| {
    vec![
        hash(script!("mutex/release"), &[], ""),
        hash(script!("plain/release"), &[], ""),
        hash(script!("fair/release"), &[OPENING, LINE], ""),
        hash(script!("permits/release"), &[OPENING, PERMITS], ""),
        hash(script!("semaphore/give_back"), &[OPENING, PERMITS], ""),
    ]
});

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

static UPGRADE: Hashes = LazyLock::new(|| vec![hash(script!("rwlock/upgrade"), &[RWLOCK], GRANT)]);
static DOWNGRADE: Hashes = LazyLock::new(|| vec![hash(script!("rwlock/downgrade"), &[OPENING, RWLOCK], "")]);
static READ_RENEWAL: Hashes = LazyLock::new(|| vec![hash(script!("rwlock/renew_read"), &[OPENING], "")]);

pub(crate) fn is_upgrade(request: &Request) -> bool {
    calls(request, &UPGRADE)
}

pub(crate) fn is_downgrade(request: &Request) -> bool {
    calls(request, &DOWNGRADE)
}

pub(crate) fn is_read_renewal(request: &Request) -> bool {
    calls(request, &READ_RENEWAL)
}
