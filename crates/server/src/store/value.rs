//! Values that go into and come out of SQL, the same for both databases.

use std::{rc::Rc, str::FromStr};

use jiff::Timestamp;

use super::Error;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A list to compare with by `= ANY($n)` or `<> ALL($n)`.
    Texts(Vec<String>),
    /// A list of numbers to compare with, or on PostgreSQL a whole column of new rows.
    Ints(Vec<Option<i64>>),
}

/// Values by position: `params![id, now]`.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::store::value::Value::from($value)),*]
    };
}
pub(crate) use params;

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Int(i64::from(b))
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Self::Real(x)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(without_nul(text))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts.into_iter().map(without_nul).collect())
    }
}

/// PostgreSQL keeps no NUL in a text. What people send is refused where it comes in; what programs say, such as the last
/// lines of a log, is kept with the sign for what cannot be shown.
pub(super) fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Int(time.as_microsecond())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! as_text {
    ($($type:ty),* $(,)?) => {$(
        impl From<&$type> for Value {
            fn from(value: &$type) -> Self {
                Self::Text(value.as_str().to_owned())
            }
        }
    )*};
}

as_text!(
    omoi_protocol::ProjectId,
    omoi_protocol::TicketId,
    omoi_protocol::SpecId,
    omoi_protocol::TaskId,
    omoi_protocol::SandboxId,
    omoi_protocol::MessageId,
    omoi_protocol::CommandId,
    omoi_protocol::AgentId,
    omoi_protocol::ResultId,
    omoi_protocol::ArtifactId,
    omoi_protocol::TokenId,
    omoi_protocol::EgressId,
    omoi_protocol::CallId,
    omoi_protocol::ActionId,
    omoi_protocol::DiagnosisId,
    omoi_protocol::ConflictId,
    omoi_protocol::DuplicateId,
    omoi_protocol::AnalysisId,
    omoi_protocol::AnomalyId,
    omoi_protocol::FindingId,
    omoi_protocol::InterventionId,
    omoi_protocol::JudgementId,
);

/// One row of an answer.
#[derive(Debug, Clone)]
pub struct Row {
    pub(super) columns: Rc<[String]>,
    pub(super) values: Vec<Value>,
}

impl Row {
    fn value(&self, column: &str) -> Result<&Value, Error> {
        let at = self.columns.iter().position(|c| c == column);
        at.and_then(|at| self.values.get(at)).ok_or_else(|| Error::corrupt(column, "no such column"))
    }

    fn value_mut(&mut self, column: &str) -> Result<&mut Value, Error> {
        let at = self.columns.iter().position(|c| c == column);
        at.and_then(|at| self.values.get_mut(at)).ok_or_else(|| Error::corrupt(column, "no such column"))
    }

    pub(super) fn take(&mut self, column: &str) -> Result<Value, Error> {
        Ok(std::mem::replace(self.value_mut(column)?, Value::Null))
    }

    pub(super) fn put(&mut self, column: &str, value: Value) -> Result<(), Error> {
        *self.value_mut(column)? = value;
        Ok(())
    }

    pub fn get<T: FromValue>(&self, column: &str) -> Result<T, Error> {
        let value = self.value(column)?;
        T::from_value(value).ok_or_else(|| Error::corrupt(column, "of another type"))
    }

    /// A text that spells an id or a word.
    pub fn parse<T: FromStr>(&self, column: &str) -> Result<T, Error> {
        self.text(column)?
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::corrupt(column, "not readable"))
    }

    pub fn parse_opt<T: FromStr>(&self, column: &str) -> Result<Option<T>, Error> {
        let text = self.text(column)?;
        text.map(|t| t.parse().map_err(|_| Error::corrupt(column, "not readable"))).transpose()
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self, column: &str) -> Result<T, Error> {
        let text = self.text(column)?.unwrap_or_default();
        serde_json::from_str(text).map_err(|_| Error::corrupt(column, "not JSON"))
    }

    fn text(&self, column: &str) -> Result<Option<&str>, Error> {
        match self.value(column)? {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            _ => Err(Error::corrupt(column, "of another type")),
        }
    }
}

pub trait FromValue: Sized {
    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Int(n) = value { Some(*n) } else { None }
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value).map(|n| n != 0)
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Real(x) => Some(*x),
            Value::Int(n) => Some(*n as f64),
            _ => None,
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.clone()) } else { None }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bytes(bytes) = value { Some(bytes.clone()) } else { None }
    }
}

impl FromValue for Timestamp {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value).and_then(|n| Timestamp::from_microsecond(n).ok())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        if *value == Value::Null { Some(None) } else { T::from_value(value).map(Some) }
    }
}
