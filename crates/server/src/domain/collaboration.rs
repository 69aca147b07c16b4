//! Who may talk to whom: the setting `collaboration` of a project.

use omoi_protocol::Collaboration;
use serde_json::{Map, Value as Json};

const SETTING: &str = "collaboration";

/// Anybody within the project where nothing is said. What cannot be read allows nothing.
pub fn rule(settings: &Map<String, Json>) -> Collaboration {
    match settings.get(SETTING) {
        None | Some(Json::Null) => Collaboration::Project,
        Some(word) => serde_json::from_value(word.clone()).unwrap_or(Collaboration::Off),
    }
}

/// What is wrong with the setting, naming it.
pub fn check(settings: &Map<String, Json>) -> Result<(), String> {
    match settings.get(SETTING) {
        None | Some(Json::Null) => Ok(()),
        Some(word) if serde_json::from_value::<Collaboration>(word.clone()).is_ok() => Ok(()),
        Some(word) => Err(format!("settings.{SETTING} is {word}; it must be off, related or project")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_is_allowed_and_what_cannot_be_read_is_not() {
        let cases = [
            (json!({}), Collaboration::Project, true),
            (json!({ "collaboration": "related" }), Collaboration::Related, true),
            (json!({ "collaboration": "off" }), Collaboration::Off, true),
            (json!({ "collaboration": "everybody" }), Collaboration::Off, false),
            (json!({ "collaboration": true }), Collaboration::Off, false),
        ];
        for (settings, expected, valid) in cases {
            let settings = settings.as_object().unwrap();
            assert_eq!((rule(settings), check(settings).is_ok()), (expected, valid), "{settings:?}");
        }
    }
}
