//! One page of a list. Every list is paged by key, with a maximum.

use serde::{Deserialize, Serialize};

/// `next` asks for the following page as `cursor`; it is absent on the last one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Cuts rows that were read with one more than `limit` to a page, naming the last one kept as its cursor.
    pub fn cut(mut rows: Vec<T>, limit: usize, key: impl Fn(&T) -> String) -> Self {
        let next = if rows.len() > limit {
            rows.truncate(limit);
            rows.last().map(key)
        } else {
            None
        };
        Self { items: rows, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_a_next_one_only_when_rows_are_left() {
        let cut = |rows: Vec<i32>| Page::cut(rows, 2, ToString::to_string);
        assert_eq!((cut(vec![1, 2, 3]).items, cut(vec![1, 2, 3]).next), (vec![1, 2], Some("2".to_owned())));
        assert_eq!((cut(vec![1, 2]).items, cut(vec![1, 2]).next), (vec![1, 2], None));
        assert_eq!(cut(vec![]).next, None);
    }
}
