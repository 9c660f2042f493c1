//! Who is measured.

use clap::ValueEnum;

/// One contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Line {
    /// Lockkeeper's two scripts of Redisson's layout, sent by the bare driver.
    BareRedisson,
    /// Lockkeeper's two scripts of the plain layout, sent by the bare driver.
    BarePlain,
    /// `SET NX PX` and compare-and-delete, sent by the bare driver.
    BareSet,
    /// The crate `rslock`, as it comes.
    Rslock,
    /// `tokio::sync::Mutex`: no server at all.
    Tokio,
    /// Lockkeeper in Redisson's layout.
    Redisson,
    /// Lockkeeper in the plain layout.
    Plain,
    /// Lockkeeper in Redisson's layout, hand-over switched off.
    RedissonAlone,
    /// Lockkeeper in the plain layout, hand-over switched off.
    PlainAlone,
}

impl Line {
    /// As typed on the command line.
    pub(crate) fn argument(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// As shown in tables.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::BareRedisson => "bare driver, same scripts (Redisson)",
            Self::BarePlain => "bare driver, same scripts (plain)",
            Self::BareSet => "bare driver, SET NX PX + compare-and-delete",
            Self::Rslock => "rslock 0.10",
            Self::Tokio => "tokio::sync::Mutex",
            Self::Redisson => "Lockkeeper (Redisson)",
            Self::Plain => "Lockkeeper (plain)",
            Self::RedissonAlone => "Lockkeeper (Redisson), hand-over off",
            Self::PlainAlone => "Lockkeeper (plain), hand-over off",
        }
    }
}

/// Opens the client of a line and evaluates an expression with it, once for each type of client.
macro_rules! with_client {
    ($line:expr, $url:expr, $client:ident => $body:expr) => {{
        use $crate::client;
        use $crate::line::Line;
        match $line {
            Line::BareRedisson => {
                let $client = client::BareScripts::connect($url, lockkeeper::Layout::Redisson).await;
                $body
            }
            Line::BarePlain => {
                let $client = client::BareScripts::connect($url, lockkeeper::Layout::Plain).await;
                $body
            }
            Line::BareSet => {
                let $client = client::BareSet::connect($url).await;
                $body
            }
            Line::Rslock => {
                let $client = client::Rslock::connect($url);
                $body
            }
            Line::Tokio => {
                let $client = client::Tokio::default();
                $body
            }
            Line::Redisson => {
                let $client = client::Lockkeeper::connect($url, lockkeeper::Layout::Redisson, true).await;
                $body
            }
            Line::Plain => {
                let $client = client::Lockkeeper::connect($url, lockkeeper::Layout::Plain, true).await;
                $body
            }
            Line::RedissonAlone => {
                let $client = client::Lockkeeper::connect($url, lockkeeper::Layout::Redisson, false).await;
                $body
            }
            Line::PlainAlone => {
                let $client = client::Lockkeeper::connect($url, lockkeeper::Layout::Plain, false).await;
                $body
            }
        }
    }};
}
pub(crate) use with_client;
