#[derive(Default)]
pub struct Mcp;
impl Mcp {
    pub async fn start(
        _: &std::collections::BTreeMap<String, omoi_protocol::launch::McpServer>,
        _: &std::collections::BTreeMap<String, String>,
        _: &std::path::Path,
        _: &mut (dyn FnMut(String) + Send),
    ) -> Self {
        Self
    }
    pub fn specs(&self) -> Vec<super::talk::ToolSpec> {
        vec![]
    }
    pub async fn call(
        &self,
        _: &str,
        _: &serde_json::Value,
        _: std::time::Duration,
    ) -> Result<(String, bool), String> {
        Err(String::new())
    }
}
