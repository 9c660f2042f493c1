//! Runs a command while a hold lasts.
#![allow(missing_docs)]
pub fn helper() -> Option<std::process::ExitCode> {
    None
}
pub fn start_again(_: &[std::ffi::OsString], _: &crate::arguments::Secret) -> std::io::Error {
    unreachable!()
}
