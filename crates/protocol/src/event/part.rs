//! The parts that event data is made of: fields that several kinds share, and field types that keep what was
//! written.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};

/// A group of fields that can be taken out of a JSON object and put back.
///
/// Hand-made rather than derived with `flatten`, because it keeps the difference between an absent field and
/// a null one (the null stays behind with the unknown fields) and because a hundred derived `flatten`s are
/// slow to compile.
pub(super) trait Part: Sized {
    fn fields() -> Vec<&'static str>;
    fn take(object: &mut Map<String, Value>) -> serde_json::Result<Self>;
    fn put(&self, object: &mut Map<String, Value>);
}

pub(super) fn take<T: DeserializeOwned>(
    object: &mut Map<String, Value>,
    field: &str,
) -> serde_json::Result<Option<T>> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => object.remove(field).map(serde_json::from_value).transpose(),
    }
}

pub(super) fn put<T: Serialize>(object: &mut Map<String, Value>, field: &str, value: Option<&T>) {
    if let Some(value) = value {
        let value =
            serde_json::to_value(value).expect("a field's type has only text keys and finite numbers");
        object.insert(field.to_owned(), value);
    }
}

macro_rules! parts {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($field:ident: $type:ty),+ $(,)? }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub struct $name {
            $(pub $field: Option<$type>,)+
        }

        impl Part for $name {
            fn fields() -> Vec<&'static str> {
                vec![$(stringify!($field)),+]
            }

            fn take(object: &mut Map<String, Value>) -> serde_json::Result<Self> {
                Ok(Self { $($field: take(object, stringify!($field))?,)+ })
            }

            fn put(&self, object: &mut Map<String, Value>) {
                $(put(object, stringify!($field), self.$field.as_ref());)+
            }
        }
    )*};
}

parts! {
    /// What every event says of its origin, as the worker wrote it. It is text, not ids, because earlier
    /// workers send "" for none; and nothing is decided by it: whose event it is follows from the token that
    /// brought it.
    Common { task_id: String, agent_id: String, sandbox_id: String, spec_id: String }

    /// Where a run of several iterations stands. Its fields lie beside the event's own.
    IterationState {
        iteration_num: u64,
        successful_iterations: u64,
        error_count: u64,
        total_cost_usd: Decimal,
        completion_signal_count: u64,
        elapsed_seconds: Decimal,
        last_session_id: String,
        validation_passed: bool,
        tests_passed: bool,
        code_committed: bool,
        code_pushed: bool,
        pr_created: bool,
        pr_url: String,
        pr_number: u64,
        files_changed: Value,
        ci_status: Value,
    }
}

/// A number as it was written: `0` does not become `0.0` on its way through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = f64))]
pub struct Decimal(Number);

impl Decimal {
    /// None for what JSON cannot write: infinities and NaN.
    pub fn new(value: f64) -> Option<Self> {
        Number::from_f64(value).map(Self)
    }

    pub fn get(&self) -> f64 {
        self.0.as_f64().expect("a JSON number of 64 bits has a nearest f64")
    }
}

/// Words that may grow: one that this version does not know is kept in `Other`.
macro_rules! open_words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $name {
            $($variant,)+
            Other(String),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Other(word),
                }
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                match word {
                    $name::Other(word) => word,
                    known => known.as_str().to_owned(),
                }
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                String::schema()
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
    )*};
}

open_words! {
    /// What became of a file.
    FileChange { Created = "created", Modified = "modified", Deleted = "deleted", Renamed = "renamed" }

    /// Where a command wrote to.
    CommandStream { Stdout = "stdout", Stderr = "stderr" }

    /// Why the agent's stream broke.
    StreamErrorType {
        StreamInit = "stream_init",
        Sigkill = "sigkill",
        CommandFailed = "command_failed",
        Unknown = "unknown",
    }

    /// Why a run of several iterations ended.
    ContinuousStop {
        ValidationPassed = "validation_passed",
        CompletionSignal = "completion_signal",
        MaxIterationsReached = "max_iterations_reached",
        MaxCostReached = "max_cost_reached",
        MaxDurationReached = "max_duration_reached",
        ConsecutiveErrors = "consecutive_errors",
        ShutdownSignal = "shutdown_signal",
        Unknown = "unknown",
    }
}
