//! Paging, as every list takes it.

use omoi_protocol::page::Page;
use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::{ApiError, ApiResult};
use crate::store::Portion;

const LIMIT_MAX: i64 = 500;
const LIMIT_DEFAULT: i64 = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// How many at most.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<i64>,
    /// `next` of the page before.
    cursor: Option<String>,
}

impl Paging {
    pub fn limit(&self) -> ApiResult<usize> {
        limit(self.limit, LIMIT_DEFAULT, LIMIT_MAX)
    }

    pub fn cursor<T: std::str::FromStr>(&self) -> ApiResult<Option<T>> {
        let parse = |text: &String| {
            text.parse()
                .map_err(|_| ApiError::invalid("invalid_cursor", "the cursor is not one that a page named"))
        };
        self.cursor.as_ref().map(parse).transpose()
    }
}

pub fn limit(asked: Option<i64>, default: i64, max: i64) -> ApiResult<usize> {
    super::check::range("limit", asked, 1, max).map_err(|why| ApiError::invalid("validation_failed", why))?;
    Ok(usize::try_from(asked.unwrap_or(default)).unwrap_or(1))
}

/// As many as went together.
pub fn portion<T>(portion: Portion<T>, key: impl Fn(&T) -> String) -> axum::Json<Page<T>> {
    let next = portion.rows.last().filter(|_| !portion.is_last).map(key);
    axum::Json(Page { items: portion.rows, next })
}

/// Rows read with one more than the limit.
pub fn cut<T>(rows: Vec<T>, limit: usize, key: impl Fn(&T) -> String) -> axum::Json<Page<T>> {
    axum::Json(Page::cut(rows, limit, key))
}
