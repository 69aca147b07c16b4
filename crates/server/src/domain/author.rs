//! In whose name a project's sandboxes commit: `git_author_name` and `git_author_email` of its settings.

use serde_json::{Map, Value as Json};

const CHARS_MAX: usize = 200;
/// Git takes these away at both ends of a name, and refuses one that has nothing else.
const CRUD: [char; 9] = ['.', ',', ':', ';', '<', '>', '"', '\\', '\''];

/// What is wrong with the name or the address that somebody wrote into a project's settings.
pub fn check(settings: &Map<String, Json>) -> Result<(), String> {
    let name = text(settings, "git_author_name")?;
    if name.is_some_and(|name| name.chars().all(|c| c.is_whitespace() || CRUD.contains(&c))) {
        return Err(format!("settings.git_author_name is {name:?}; it must have a letter or a number"));
    }
    let email = text(settings, "git_author_email")?;
    let is_address = |email: &str| {
        let parts = email.split_once('@');
        parts.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
            && !email.contains(char::is_whitespace)
    };
    match email {
        Some(email) if !is_address(email) => {
            Err(format!("settings.git_author_email is {email:?}; write it as name@example.com"))
        }
        _ => Ok(()),
    }
}

fn text<'a>(settings: &'a Map<String, Json>, key: &str) -> Result<Option<&'a str>, String> {
    let text = match settings.get(key) {
        None | Some(Json::Null) => return Ok(None),
        Some(value) => {
            value.as_str().ok_or_else(|| format!("settings.{key} is {value}; it must be a text"))?
        }
    };
    if text.chars().count() > CHARS_MAX || text.contains(|c: char| c.is_control() || matches!(c, '<' | '>')) {
        return Err(format!(
            "settings.{key} is {text:?}; it may have {CHARS_MAX} characters, none of them <, > or a control character"
        ));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_author_that_git_would_refuse_is_refused() {
        for (settings, words) in [
            (json!({}), None),
            (json!({ "git_author_name": null, "git_author_email": null }), None),
            (json!({ "git_author_name": "Ada Lovelace", "git_author_email": "ada@example.com" }), None),
            (json!({ "git_author_name": "愛" }), None),
            (json!({ "git_author_name": 7 }), Some("settings.git_author_name is 7; it must be a text")),
            (json!({ "git_author_name": " .," }), Some("it must have a letter or a number")),
            (json!({ "git_author_name": "" }), Some("it must have a letter or a number")),
            (json!({ "git_author_name": "a\nb" }), Some("a control character")),
            (json!({ "git_author_name": "a <b>" }), Some("none of them <, >")),
            (json!({ "git_author_name": "a".repeat(201) }), Some("it may have 200 characters")),
            (json!({ "git_author_email": "ada" }), Some("write it as name@example.com")),
            (json!({ "git_author_email": "a b@c" }), Some("write it as name@example.com")),
            (json!({ "git_author_email": "@" }), Some("write it as name@example.com")),
        ] {
            let checked = check(settings.as_object().unwrap());
            match words {
                None => assert_eq!(checked, Ok(()), "{settings}"),
                Some(words) => assert!(checked.unwrap_err().contains(words), "{settings}"),
            }
        }
    }
}
