//! Skills: instructions that are loaded when they are needed. A skill is a directory with a SKILL.md; the project's own come
//! before those that ship with the worker.

use std::path::Path;

use super::front::{Page, list};

/// Where a project keeps its own, the first wins.
const DIRS: [&str; 2] = [".omoi/skills", ".claude/skills"];
const SHIPPED: [(&str, &str); 2] = [
    ("find-the-cause", include_str!("../../skills/find-the-cause/SKILL.md")),
    ("guard-with-a-test", include_str!("../../skills/guard-with-a-test/SKILL.md")),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    body: String,
    /// Where its other files are; None for one that ships with the worker.
    dir: Option<String>,
}

impl Skill {
    pub fn all(workspace: &Path) -> Vec<Self> {
        let mut skills: Vec<Self> = Vec::new();
        let own = DIRS.iter().flat_map(|dir| list(&workspace.join(dir)));
        let own = own.filter_map(|dir| {
            let page = Page::read(&dir.join("SKILL.md"))?;
            Some(Self::of(&page, dir.file_name()?.to_str()?, Some(dir.display().to_string())))
        });
        let shipped = SHIPPED.iter().map(|(name, text)| Self::of(&Page::parse(text), name, None));
        for skill in own.chain(shipped) {
            if !skills.iter().any(|other| other.name == skill.name) {
                skills.push(skill);
            }
        }
        skills
    }

    fn of(page: &Page, name: &str, dir: Option<String>) -> Self {
        Self {
            name: page.get("name").unwrap_or(name).to_owned(),
            description: page.get("description").unwrap_or("no description").to_owned(),
            body: page.body.clone(),
            dir,
        }
    }

    /// What the agent reads when it asks for it.
    pub fn text(&self) -> String {
        match &self.dir {
            Some(dir) => format!("The files of this skill are in {dir}.\n\n{}", self.body),
            None => self.body.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_s_skills_come_first_and_hide_shipped_ones_of_the_same_name() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(".claude/skills/find-the-cause");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("SKILL.md"), "---\ndescription: ours\n---\nAsk Ada.").unwrap();
        let skills = Skill::all(dir.path());
        assert_eq!(skills.len(), SHIPPED.len());
        assert_eq!((skills[0].name.as_str(), skills[0].description.as_str()), ("find-the-cause", "ours"));
        assert!(skills[0].text().ends_with("Ask Ada.") && skills[0].text().contains(".claude/skills"));
        assert!(skills.iter().all(|skill| skill.description != "no description"));
    }
}
