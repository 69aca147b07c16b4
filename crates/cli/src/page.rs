//! Lists: as many items as somebody wants, over as many pages as that takes.

use omoi_client::Error;
use omoi_protocol::page::Page;

use crate::Context;

/// The most that one page holds.
const PAGE_MAX: usize = 500;

#[derive(Debug, clap::Args)]
pub struct Limit {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

impl Limit {
    pub fn get(&self) -> usize {
        self.limit as usize
    }

    /// Says that there is more, where there is.
    pub fn tell<T>(&self, cx: &Context, page: &Page<T>) {
        if page.next.is_some() && !cx.out.is_json() {
            cx.out.note(&format!("more follow these {}; --limit shows them", page.items.len()));
        } else if page.items.is_empty() && !cx.out.is_json() {
            cx.out.note("nothing found");
        }
    }
}

/// Asks for page after page, each with a size and a cursor.
pub async fn collect<T>(
    limit: usize,
    fetch: impl AsyncFn(usize, Option<String>) -> Result<Page<T>, Error>,
) -> Result<Page<T>, Error> {
    collect_if(limit, |_| true, fetch).await
}

/// Those that are wanted, as many as that: what is left out does not count.
pub async fn collect_if<T>(
    limit: usize,
    wanted: impl Fn(&T) -> bool,
    fetch: impl AsyncFn(usize, Option<String>) -> Result<Page<T>, Error>,
) -> Result<Page<T>, Error> {
    let mut all = Page { items: Vec::new(), next: None };
    loop {
        let size = (limit - all.items.len()).min(PAGE_MAX);
        let mut page = fetch(size, all.next.take()).await?;
        // A page that is empty and yet not the last would be asked for without end.
        let last = page.items.is_empty() || page.next.is_none();
        page.items.truncate(size);
        all.items.extend(page.items.into_iter().filter(&wanted));
        all.next = page.next;
        if last || all.items.len() >= limit {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers below 1200, as a server pages them.
    async fn numbers(size: usize, cursor: Option<String>) -> Result<Page<usize>, Error> {
        let from = cursor.map_or(0, |cursor| cursor.parse::<usize>().unwrap() + 1);
        let rows: Vec<_> = (from..1200).take(size + 1).collect();
        Ok(Page::cut(rows, size, ToString::to_string))
    }

    #[tokio::test]
    async fn pages_are_walked_to_the_limit_or_the_end() {
        for (limit, count, more) in
            [(1, 1, true), (500, 500, true), (501, 501, true), (1200, 1200, false), (5000, 1200, false)]
        {
            let page = collect(limit, numbers).await.unwrap();
            assert_eq!((page.items.len(), page.next.is_some()), (count, more), "{limit}");
            assert!(page.items.iter().copied().eq(0..count));
        }
    }

    #[tokio::test]
    async fn what_is_not_wanted_takes_no_room_from_what_is() {
        let late = |number: &usize| *number >= 700;
        for (limit, count, more) in [(1, 1, true), (50, 50, true), (500, 500, false), (5000, 500, false)] {
            let page = collect_if(limit, late, numbers).await.unwrap();
            assert_eq!((page.items.len(), page.next.is_some()), (count, more), "{limit}");
            assert!(page.items.iter().copied().eq(700..700 + count));
        }
    }
}
