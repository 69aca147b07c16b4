//! How a refused model call is told apart: the server's own refusals are marked, and a vendor's are named with what to do
//! about them.

use serde_json::{Value, json};

use crate::{
    app::answer,
    on_both,
    stand_in::{KEY, StandIn, behind, hello, whole},
};

on_both! { behind =>
    async fn the_server_s_own_refusals_are_marked_and_a_vendor_s_are_not(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let error = json!({ "type": "error", "error": { "type": "authentication_error", "message": "invalid x-api-key" } });
        let vendor = error.clone();
        stand_in.replies(move |_| {
            let mut response = whole(401, vendor.clone());
            // A vendor cannot speak in the server's name.
            response.headers_mut().insert("x-omoi-refused", "token_wrong".parse().unwrap());
            response
        });
        for (token, code) in [(sandbox.token.as_str(), None), ("omoi_sbx_wrong", Some("token_wrong"))] {
            let refused = answer(app.model_request(token, "/anthropic/v1/messages").json(&hello())).await;
            let marked = refused.headers.get("x-omoi-refused").map(|code| code.to_str().unwrap());
            assert_eq!((refused.status.as_u16(), marked), (401, code));
        }
        let chat = app.http.post(format!("{}/model/openai/v1/chat/completions", app.base)).bearer_auth(&app.token);
        let refused = answer(chat.json(&hello())).await;
        assert_eq!((refused.status.as_u16(), &refused.headers["x-omoi-refused"]), (403, &"sandbox_needed".parse().unwrap()));
    }

    async fn a_vendor_s_refusal_is_an_event_that_says_what_to_do(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let anthropic = |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message } });
        let openai = |code: Value, message: &str| json!({ "error": { "message": message, "code": code } });
        let credit = "Your credit balance is too low to access the Anthropic API.";
        for (path, status, body, failure, part) in [
            ("anthropic/v1/messages", 401, anthropic("authentication_error", "invalid x-api-key"), "key_invalid",
                "set model.anthropic_api_key (ANTHROPIC_API_KEY) to a valid key"),
            ("anthropic/v1/messages", 400, anthropic("invalid_request_error", credit), "no_credit", "add credit"),
            ("anthropic/v1/messages", 404, anthropic("not_found_error", "model: m"), "model_not_found", "worker.model"),
            ("anthropic/v1/messages", 529, anthropic("overloaded_error", "Overloaded"), "overloaded", "later"),
            ("openai/v1/chat/completions", 401, openai(json!("invalid_api_key"), KEY), "key_invalid", "OPENAI_API_KEY"),
            ("openai/v1/chat/completions", 429, openai(json!("insufficient_quota"), "pay"), "no_credit", "OPENAI_API_KEY"),
            ("openai/v1/chat/completions", 402, openai(json!(402), "Insufficient credits"), "no_credit", "add credit"),
            ("openai/v1/chat/completions", 429, openai(json!(429), "slow"), "rate_limited", "rate limit"),
        ] {
            stand_in.replies(move |_| whole(status, body.clone()));
            let request = app.model_request(&sandbox.token, &format!("/{path}")).json(&hello());
            assert_eq!(answer(request).await.status.as_u16(), status);
            let told = app.events_of(&sandbox, "model.call").await.pop().unwrap();
            assert_eq!((&told["status_code"], &told["failure"]), (&json!(status), &json!(failure)), "{told}");
            let advice = told["advice"].as_str().unwrap();
            assert!(advice.contains(part) && !advice.contains("token is still good"), "{advice}");
        }
        stand_in.replies(|_| whole(200, crate::stand_in::message(1, 1)));
        app.ask(&sandbox, &hello()).await.expect(200);
        let told = app.events_of(&sandbox, "model.call").await.pop().unwrap();
        assert!(told.get("failure").is_none_or(Value::is_null) && told.get("advice").is_none_or(Value::is_null), "{told}");
    }
}
