//! What the process tells about itself: logs on standard error, metrics for Prometheus, and, where it is configured, traces
//! for an OpenTelemetry collector.

use std::{
    io::{self, IsTerminal, stderr},
    sync::OnceLock,
    time::Duration,
};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use omoi_redact::Secrets;
use tokio_util::sync::CancellationToken;
use tracing::{Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{ParseError, filter_fn},
    layer::{Filter, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::config::LogFormat;

/// Upper bounds of the histograms whose name ends in `_seconds`: from a cached answer to a timed-out request.
const SECONDS_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// And of those that count things done together. Without bounds a histogram is kept as a sketch, which takes far more.
const ITEMS_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

const TIDY_PERIOD: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{filter:?} is not a log filter")]
    Filter { filter: String, source: ParseError },
    #[error("the log of this process was already set up")]
    AlreadySet,
    #[error("cannot send traces to {endpoint}")]
    Otlp { endpoint: String, source: Box<dyn std::error::Error + Send + Sync> },
}

/// Sends what is still to be sent when it is dropped; `main` holds it to the end.
#[must_use = "traces are sent on until this is dropped"]
#[derive(Debug, Default)]
pub struct Guard {
    provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

/// Sets up logs and traces for the whole process, once. Secrets are masked in both.
pub fn init(
    format: LogFormat,
    filter: &str,
    otlp_endpoint: Option<&str>,
    secrets: &Secrets,
) -> Result<Guard, Error> {
    let filter =
        EnvFilter::try_new(filter).map_err(|source| Error::Filter { filter: filter.to_owned(), source })?;
    let registry = tracing_subscriber::registry();
    let (set, guard) = match otlp_endpoint {
        Some(endpoint) => {
            let (traces, guard) = otlp::layer(endpoint, secrets.clone())?;
            let log = log_layer(format, secrets).with_filter(filter);
            (registry.with(traces.with_filter(traced())).with(log).try_init(), guard)
        }
        None => (registry.with(log_layer(format, secrets)).with(filter).try_init(), Guard::default()),
    };
    set.map_err(|_| Error::AlreadySet)?;
    Ok(guard)
}

/// What traces are made of, whatever the log shows: the spans of our own crates, which are all of level `debug` so that
/// they are not made where nobody listens, and what is logged within them.
fn traced<S>() -> impl Filter<S> {
    let ours = |of: &Metadata<'_>| {
        of.target().starts_with("omoi") && (of.is_span() || *of.level() <= tracing::Level::INFO)
    };
    filter_fn(ours).with_max_level_hint(LevelFilter::DEBUG)
}

fn log_layer<S>(format: LogFormat, secrets: &Secrets) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let secrets = secrets.clone();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(move || Masked { secrets: secrets.clone(), to: stderr() });
    match format {
        LogFormat::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
        // The library looks at NO_COLOR by itself, but not at whether anybody is there to see colours.
        LogFormat::Human if stderr().is_terminal() => layer.with_target(false).boxed(),
        LogFormat::Human => layer.with_target(false).with_ansi(false).boxed(),
    }
}

/// Writes without secrets. What is logged comes in one piece.
struct Masked<W> {
    secrets: Secrets,
    to: W,
}

impl<W: io::Write> io::Write for Masked<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.to.write_all(&self.secrets.bytes(text))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Keeps histograms that nobody fetches from growing, until stopped.
pub async fn tidy(stop: CancellationToken) {
    let mut period = tokio::time::interval(TIDY_PERIOD);
    while stop.run_until_cancelled(period.tick()).await.is_some() {
        metrics_handle().run_upkeep();
    }
}

/// The metrics of this process, as many times as it is asked for. `render` gives them as Prometheus reads them.
pub fn metrics_handle() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || {
        PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)
            .and_then(|builder| {
                builder.set_buckets_for_metric(Matcher::Suffix("_items".to_owned()), ITEMS_BUCKETS)
            })
            .expect("there are buckets")
            .install_recorder()
            .expect("nothing else installs a recorder")
    };
    HANDLE.get_or_init(install).clone()
}

mod otlp {
    use std::{borrow::Cow, time::Duration};

    use omoi_redact::Secrets;
    use opentelemetry::{KeyValue, Value, trace::TracerProvider as _};
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
    use opentelemetry_sdk::{
        Resource,
        error::OTelSdkResult,
        trace::{SdkTracer, SdkTracerProvider, SpanData, SpanExporter as Exporter},
    };
    use tracing::{Subscriber, warn};
    use tracing_opentelemetry::OpenTelemetryLayer;
    use tracing_subscriber::registry::LookupSpan;

    use super::{Error, Guard};

    /// The exporter works on a thread of its own, so that a slow collector holds up nothing else.
    pub fn layer<S>(
        endpoint: &str,
        secrets: Secrets,
    ) -> Result<(OpenTelemetryLayer<S, SdkTracer>, Guard), Error>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        // The HTTP client panics in a process without one. Whoever comes second is told that there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .build()
            .map_err(|source| Error::Otlp { endpoint: endpoint.to_owned(), source: source.into() })?;
        let provider = SdkTracerProvider::builder()
            .with_resource(Resource::builder().with_service_name("omoi").build())
            .with_batch_exporter(Masked { secrets, to: exporter })
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("omoi"));
        Ok((layer, Guard { provider: Some(provider) }))
    }

    /// Sends spans on without secrets.
    #[derive(Debug)]
    struct Masked {
        secrets: Secrets,
        to: SpanExporter,
    }

    impl Masked {
        fn mask(&self, attributes: &mut [KeyValue]) {
            for attribute in attributes {
                if let Value::String(text) = &attribute.value
                    && let Cow::Owned(clean) = self.secrets.text(text.as_str())
                {
                    attribute.value = Value::String(clean.into());
                }
            }
        }
    }

    impl Exporter for Masked {
        async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
            for span in &mut batch {
                self.mask(&mut span.attributes);
                for event in &mut span.events.events {
                    self.mask(&mut event.attributes);
                    event.name = Cow::Owned(self.secrets.text(&event.name).into_owned());
                }
            }
            self.to.export(batch).await
        }

        fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
            self.to.shutdown_with_timeout(timeout)
        }

        fn force_flush(&self) -> OTelSdkResult {
            self.to.force_flush()
        }

        fn set_resource(&mut self, resource: &Resource) {
            self.to.set_resource(resource);
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            if let Some(Err(error)) = self.provider.as_ref().map(SdkTracerProvider::shutdown) {
                warn!(%error, "could not send the last traces");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn metrics_are_rendered_however_often_the_handle_is_asked_for() {
        let first = metrics_handle();
        metrics::counter!("omoi_test_total").increment(2);
        metrics::histogram!("omoi_test_seconds").record(0.003);
        metrics::histogram!("omoi_test_items").record(3.0);
        for text in [first.render(), metrics_handle().render()] {
            assert!(text.contains("omoi_test_total 2"), "{text}");
            assert!(text.contains(r#"omoi_test_seconds_bucket{le="0.005"} 1"#), "{text}");
            assert!(text.contains(r#"omoi_test_items_bucket{le="4"} 1"#), "{text}");
        }
    }

    #[test]
    fn a_bad_filter_is_named() {
        let error = init(LogFormat::Human, "a=b=c", None, &Config::default().secrets()).unwrap_err();
        assert_eq!(error.to_string(), r#""a=b=c" is not a log filter"#);
    }

    #[test]
    fn dropping_the_guard_sends_the_last_span() {
        use std::io::{Read as _, Write as _};

        let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", collector.local_addr().unwrap());
        let request = std::thread::spawn(move || {
            let (mut stream, _) = collector.accept().unwrap();
            let mut bytes = vec![0; 16 * 1024];
            let read = stream.read(&mut bytes).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            String::from_utf8_lossy(&bytes[..read]).into_owned()
        });
        let (layer, guard) = otlp::layer(&endpoint, Config::default().secrets()).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info_span!("claim task").in_scope(|| ());
        });
        drop(guard);
        assert!(request.join().unwrap().starts_with("POST /v1/traces HTTP/1.1"));
    }
}
