//! A SELECT whose conditions depend on what was asked for.

use super::value::Value;

pub(crate) struct Ask {
    sql: String,
    values: Vec<Value>,
    any: bool,
}

impl Ask {
    pub fn new(select: &str) -> Self {
        Self { sql: select.to_owned(), values: Vec::new(), any: false }
    }

    /// A condition without a value.
    pub fn raw(&mut self, condition: &str) {
        self.sql.push_str(if self.any { " AND " } else { " WHERE " });
        self.sql.push_str(condition);
        self.any = true;
    }

    /// `column op` against a value, where there is one.
    pub fn and_some(&mut self, condition: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.values.push(value.into());
            self.raw(&format!("{condition} ${}", self.values.len()));
        }
    }

    /// `(a, b) op` against a pair.
    pub fn and2(&mut self, condition: &str, first: Value, second: Value) {
        self.values.extend([first, second]);
        let n = self.values.len();
        self.raw(&format!("{condition} (${}, ${n})", n - 1));
    }

    /// All of them, in no order: for sums.
    pub fn all(self) -> (String, Vec<Value>) {
        (self.sql, self.values)
    }

    /// One row for each group.
    pub fn group_limit(mut self, group: &str, order: &str, limit: usize) -> (String, Vec<Value>) {
        self.sql.push_str(&format!(" GROUP BY {group}"));
        self.order_limit(order, limit)
    }

    pub fn order_limit(mut self, order: &str, limit: usize) -> (String, Vec<Value>) {
        self.values.push(limit.into());
        (format!("{} ORDER BY {order} LIMIT ${}", self.sql, self.values.len()), self.values)
    }
}
