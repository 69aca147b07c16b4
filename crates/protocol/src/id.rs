//! Typed ids. Each is a short text that may be a path segment; a `TaskId` cannot stand where a `SandboxId` is meant.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The longest id that is accepted, in bytes.
pub const ID_BYTES_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an id has 1 to {ID_BYTES_MAX} letters, digits, '-', '_' or '.', and starts with a letter or digit")]
pub struct IdError;

/// Letters and digits of ASCII, `-`, `_` and `.`; never empty, never a relative path.
fn check(text: &str) -> Result<(), IdError> {
    let fits = (1..=ID_BYTES_MAX).contains(&text.len());
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if fits && starts_well && plain { Ok(()) } else { Err(IdError) }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "schema", schema(value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"))]
        pub struct $name(String);

        impl $name {
            /// A new id; ids made later sort later.
            pub fn generate() -> Self {
                Self(format!(concat!($prefix, "-{}"), uuid::Uuid::now_v7().simple()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                check(text).map(|()| Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                check(&text).map(|()| Self(text))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    ProjectId, "prj";
    TicketId, "tkt";
    SpecId, "spec";
    TaskId, "task";
    /// Names one attempt. An attached worker may bring its own.
    SandboxId, "sbx";
    MessageId, "msg";
    /// A command that somebody runs in a sandbox.
    CommandId, "cmd";
    /// A long-lived agent that somebody runs elsewhere.
    AgentId, "agent";
    ResultId, "res";
    ArtifactId, "art";
    TokenId, "tok";
    /// One line of the log of what sandboxes reached for.
    EgressId, "egr";
    /// Two branches, or two sandboxes, that cannot be brought together as they are.
    ConflictId, "cfl";
    /// Two tasks that seem to be the same work.
    DuplicateId, "dup";
    /// One look of the Conductor over all that is under way.
    AnalysisId, "ana";
    AnomalyId, "anm";
    /// One call to a model.
    CallId, "call";
    /// Something done by authority.
    ActionId, "act";
    DiagnosisId, "diag";
    /// Something that the Guardian found.
    FindingId, "fnd";
    /// Something that was done about it.
    InterventionId, "int";
    /// What a model thinks of it.
    JudgementId, "jdg";
}

/// An event's name: its place in the one order of everything that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String, pattern = "^evt-[0-9]{1,18}$"))]
pub struct EventId(pub i64);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "evt-{}", self.0)
    }
}

impl FromStr for EventId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix("evt-").ok_or(IdError)?;
        if digits.is_empty() || digits.len() > 18 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(IdError);
        }
        digits.parse().map(Self).map_err(|_| IdError)
    }
}

impl TryFrom<String> for EventId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_plain_segments_and_refuse_everything_else() {
        for good in ["sandbox-abc", "SBX-01", "a", "omoios-1234-abcdef", "spec_1.2"] {
            assert_eq!(good.parse::<SandboxId>().unwrap().as_str(), good);
        }
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for bad in ["", "..", ".hidden", "a/b", "a b", "a\0", "ü", "-x", "%2e", long.as_str()] {
            assert_eq!(bad.parse::<SandboxId>(), Err(IdError), "{bad:?}");
        }
    }

    #[test]
    fn generated_ids_sort_by_age() {
        let ids: Vec<_> = (0..100).map(|_| TaskId::generate()).collect();
        assert!(ids.is_sorted());
    }

    #[test]
    fn event_ids_round_trip_and_refuse_other_text() {
        assert_eq!("evt-42".parse(), Ok(EventId(42)));
        assert_eq!(EventId(42).to_string(), "evt-42");
        for bad in ["42", "evt-", "evt--1", "evt-+1", "evt-9999999999999999999", "evt-1x"] {
            assert_eq!(bad.parse::<EventId>(), Err(IdError), "{bad:?}");
        }
    }
}
