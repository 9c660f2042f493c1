//! Who may speak to whom: TLS, and servers without credentials. What a user of a server must be allowed is tested beside the
//! scripts, in `src/engine/redis/tests/permissions.rs`.

mod anonymous;
mod tls;
