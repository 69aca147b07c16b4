//! How calls to models fail, in one word for each way, and what a person can do about each. Vendors say it by a status, by
//! a type or code in their JSON, and sometimes in their messages alone; here is the one place that knows their words.

use serde_json::Value;

use crate::{ModelFailure, Vendor};

/// Marks a refusal of the server's own, and holds its code. No answer of a vendor has it.
pub const REFUSED_HEADER: &str = "x-omoi-refused";

/// Types and codes of vendors, the more telling ones first.
const WORDS: &[(&str, ModelFailure)] = &[
    ("insufficient_quota", ModelFailure::NoCredit),
    ("insufficient_credits", ModelFailure::NoCredit),
    ("insufficient_balance", ModelFailure::NoCredit),
    ("billing_error", ModelFailure::NoCredit),
    ("billing_not_active", ModelFailure::NoCredit),
    ("billing_hard_limit_reached", ModelFailure::NoCredit),
    ("exceeded_current_quota_error", ModelFailure::NoCredit),
    ("invalid_api_key", ModelFailure::KeyInvalid),
    ("incorrect_api_key", ModelFailure::KeyInvalid),
    ("api_key_invalid", ModelFailure::KeyInvalid),
    ("account_deactivated", ModelFailure::KeyInvalid),
    ("authentication_error", ModelFailure::KeyInvalid),
    ("invalid_authentication_error", ModelFailure::KeyInvalid),
    ("unauthorized", ModelFailure::KeyInvalid),
    ("context_length_exceeded", ModelFailure::ContextTooLong),
    ("string_above_max_length", ModelFailure::ContextTooLong),
    ("request_too_large", ModelFailure::ContextTooLong),
    ("content_policy_violation", ModelFailure::ContentRefused),
    ("content_filter", ModelFailure::ContentRefused),
    ("invalid_prompt", ModelFailure::ContentRefused),
    ("model_not_found", ModelFailure::ModelNotFound),
    ("deploymentnotfound", ModelFailure::ModelNotFound),
    ("not_found_error", ModelFailure::ModelNotFound),
    ("rate_limit_error", ModelFailure::RateLimited),
    ("rate_limit_exceeded", ModelFailure::RateLimited),
    ("overloaded_error", ModelFailure::Overloaded),
    ("overloaded", ModelFailure::Overloaded),
    ("engine_overloaded_error", ModelFailure::Overloaded),
    ("unsupported_country_region_territory", ModelFailure::NotAllowed),
    ("permission_error", ModelFailure::NotAllowed),
    ("permission_denied", ModelFailure::NotAllowed),
];

/// Phrases of vendors' messages where their types and codes say no more than that a request is refused.
const PHRASES: &[(&str, ModelFailure)] = &[
    ("credit balance", ModelFailure::NoCredit),
    ("insufficient credits", ModelFailure::NoCredit),
    ("insufficient balance", ModelFailure::NoCredit),
    ("requires more credits", ModelFailure::NoCredit),
    ("purchase credits", ModelFailure::NoCredit),
    ("exceeded your current quota", ModelFailure::NoCredit),
    ("billing details", ModelFailure::NoCredit),
    ("billing is not active", ModelFailure::NoCredit),
    ("api usage limits", ModelFailure::NoCredit),
    ("api key not valid", ModelFailure::KeyInvalid),
    ("invalid api key", ModelFailure::KeyInvalid),
    ("incorrect api key", ModelFailure::KeyInvalid),
    ("invalid x-api-key", ModelFailure::KeyInvalid),
    ("no auth credentials", ModelFailure::KeyInvalid),
    ("prompt is too long", ModelFailure::ContextTooLong),
    ("input is too long", ModelFailure::ContextTooLong),
    ("context length", ModelFailure::ContextTooLong),
    ("context limit", ModelFailure::ContextTooLong),
    ("context window", ModelFailure::ContextTooLong),
    ("context size", ModelFailure::ContextTooLong),
    ("maximum context", ModelFailure::ContextTooLong),
    ("too many tokens", ModelFailure::ContextTooLong),
    ("reduce the length of the messages", ModelFailure::ContextTooLong),
    ("content policy", ModelFailure::ContentRefused),
    ("content filtering policy", ModelFailure::ContentRefused),
    ("content management policy", ModelFailure::ContentRefused),
    ("usage policy", ModelFailure::ContentRefused),
    ("usage policies", ModelFailure::ContentRefused),
    ("requires moderation", ModelFailure::ContentRefused),
    ("not a valid model", ModelFailure::ModelNotFound),
    ("no endpoints found", ModelFailure::ModelNotFound),
    ("model not found", ModelFailure::ModelNotFound),
    ("model not exist", ModelFailure::ModelNotFound),
    ("model does not exist", ModelFailure::ModelNotFound),
    ("not supported model", ModelFailure::ModelNotFound),
];

/// The error in a body, however it is wrapped: `{"error": …}`, a list of it, the error itself, or text.
pub fn error_of(body: &[u8]) -> Value {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return Value::String(String::from_utf8_lossy(body).into_owned());
    };
    let value = match value {
        Value::Array(mut list) if !list.is_empty() => list.swap_remove(0),
        value => value,
    };
    match value.get("error") {
        // Some vendors put the code beside an error that is text alone.
        Some(Value::String(text)) => {
            serde_json::json!({ "message": text, "code": value.get("code"), "type": value.get("type") })
        }
        Some(error) if !error.is_null() => error.clone(),
        _ => value,
    }
}

impl ModelFailure {
    /// How a vendor refuses a call that it answers with this status and error; an error amid an answer has no status.
    pub fn of(status: Option<u16>, error: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
        let words = ["code", "type", "status"].map(|key| text(&error[key]));
        if let Some((_, failure)) = WORDS.iter().find(|(word, _)| words.iter().any(|said| said == word)) {
            return *failure;
        }
        // A gateway in between repeats what the vendor behind it said.
        let behind = text(&error["metadata"]["raw"]);
        let message = [text(error), text(&error["message"]), text(&error["detail"]), behind].join("\n");
        let by_phrase =
            || PHRASES.iter().find(|(phrase, _)| message.contains(phrase)).map(|(_, failure)| *failure);
        let told = status.or_else(|| error["code"].as_u64().and_then(|code| u16::try_from(code).ok()));
        match told {
            None | Some(400..=404 | 413 | 422 | 429) => by_phrase().unwrap_or_else(|| match told {
                Some(status) => Self::of_status(status),
                None if words.iter().any(|said| said == "invalid_request_error") => Self::InvalidRequest,
                None => Self::Unavailable,
            }),
            Some(status) => Self::of_status(status),
        }
    }

    fn of_status(status: u16) -> Self {
        match status {
            401 => Self::KeyInvalid,
            402 => Self::NoCredit,
            403 => Self::NotAllowed,
            404 => Self::ModelNotFound,
            413 => Self::ContextTooLong,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            408 | 409 | 500..600 => Self::Unavailable,
            _ => Self::InvalidRequest,
        }
    }

    /// The status that goes with it, where an error has none of its own.
    pub const fn status(self) -> u16 {
        match self {
            Self::KeyInvalid => 401,
            Self::NoCredit => 402,
            Self::RateLimited => 429,
            Self::ModelNotFound => 404,
            Self::NotAllowed => 403,
            Self::Overloaded => 529,
            Self::ContextTooLong => 413,
            Self::ContentRefused | Self::InvalidRequest => 400,
            Self::Unavailable => 500,
        }
    }

    /// Whether the same request may be answered later without anybody doing anything.
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::Unavailable)
    }

    /// What a person can do about it, and in which setting.
    pub fn advice(self, vendor: Vendor) -> String {
        let (name, key, base) = (vendor.name(), vendor.key_setting(), vendor.base_setting());
        match self {
            Self::KeyInvalid => {
                format!(
                    "the server's key for {name} is not valid; set {key} to a valid key and restart the server"
                )
            }
            Self::NoCredit => format!(
                "the account of the server's key for {name} has no credit or quota left; add credit in the billing \
                 settings of that account, or set {key} to the key of another account and restart the server"
            ),
            Self::RateLimited => format!(
                "the account of the server's key for {name} is over its rate limit; try again later, raise the limit of \
                 that account, or run fewer sandboxes at once (dispatch.max_live)"
            ),
            Self::ModelNotFound => format!(
                "{name} does not offer this model to the server's key; choose another model (worker.model, the project's \
                 settings.model, or model in the task's execution_config), or see whether {base} is right"
            ),
            Self::NotAllowed => format!(
                "the server's key for {name} may not do this; see what its account is allowed, or set {key} to another \
                 key and restart the server"
            ),
            Self::Overloaded => format!("{name} is overloaded; try again later, or choose another model"),
            Self::ContextTooLong => {
                "shorten the conversation, or choose a model with a larger context".to_owned()
            }
            Self::ContentRefused => format!(
                "{name} refuses the content by its policy; change what the task says, or choose another model"
            ),
            Self::InvalidRequest => {
                "check the agent's settings: model, wire (API format) and tools".to_owned()
            }
            Self::Unavailable => {
                format!("{name} answered with a server error; retry later, or check {base}")
            }
        }
    }
}

impl Vendor {
    /// The name of the vendor, and of the wire that compatible ones speak.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::Openai => "OpenAI",
        }
    }

    /// What its API is called in a sentence.
    pub const fn api(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic API",
            Self::Openai => "OpenAI API",
        }
    }

    /// The setting of the server that holds the key, with its variable.
    pub const fn key_setting(self) -> &'static str {
        match self {
            Self::Anthropic => "model.anthropic_api_key (ANTHROPIC_API_KEY)",
            Self::Openai => "model.openai_api_key (OPENAI_API_KEY)",
        }
    }

    /// The setting of the server that holds the API's address.
    pub const fn base_setting(self) -> &'static str {
        match self {
            Self::Anthropic => "model.anthropic_base_url",
            Self::Openai => "model.openai_base_url",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vendor_s_way_of_saying_it_is_known() {
        use ModelFailure::{
            ContentRefused, ContextTooLong, InvalidRequest, KeyInvalid, ModelNotFound, NoCredit, NotAllowed,
            Overloaded, RateLimited, Unavailable,
        };
        for (status, body, expected) in [
            // Anthropic.
            (
                401,
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
                KeyInvalid,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}"#,
                NoCredit,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01."}}"#,
                NoCredit,
            ),
            (402, r#"{"type":"error","error":{"type":"billing_error","message":"pay"}}"#, NoCredit),
            (
                403,
                r#"{"type":"error","error":{"type":"permission_error","message":"not for you"}}"#,
                NotAllowed,
            ),
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#,
                ModelNotFound,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"32 MB"}}"#,
                ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 212345 tokens"}}"#,
                ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
                ContentRefused,
            ),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"tools.0: Field required"}}"#,
                InvalidRequest,
            ),
            (429, r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#, RateLimited),
            (500, r#"{"error":{"type":"api_error","message":"Internal server error"}}"#, Unavailable),
            (529, r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded),
            // OpenAI.
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided: ***","type":"invalid_request_error","code":"invalid_api_key"}}"#,
                KeyInvalid,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                NoCredit,
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#,
                RateLimited,
            ),
            (
                404,
                r#"{"error":{"message":"The model `gpt-9` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
                ModelNotFound,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}"#,
                ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid prompt: flagged","type":"invalid_request_error","code":"invalid_prompt"}}"#,
                ContentRefused,
            ),
            (
                403,
                r#"{"error":{"message":"Country not supported","code":"unsupported_country_region_territory"}}"#,
                NotAllowed,
            ),
            // Those that speak its wire.
            (401, r#"{"error":{"code":401,"message":"No auth credentials found"}}"#, KeyInvalid),
            (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, NoCredit),
            (
                403,
                r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged"}}"#,
                ContentRefused,
            ),
            (404, r#"{"error":{"code":404,"message":"No endpoints found for a/b."}}"#, ModelNotFound),
            (400, r#"{"error":{"code":400,"message":"a/b is not a valid model ID"}}"#, ModelNotFound),
            (
                400,
                r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"Your credit balance is too low\"}}"}}}"#,
                NoCredit,
            ),
            (502, r#"{"error":{"code":502,"message":"Provider returned error"}}"#, Unavailable),
            (
                402,
                r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
                NoCredit,
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
                KeyInvalid,
            ),
            (
                400,
                r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: ***"}"#,
                KeyInvalid,
            ),
            (401, r#"{"message":"Unauthorized"}"#, KeyInvalid),
            // No JSON at all.
            (401, "<html>no</html>", KeyInvalid),
            (503, "busy", Overloaded),
            (418, "", InvalidRequest),
            // A status of the vendor's own trouble says more than its words do.
            (500, r#"{"error":{"message":"prompt is too long"}}"#, Unavailable),
        ] {
            assert_eq!(
                ModelFailure::of(Some(status), &error_of(body.as_bytes())),
                expected,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn an_error_amid_an_answer_is_known_by_its_words() {
        for (error, expected) in [
            (r#"{"type":"overloaded_error","message":"x"}"#, ModelFailure::Overloaded),
            (r#"{"type":"invalid_request_error","message":"x"}"#, ModelFailure::InvalidRequest),
            (
                r#"{"type":"invalid_request_error","message":"Your credit balance is too low"}"#,
                ModelFailure::NoCredit,
            ),
            (r#"{"code":502,"message":"Provider returned error"}"#, ModelFailure::Unavailable),
            (r#"{"code":402,"message":"x"}"#, ModelFailure::NoCredit),
            (r#""something""#, ModelFailure::Unavailable),
        ] {
            assert_eq!(ModelFailure::of(None, &error_of(error.as_bytes())), expected, "{error}");
        }
    }

    #[test]
    fn what_to_do_names_the_setting_in_which_it_is_done() {
        for vendor in [Vendor::Anthropic, Vendor::Openai] {
            for failure in [ModelFailure::KeyInvalid, ModelFailure::NoCredit, ModelFailure::NotAllowed] {
                let advice = failure.advice(vendor);
                assert!(advice.contains(vendor.key_setting()) && advice.contains(vendor.name()), "{advice}");
                assert!(advice.contains("restart") && !failure.may_pass(), "{advice}");
            }
            for failure in ModelFailure::ALL {
                let advice = failure.advice(vendor);
                assert!(!advice.contains("token is still good") && !advice.is_empty(), "{advice}");
                assert_eq!(
                    ModelFailure::of(Some(failure.status()), &Value::Null).may_pass(),
                    failure.may_pass()
                );
            }
        }
    }
}
