//! Branch names: `fix/42-login-loops`. A name is made once per task; every later attempt works on the same
//! branch.

use omoi_protocol::{Priority, TicketType};

const SLUG_CHARS_MAX: usize = 25;
const LABEL_CHARS_MAX: usize = 40;
const NAME_BYTES_MAX: usize = 200;
/// Namesakes that are told apart by a number.
const NUMBERED_MAX: u32 = 64;

/// What a branch is numbered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    /// The ticket's number in its project.
    Ticket(u32),
    /// A short id, for a task that has no ticket.
    Task(&'a str),
}

pub fn name(kind: TicketType, priority: Priority, label: Label<'_>, title: &str) -> String {
    let prefix = prefix(kind, priority);
    let label = match label {
        Label::Ticket(number) => number.to_string(),
        Label::Task(id) => {
            Some(slug(id, LABEL_CHARS_MAX)).filter(|id| !id.is_empty()).unwrap_or("task".to_owned())
        }
    };
    let slug = slug(title, SLUG_CHARS_MAX);
    if slug.is_empty() { format!("{prefix}/{label}") } else { format!("{prefix}/{label}-{slug}") }
}

/// The branch that holds all tasks of a spec, which a few characters of its id tell from others of the same title.
pub fn of_spec(title: &str, id: &str) -> String {
    let short = slug(&id[id.len().saturating_sub(6)..], LABEL_CHARS_MAX);
    let slug = slug(title, LABEL_CHARS_MAX);
    if slug.is_empty() { format!("spec/{short}") } else { format!("spec/{slug}-{short}") }
}

/// The name itself, `name-2`, `name-3` and so on.
pub fn candidates(name: &str) -> impl Iterator<Item = String> {
    let numbered = (2..=NUMBERED_MAX).map(move |number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered)
}

/// The first of these that is free; where none is, the end of the task's id tells it from all others.
pub fn unique(name: &str, id_end: &str, taken: impl Fn(&str) -> bool) -> String {
    candidates(name)
        .find(|name| !taken(name))
        .unwrap_or_else(|| format!("{name}-{}", slug(id_end, LABEL_CHARS_MAX)))
}

/// The rules of `git check-ref-format --branch`, and a length that fits a file name with what Git adds to it.
pub fn is_valid(name: &str) -> bool {
    let forbidden = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !matches!(name, "@" | "HEAD")
        && !name.starts_with(['-', '/'])
        && !name.contains(forbidden)
        && !["..", "@{", "//"].iter().any(|part| name.contains(part))
        && !name.ends_with(['/', '.'])
        && name.split('/').all(|part| !part.starts_with('.') && !part.ends_with(".lock"))
}

fn prefix(kind: TicketType, priority: Priority) -> &'static str {
    match kind {
        TicketType::Bug if priority == Priority::Critical => "hotfix",
        TicketType::Bug => "fix",
        TicketType::Feature => "feature",
        TicketType::Refactor => "refactor",
        TicketType::Docs => "docs",
        TicketType::Test => "test",
        TicketType::Chore => "chore",
    }
}

/// The words of a text in `a-z0-9`, joined by single hyphens. Letters of other scripts and apostrophes drop
/// out of their word; everything else ends it.
fn slug(text: &str, chars_max: usize) -> String {
    let mut slug = String::with_capacity(chars_max);
    let mut word_ended = false;
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            if word_ended && !slug.is_empty() {
                slug.push('-');
            }
            word_ended = false;
            slug.push(c.to_ascii_lowercase());
        } else if !(c.is_alphanumeric() || matches!(c, '\'' | '’')) {
            word_ended = true;
        }
        if slug.len() >= chars_max {
            break;
        }
    }
    slug.truncate(chars_max);
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket(title: &str) -> String {
        name(TicketType::Feature, Priority::Medium, Label::Ticket(42), title)
    }

    #[test]
    fn the_prefix_follows_type_and_priority() {
        let table = [
            (TicketType::Feature, Priority::Medium, "feature"),
            (TicketType::Feature, Priority::Critical, "feature"),
            (TicketType::Bug, Priority::High, "fix"),
            (TicketType::Bug, Priority::Critical, "hotfix"),
            (TicketType::Refactor, Priority::Low, "refactor"),
            (TicketType::Docs, Priority::Critical, "docs"),
            (TicketType::Test, Priority::Medium, "test"),
            (TicketType::Chore, Priority::Medium, "chore"),
        ];
        for (kind, priority, prefix) in table {
            assert_eq!(
                name(kind, priority, Label::Ticket(7), "Go"),
                format!("{prefix}/7-go"),
                "{kind} {priority}"
            );
        }
    }

    #[test]
    fn titles_become_short_plain_slugs() {
        let table = [
            ("Login loops", "feature/42-login-loops"),
            ("  --Don't  panic!! ", "feature/42-dont-panic"),
            ("snake_case/and.dots", "feature/42-snake-case-and-dots"),
            ("A title that is far too long for a branch", "feature/42-a-title-that-is-far-too-l"),
            ("aaaaaaaaaaaaaaaaaaaaaaaa bbb", "feature/42-aaaaaaaaaaaaaaaaaaaaaaaa"),
            ("naïve café", "feature/42-nave-caf"),
            ("修正", "feature/42"),
            ("🦀", "feature/42"),
            ("", "feature/42"),
            ("..", "feature/42"),
            ("a..b@{c}.lock", "feature/42-a-b-c-lock"),
            ("x\0y\nz\u{7f}", "feature/42-x-y-z"),
        ];
        for (title, expected) in table {
            assert_eq!(ticket(title), expected, "{title:?}");
            assert!(is_valid(expected), "{expected}");
        }
    }

    #[test]
    fn names_that_git_or_a_file_system_would_not_take_are_refused() {
        for good in ["main", "feature/42-x", "a@b", "ü/é", "release-1.2"] {
            assert!(is_valid(good), "{good}");
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "", "-x", "/x", "x/", "x.", "a..b", "a//b", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b",
            "a\\b", "a\0b", "a\nb", "@", "HEAD", "a@{b", ".a", "a/.b", "a.lock", "a.lock/b", &long,
        ] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_task_without_ticket_is_numbered_by_its_short_id() {
        let of = |id| name(TicketType::Chore, Priority::Low, Label::Task(id), "Tidy up");
        for (id, expected) in [
            ("3f9a", "chore/3f9a-tidy-up"),
            ("A..b.lock", "chore/a-b-lock-tidy-up"),
            ("", "chore/task-tidy-up"),
        ] {
            assert_eq!(of(id), expected, "{id:?}");
        }
    }

    #[test]
    fn a_name_in_use_gets_the_first_free_number() {
        let branches = ["fix/1-a", "fix/1-a-2", "fix/1-b"];
        let taken = |name: &str| branches.contains(&name);
        for (wanted, expected) in [("fix/1-a", "fix/1-a-3"), ("fix/1-b", "fix/1-b-2"), ("fix/1-c", "fix/1-c")]
        {
            assert_eq!(unique(wanted, "3f9a", taken), expected);
        }
    }

    #[test]
    fn where_every_number_is_in_use_the_id_tells_a_branch_from_others() {
        let taken = |name: &str| candidates("fix/1-a").any(|candidate| candidate == name);
        assert_eq!(unique("fix/1-a", "3f9a", taken), "fix/1-a-3f9a");
        let but_the_last = |name: &str| taken(name) && name != "fix/1-a-64";
        assert_eq!(unique("fix/1-a", "3f9a", but_the_last), "fix/1-a-64");
    }

    proptest! {
        #[test]
        fn whatever_the_title_git_takes_the_name(
            title in any::<String>(), id in any::<String>(), number: u32,
            kind in prop::sample::select(TicketType::ALL), priority in prop::sample::select(Priority::ALL),
        ) {
            for label in [Label::Ticket(number), Label::Task(&id)] {
                let name = name(kind, priority, label, &title);
                prop_assert!(is_valid(&name), "{name:?}");
                prop_assert!(name.len() <= "refactor/".len() + LABEL_CHARS_MAX + 1 + SLUG_CHARS_MAX);
            }
        }

        #[test]
        fn slugs_keep_their_shape(title in "[a-zA-Z0-9 ._'é/-]{0,60}") {
            let slug = slug(&title, SLUG_CHARS_MAX);
            prop_assert!(slug.len() <= SLUG_CHARS_MAX);
            prop_assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"), "{slug}");
        }
    }
}
