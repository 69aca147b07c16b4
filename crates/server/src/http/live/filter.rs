//! What a viewer wants to hear of: lists of words; one of each list must fit.

use omoi_protocol::live::Subscribe;
use serde::Serialize;

use super::{LiveQuery, WORDS_MAX};
use crate::bus::Live;

#[derive(Debug, Default, Serialize)]
pub struct Filter {
    event_types: Option<Vec<String>>,
    entity_types: Option<Vec<String>>,
    entity_ids: Option<Vec<String>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the filters have {0} words; {WORDS_MAX} are allowed")]
pub struct TooManyWords(usize);

impl Filter {
    pub fn asked(query: &LiveQuery) -> Result<Self, TooManyWords> {
        let list = |text: &Option<String>| {
            text.as_ref().map(|text| {
                text.split(',').map(|word| word.trim().to_owned()).filter(|w| !w.is_empty()).collect()
            })
        };
        Self {
            event_types: list(&query.event_types),
            entity_types: list(&query.entity_types),
            entity_ids: list(&query.entity_ids),
        }
        .bounded()
    }

    pub fn said(
        Subscribe { event_types, entity_types, entity_ids, .. }: Subscribe,
    ) -> Result<Self, TooManyWords> {
        Self { event_types, entity_types, entity_ids }.bounded()
    }

    /// Every word is looked at for every event.
    fn bounded(self) -> Result<Self, TooManyWords> {
        let lists = [&self.event_types, &self.entity_types, &self.entity_ids];
        match lists.into_iter().flatten().map(Vec::len).sum() {
            0..=WORDS_MAX => Ok(self),
            words => Err(TooManyWords(words)),
        }
    }

    pub fn wants(&self, row: &Live) -> bool {
        let one = |list: &Option<Vec<String>>, word: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|w| w == word))
        };
        one(&self.entity_types, &row.entry.entity_type)
            && one(&self.entity_ids, &row.entry.entity_id)
            && (self.event_types.is_none() || one(&self.event_types, &row.event_type()))
    }
}
