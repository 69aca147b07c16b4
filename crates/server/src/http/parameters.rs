//! Which query parameters each operation has, from the descriptions that the OpenAPI document is made of. A request with any other
//! is refused: a filter that is misspelled and passed over would answer with everything.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use axum::{
    extract::{MatchedPath, Query},
    http::{Method, request::Parts},
};
use serde_json::Value;
use utoipa::openapi::{
    RefOr, Schema,
    path::{Operation, ParameterIn},
};

use super::{
    openapi,
    problem::{ApiError, ApiResult},
};
use crate::nearest::nearest;

/// How much of a parameter's name an error repeats.
const NAME_CHARS_MAX: usize = 60;

/// Query parameters that clients of the earlier system send and the document does not describe, by path.
const EARLIER: &[(&str, &str)] = &[("/api/v1/specs", "project")];

/// One query parameter of an operation.
struct Known {
    name: String,
    /// All values it may have, if they are a fixed list.
    values: Vec<String>,
}

/// By path and method. They are collected when the first request with a query comes: a start does without them.
static KNOWN: LazyLock<HashMap<(String, Method), Vec<Known>>> = LazyLock::new(|| {
    let described = openapi::described();
    let schemas = described.components.map(|components| components.schemas).unwrap_or_default();
    let mut known = HashMap::new();
    for (path, item) in described.paths.paths {
        let operations = [
            (Method::GET, item.get),
            (Method::POST, item.post),
            (Method::PUT, item.put),
            (Method::PATCH, item.patch),
            (Method::DELETE, item.delete),
        ];
        for (method, operation) in operations {
            known.extend(operation.map(|operation| ((path.clone(), method), of(operation, &schemas))));
        }
    }
    known
});

type Schemas = BTreeMap<String, RefOr<Schema>>;

fn of(operation: Operation, schemas: &Schemas) -> Vec<Known> {
    let all = operation.parameters.into_iter().flatten();
    let described = all.filter_map(|one| match one {
        RefOr::T(one) if one.parameter_in == ParameterIn::Query => {
            let values = one.schema.map(|schema| values(&schema, schemas)).unwrap_or_default();
            Some(Known { name: one.name, values })
        }
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    described.collect()
}

fn values(schema: &RefOr<Schema>, schemas: &Schemas) -> Vec<String> {
    let named = match schema {
        RefOr::Ref(to) => to.ref_location.rsplit('/').next().and_then(|name| schemas.get(name)),
        RefOr::T(_) => Some(schema),
    };
    match named {
        Some(RefOr::T(Schema::Object(object))) => {
            let values = object.enum_values.iter().flatten().filter_map(Value::as_str);
            values.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Refuses a request with a query parameter that its operation does not have, or with one that is given twice.
pub fn check(parts: &Parts) -> ApiResult<()> {
    let given = pairs(parts)?;
    let Some(path) = parts.extensions.get::<MatchedPath>().filter(|_| !given.is_empty()) else {
        return Ok(());
    };
    let method = if parts.method == Method::HEAD { Method::GET } else { parts.method.clone() };
    // Routes that the document does not describe judge their queries themselves.
    let Some(known) = KNOWN.get(&(path.as_str().to_owned(), method)) else { return Ok(()) };
    for (at, (name, _)) in given.iter().enumerate() {
        let is_earlier = EARLIER.contains(&(path.as_str(), name.as_str()));
        if !is_earlier && !known.iter().any(|known| known.name == *name) {
            return Err(unknown(name, parts, path.as_str(), known));
        }
        if given[..at].iter().any(|(earlier, _)| earlier == name) {
            let detail = format!("the query parameter {name} is given more than once; give it once");
            return Err(ApiError::invalid("repeated_parameter", detail));
        }
    }
    Ok(())
}

/// The first value of a query parameter, before the query is parsed into a type.
pub fn value(parts: &Parts, name: &str) -> Option<String> {
    let mut given = pairs(parts).ok()?.into_iter();
    given.find(|(given, _)| given == name).map(|(_, value)| value)
}

fn pairs(parts: &Parts) -> ApiResult<Vec<(String, String)>> {
    let pairs = Query::try_from_uri(&parts.uri);
    pairs.map(|Query(pairs)| pairs).map_err(|bad| ApiError::invalid("invalid_query", bad.body_text()))
}

fn unknown(name: &str, parts: &Parts, path: &str, known: &[Known]) -> ApiError {
    let operation = format!("{} {path}", parts.method);
    let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
    let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
    let detail = match nearest(name, names.iter().copied()) {
        Some(nearest) => {
            let meant = known.iter().find(|known| known.name == nearest);
            let values = meant.map(|meant| meant.values.join(", ")).filter(|values| !values.is_empty());
            let values = values.map(|values| format!(" ({values})")).unwrap_or_default();
            let known = names.join(", ");
            format!(
                "{operation} has no query parameter {shown:?}; the nearest is {nearest:?}{values}; known: {known}"
            )
        }
        None => format!("{operation} has no query parameters; leave out {shown:?}"),
    };
    ApiError::invalid("unknown_parameter", detail)
}
