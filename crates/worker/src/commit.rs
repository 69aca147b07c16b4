pub enum Committed {
    Nothing,
    New { commit: String, files: u64 },
}
pub fn message(_: &str, _: Option<&str>, _: Option<&str>, _: &str, _: Option<&str>) -> String {
    String::new()
}
impl crate::workspace::Workspace<'_> {
    pub async fn commit(&self, _: &str) -> Result<Committed, crate::git::Error> {
        Ok(Committed::Nothing)
    }
}
