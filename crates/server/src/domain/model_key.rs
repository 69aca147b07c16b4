//! Whether the model that an agent asks can be called at all. A vendor's model needs the vendor's key; a model that plays
//! a scenario needs none.

use std::fmt;

use omoi_protocol::{
    Vendor,
    launch::{AgentLaunch, Wire},
};

/// Models whose names begin so are played by the server and go to no vendor.
pub const SCRIPTED: &str = "scripted";

/// Which vendors' keys the server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub anthropic: bool,
    pub openai: bool,
}

/// A model that cannot be called, because its vendor's key is not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKey {
    pub vendor: Vendor,
    pub model: String,
}

/// Whether a model of this name is played by the server, and nothing is sent to a vendor.
pub fn is_scripted(model: &str) -> bool {
    model.strip_prefix(SCRIPTED).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Keys {
    pub const ALL: Self = Self { anthropic: true, openai: true };

    fn has(self, vendor: Vendor) -> bool {
        match vendor {
            Vendor::Anthropic => self.anthropic,
            Vendor::Openai => self.openai,
        }
    }

    /// The key that an agent's model needs and the server does not have.
    pub fn missing(self, agent: &AgentLaunch) -> Option<MissingKey> {
        let model = agent.model.as_deref().filter(|model| !is_scripted(model))?;
        let vendor = agent.wire.unwrap_or_else(|| Wire::of_model(model)).vendor();
        (!self.has(vendor)).then(|| MissingKey { vendor, model: model.to_owned() })
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, name, key) = (&self.model, self.vendor.name(), self.vendor.key_setting());
        write!(
            f,
            "its model {model} needs a key for {name}, and the server has none; set {key} and restart the server, or \
             choose another model (scripted/binomial needs no key)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_needs_the_key_of_the_vendor_whose_wire_it_is_asked_on() {
        let (none, both) = (Keys { anthropic: false, openai: false }, Keys::ALL);
        let one = Keys { anthropic: true, openai: false };
        for (model, wire, keys, missing) in [
            ("claude-sonnet-4-5", None, none, Some(Vendor::Anthropic)),
            ("claude-sonnet-4-5", None, one, None),
            ("gpt-5", None, none, Some(Vendor::Openai)),
            ("gpt-5", None, one, Some(Vendor::Openai)),
            ("gpt-5", None, both, None),
            ("gpt-5", Some(Wire::Messages), one, None),
            ("claude-sonnet-4-5", Some(Wire::Chat), one, Some(Vendor::Openai)),
            ("scripted/binomial", None, none, None),
            ("scripted/binomial", Some(Wire::Chat), none, None),
            ("scripted", None, none, None),
            ("scriptedly", None, none, Some(Vendor::Openai)),
        ] {
            let agent = AgentLaunch { model: Some(model.to_owned()), wire, ..AgentLaunch::default() };
            let found = keys.missing(&agent);
            assert_eq!(found.as_ref().map(|found| found.vendor), missing, "{model} {wire:?} {keys:?}");
            if let Some(found) = found {
                let text = found.to_string();
                assert!(text.contains(model) && text.contains(found.vendor.key_setting()), "{text}");
            }
        }
        assert_eq!(none.missing(&AgentLaunch { model: None, ..AgentLaunch::default() }), None);
    }
}
