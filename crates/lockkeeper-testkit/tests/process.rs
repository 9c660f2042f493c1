//! Worker programs: spoken to, killed, frozen.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use lockkeeper_testkit::Process;

const SOON: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn lines_go_in_and_come_out_and_the_end_is_seen() {
    let mut echo = Process::start("cat", [""; 0]).unwrap();
    echo.write_line("one").unwrap();
    echo.write_line("value 2").unwrap();
    assert_eq!(echo.next_line(SOON).await.unwrap(), "one");
    assert_eq!(echo.line_starting_with("value ", SOON).await.unwrap(), "2");
    assert_eq!(echo.next_line(MOMENT).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(echo.wait(MOMENT).await.unwrap_err().kind(), ErrorKind::TimedOut);
    echo.close_input();
    assert!(echo.wait(SOON).await.unwrap().success());
    assert_eq!(echo.next_line(SOON).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(echo.write_line("late").is_err());
    assert!(!echo.is_running());
}

#[tokio::test]
async fn a_frozen_process_does_nothing_and_goes_on_when_thawed() {
    let mut echo = Process::start("cat", [""; 0]).unwrap();
    echo.freeze();
    echo.write_line("hello").unwrap();
    assert_eq!(echo.next_line(MOMENT).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(echo.is_running());
    echo.thaw();
    assert_eq!(echo.next_line(SOON).await.unwrap(), "hello");
}

#[tokio::test]
async fn a_process_is_killed_also_while_frozen() {
    let mut echo = Process::start("cat", [""; 0]).unwrap();
    echo.freeze();
    assert_eq!(echo.kill().unwrap().signal(), Some(9));
    assert_eq!(echo.kill().unwrap().signal(), Some(9));
    assert_eq!(echo.wait(SOON).await.unwrap().signal(), Some(9));
}

#[tokio::test]
async fn a_process_ends_when_asked_and_when_dropped() {
    let mut echo = Process::start("cat", [""; 0]).unwrap();
    echo.terminate();
    assert_eq!(echo.wait(SOON).await.unwrap().signal(), Some(15));
    let dropped = Process::start("cat", [""; 0]).unwrap();
    let stat = format!("/proc/{}", dropped.pid());
    drop(dropped);
    assert!(!std::path::Path::new(&stat).exists());
}

#[test]
fn a_missing_program_is_an_error() {
    assert_eq!(
        Process::start("/nonexistent/worker", [""; 0]).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}
