//! An open server on another machine is not used by accident.

use lockkeeper::redis::RedisConfig;
use lockkeeper::{Effect, Error, Keeper, UrlError};

#[tokio::test]
async fn an_open_server_elsewhere_is_refused_before_anything_is_sent() {
    for url in [
        "redis://cache.example",
        "rediss://cache.example:6380/1",
        "redis://192.0.2.1",
    ] {
        let error = Keeper::connect(url).await.unwrap_err();
        assert!(matches!(&error, Error::Url(UrlError::Anonymous(_))), "{error:?}");
        assert_eq!(error.effect(), Effect::None);
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(
            text.contains("allow-anonymous=true") && text.contains("password"),
            "{text}"
        );
    }
    let config = RedisConfig::from_url("redis://cache.example").unwrap();
    let error = Keeper::builder().connect_with(config).await.unwrap_err();
    assert!(matches!(&error, Error::Url(UrlError::Anonymous(_))), "{error:?}");
}
