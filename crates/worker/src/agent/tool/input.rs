//! What a model passes to a tool, taken apart field by field. Models make mistakes: each error names the field and
//! what belongs there.

use serde_json::Value;

/// As long as the kernel takes paths.
const PATH_BYTES_MAX: usize = 4096;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the input of {tool} has to be an object, this is {found}")]
    NoObject { tool: &'static str, found: &'static str },
    #[error("{tool} needs the field `{field}`; give {wanted}")]
    Missing { tool: &'static str, field: &'static str, wanted: &'static str },
    #[error("the field `{field}` of {tool} has to be {wanted}, this is {found}")]
    Type { tool: &'static str, field: &'static str, wanted: &'static str, found: &'static str },
    #[error("the field `{field}` of {tool} has {bytes} bytes, {max} are the most; {hint}")]
    TooLong { tool: &'static str, field: &'static str, bytes: usize, max: usize, hint: &'static str },
    #[error("the field `{field}` of {tool} has a zero byte in it; leave that out")]
    ZeroByte { tool: &'static str, field: &'static str },
    #[error("the field `{field}` of {tool} {wanted}")]
    Value { tool: &'static str, field: &'static str, wanted: String },
}

#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    tool: &'static str,
    fields: &'a serde_json::Map<String, Value>,
}

impl<'a> Input<'a> {
    pub fn new(tool: &'static str, input: &'a Value) -> Result<Self, Error> {
        let fields = input.as_object().ok_or_else(|| Error::NoObject { tool, found: kind(input) })?;
        Ok(Self { tool, fields })
    }

    pub fn text(&self, field: &'static str) -> Result<&'a str, Error> {
        self.text_or_none(field)?.ok_or(Error::Missing { tool: self.tool, field, wanted: "a string" })
    }

    pub fn text_or_none(&self, field: &'static str) -> Result<Option<&'a str>, Error> {
        self.get(field, "a string", Value::as_str)
    }

    pub fn path(&self, field: &'static str) -> Result<&'a str, Error> {
        self.path_or_none(field)?.ok_or(Error::Missing { tool: self.tool, field, wanted: "a path" })
    }

    /// Some models give an empty string where they mean nothing.
    pub fn words_or_none(&self, field: &'static str) -> Result<Option<&'a str>, Error> {
        Ok(self.text_or_none(field)?.filter(|text| !text.is_empty()))
    }

    pub fn path_or_none(&self, field: &'static str) -> Result<Option<&'a str>, Error> {
        let Some(path) = self.words_or_none(field)? else { return Ok(None) };
        self.bounded(field, path, PATH_BYTES_MAX, "no path is as long as that")?;
        self.without_zero(field, path)?;
        Ok(Some(path))
    }

    pub fn flag(&self, field: &'static str) -> Result<bool, Error> {
        self.flag_or(field, false)
    }

    pub fn flag_or(&self, field: &'static str, default: bool) -> Result<bool, Error> {
        Ok(self.get(field, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    pub fn number(&self, field: &'static str) -> Result<Option<u64>, Error> {
        self.get(field, "a whole number, zero or more", whole)
    }

    pub fn bounded(
        &self,
        field: &'static str,
        text: &str,
        max: usize,
        hint: &'static str,
    ) -> Result<(), Error> {
        if text.len() <= max {
            return Ok(());
        }
        Err(Error::TooLong { tool: self.tool, field, bytes: text.len(), max, hint })
    }

    pub fn without_zero(&self, field: &'static str, text: &str) -> Result<(), Error> {
        if text.contains('\0') { Err(Error::ZeroByte { tool: self.tool, field }) } else { Ok(()) }
    }

    /// For what no type can say.
    pub fn wrong(&self, field: &'static str, wanted: impl Into<String>) -> Error {
        Error::Value { tool: self.tool, field, wanted: wanted.into() }
    }

    fn get<T>(
        &self,
        field: &'static str,
        wanted: &'static str,
        take: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match take(value) {
                Some(taken) => Ok(Some(taken)),
                None => Err(Error::Type { tool: self.tool, field, wanted, found: kind(value) }),
            },
        }
    }
}

/// Some models write 5.0 where they mean 5.
fn whole(value: &Value) -> Option<u64> {
    let of_float =
        |float: f64| (float.fract() == 0.0 && (0.0..1e15).contains(&float)).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(of_float))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_named() {
        let value = json!({ "file_path": 7, "limit": 3.0, "offset": -1, "flag": "yes", "none": null, "zero": "a\u{0}b" });
        let input = Input::new("Read", &value).unwrap();
        assert_eq!(
            input.path("file_path").unwrap_err().to_string(),
            "the field `file_path` of Read has to be a string, this is a number"
        );
        assert_eq!(
            input.text("content").unwrap_err().to_string(),
            "Read needs the field `content`; give a string"
        );
        assert_eq!(input.number("limit"), Ok(Some(3)));
        assert!(input.number("offset").unwrap_err().to_string().contains("`offset`"));
        assert!(input.flag("flag").unwrap_err().to_string().contains("true or false"));
        assert_eq!((input.flag("none"), input.number("none")), (Ok(false), Ok(None)));
        assert_eq!(input.path("zero"), Err(Error::ZeroByte { tool: "Read", field: "zero" }));
        let long = json!({ "path": "x".repeat(10_000_000) });
        let error = Input::new("Glob", &long).unwrap().path_or_none("path").unwrap_err().to_string();
        assert!(error.contains("`path` of Glob has 10000000 bytes") && error.len() < 200, "{error}");
        assert!(Input::new("Read", &json!([1])).is_err());
    }
}
