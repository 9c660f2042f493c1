//! What the server's and the driver's errors mean: their class, and whether the request may have had an effect.

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};

use super::config::RedisConfig;
use crate::engine::{Cause, StepError};
#[cfg(feature = "tls")]
use crate::error::TlsFault;
use crate::error::{Effect, Refusal};

/// The code with which our scripts tell that no token is left.
const TOKENS_EXHAUSTED: &str = "TOKENEXHAUSTED";

/// The code with which our scripts refuse, before they change anything, to count further than numbers are exact.
const PERMITS_OUT_OF_RANGE: &str = "PERMITSRANGE";

/// The codes that servers use, the first of an error's text or, before Redis 7, somewhere inside of it.
const CODES: [(&str, Refusal); 21] = [
    ("OOM", Refusal::OutOfMemory),
    ("READONLY", Refusal::ReadOnly),
    ("MASTERDOWN", Refusal::NotReady),
    ("LOADING", Refusal::NotReady),
    ("BUSY", Refusal::NotReady),
    ("UNKILLABLE", Refusal::NotReady),
    ("CLUSTERDOWN", Refusal::NotReady),
    ("TRYAGAIN", Refusal::NotReady),
    ("MOVED", Refusal::Slot),
    ("ASK", Refusal::Slot),
    ("CROSSSLOT", Refusal::Slot),
    ("NOREPLICAS", Refusal::Durability),
    ("MISCONF", Refusal::Durability),
    ("NOAUTH", Refusal::Permission),
    ("WRONGPASS", Refusal::Permission),
    ("NOPERM", Refusal::Permission),
    ("DENIED", Refusal::Permission),
    ("NOSCRIPT", Refusal::ScriptMissing),
    ("NOPROTO", Refusal::TooOld),
    (TOKENS_EXHAUSTED, Refusal::TokenExhausted),
    (PERMITS_OUT_OF_RANGE, Refusal::Other),
];

/// What marks an error without a code of its own, with its class.
const TEXTS: [(&str, Refusal); 8] = [
    ("max number of clients reached", Refusal::TooManyClients),
    (
        "max number of clients + cluster connections reached",
        Refusal::TooManyClients,
    ),
    // Redis 7.0 answers a denial inside of a script so, and older ones with the last text.
    ("The user executing the script can't", Refusal::Permission),
    ("can't run this command or subcommand", Refusal::Permission),
    ("can't access", Refusal::Permission),
    ("no permissions to", Refusal::Permission),
    ("unknown command", Refusal::TooOld),
    ("Unknown Redis command called from", Refusal::TooOld),
];

/// The class of an error text, and whether something may have been written before it.
fn classify(code: &str, detail: &str) -> (Refusal, Effect) {
    let of_code = |code: &str| {
        CODES
            .iter()
            .find(|(known, _)| *known == code)
            .map(|(_, refusal)| *refusal)
    };
    if let Some(refusal) = of_code(code) {
        return (refusal, effect(refusal, detail));
    }
    // "ERR Error running script (call to f_..): @user_script:12: -READONLY You can't write .."
    let inner = detail
        .split([' ', ':'])
        .filter_map(|word| word.strip_prefix('-'))
        .find_map(of_code);
    let of_text = || {
        TEXTS
            .iter()
            .find(|(part, _)| detail.contains(part))
            .map(|(_, refusal)| *refusal)
    };
    match inner.or_else(of_text) {
        Some(refusal) => (refusal, effect(refusal, detail)),
        None => (Refusal::Other, Effect::Possible),
    }
}

/// What the server refuses for its own state it refuses before the first write of a script; what a user may not do can
/// also be a later command.
fn effect(refusal: Refusal, detail: &str) -> Effect {
    match refusal {
        Refusal::Permission | Refusal::TooOld if detail.contains("script") => Effect::Possible,
        _ => Effect::None,
    }
}

/// The server answered a request with an error.
pub(super) fn server_refused(config: &RedisConfig, error: &ServerError) -> StepError {
    let detail = error.details().unwrap_or_default();
    let (refusal, effect) = classify(error.code(), detail);
    let told = if detail.is_empty() {
        error.code().to_owned()
    } else {
        format!("{} {detail}", error.code())
    };
    StepError {
        cause: Cause::Refused(refusal, config.scrub(&told)),
        effect,
    }
}

/// A request that was sent got no answer: the connection broke, or the answer could not be read.
pub(super) fn broken(config: &RedisConfig, error: &RedisError) -> StepError {
    StepError::possible(Cause::Unreachable(config.scrub(&error.to_string())))
}

/// A connection could not be made. Nothing was asked yet.
pub(super) fn not_connected(config: &RedisConfig, error: &RedisError) -> StepError {
    #[cfg(feature = "tls")]
    if let Some(fault) = super::tls::fault(error) {
        return StepError::none(tls_fault(config, fault, &error.to_string()));
    }
    let cause = match error.kind() {
        // Before Redis 6 the server's own text quotes the whole handshake, password included: not shown.
        ErrorKind::RESP3NotSupported => too_old("a server that does not know HELLO is older than Redis 6"),
        ErrorKind::Server(ServerErrorKind::ResponseError)
            if error.detail().is_some_and(|detail| detail.contains("unknown command")) =>
        {
            too_old("a server that does not know HELLO is older than Redis 6")
        }
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let detail = error.detail().unwrap_or_default();
            let code = error.code().unwrap_or_default();
            let (refusal, _) = classify(code, detail);
            Cause::Refused(refusal, config.scrub(&format!("{code} {detail}")))
        }
        ErrorKind::AuthenticationFailed => Cause::Refused(Refusal::Permission, config.scrub(&error.to_string())),
        kind => {
            let cut = kind == ErrorKind::Parse || error.is_connection_dropped();
            let hint = if cut && !config.is_encrypted() {
                " (if this port speaks TLS, the URL begins with rediss://)"
            } else {
                ""
            };
            let told = config.scrub(&error.to_string());
            Cause::Unreachable(format!("{}: {told}{hint}", config.server()))
        }
    };
    StepError::none(cause)
}

/// A port that was to speak TLS answered in plain text.
#[cfg(feature = "tls")]
pub(super) fn not_tls(config: &RedisConfig) -> StepError {
    StepError::none(tls_fault(config, TlsFault::NotTls, "the port answers in plain text"))
}

#[cfg(feature = "tls")]
fn tls_fault(config: &RedisConfig, fault: TlsFault, told: &str) -> Cause {
    let told = format!(
        "{}: {}; {}",
        config.server(),
        config.scrub(told),
        super::tls::remedy(fault)
    );
    Cause::Tls(fault, told)
}

pub(super) fn too_old(told: &str) -> Cause {
    Cause::Refused(Refusal::TooOld, told.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_known_in_front_and_inside() {
        for (code, refusal) in CODES {
            assert_eq!(classify(code, "some text"), (refusal, Effect::None), "{code}");
            let wrapped = format!("Error running script (call to f_abc): @user_script:12: -{code} some text");
            let effect = if refusal == Refusal::Permission || refusal == Refusal::TooOld {
                Effect::Possible
            } else {
                Effect::None
            };
            assert_eq!(classify("ERR", &wrapped), (refusal, effect), "{code} inside");
        }
    }

    #[test]
    fn texts_without_a_code_are_known() {
        for (detail, refusal, effect) in [
            ("max number of clients reached", Refusal::TooManyClients, Effect::None),
            (
                "The user executing the script can't run this command or subcommand script: f_1, on @user_script:3.",
                Refusal::Permission,
                Effect::Possible,
            ),
            (
                "The user executing the script can't access at least one of the keys mentioned in the command arguments",
                Refusal::Permission,
                Effect::Possible,
            ),
            ("unknown command 'EVALSHA'", Refusal::TooOld, Effect::None),
            ("something new", Refusal::Other, Effect::Possible),
        ] {
            assert_eq!(classify("ERR", detail), (refusal, effect), "{detail}");
        }
        assert_eq!(classify("WRONGTYPE", "Operation against a key").0, Refusal::Other);
    }
}
