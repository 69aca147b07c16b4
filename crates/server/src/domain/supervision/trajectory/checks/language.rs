//! The languages that tests are written in, as far as marks differ between them, and the code of a line: without comments,
//! and with the contents of strings taken out, so that words in either are not taken for marks.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    JavaScript,
    Rust,
    Go,
    /// Java, Kotlin, Scala and Groovy.
    Jvm,
    Ruby,
    Elixir,
    /// C and C++.
    C,
    CSharp,
    Php,
    Swift,
    Dart,
    Shell,
}

impl Language {
    /// None for files that hold no code, such as data that tests read.
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let (_, end) = name.rsplit_once('.')?;
        Some(match end {
            "py" | "pyi" => Self::Python,
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" | "vue" | "svelte" => {
                Self::JavaScript
            }
            "rs" => Self::Rust,
            "go" => Self::Go,
            "java" | "kt" | "kts" | "scala" | "groovy" => Self::Jvm,
            "rb" => Self::Ruby,
            "ex" | "exs" => Self::Elixir,
            "c" | "cc" | "cpp" | "cxx" | "h" | "hh" | "hpp" | "m" | "mm" => Self::C,
            "cs" => Self::CSharp,
            "php" => Self::Php,
            "swift" => Self::Swift,
            "dart" => Self::Dart,
            "sh" | "bash" | "bats" => Self::Shell,
            _ => return None,
        })
    }

    fn line_comment(self) -> &'static str {
        match self {
            Self::Python | Self::Ruby | Self::Elixir | Self::Shell => "#",
            _ => "//",
        }
    }

    fn has_block_comments(self) -> bool {
        !matches!(self, Self::Python | Self::Ruby | Self::Elixir | Self::Shell)
    }

    /// Marks around strings of one line.
    fn quotes(self) -> &'static [char] {
        match self {
            Self::Rust | Self::Go | Self::Jvm | Self::C | Self::CSharp | Self::Swift => &['"'],
            _ => &['"', '\''],
        }
    }

    /// Marks around text that may go on over lines: how it begins, and how it ends.
    fn long_quotes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[("\"\"\"", "\"\"\""), ("'''", "'''")],
            Self::JavaScript | Self::Go => &[("`", "`")],
            Self::Rust => &[("r#\"", "\"#"), ("r##\"", "\"##")],
            Self::Jvm | Self::Elixir | Self::Swift | Self::CSharp => &[("\"\"\"", "\"\"\"")],
            Self::Dart => &[("'''", "'''"), ("\"\"\"", "\"\"\"")],
            Self::Ruby | Self::C | Self::Php | Self::Shell => &[],
        }
    }
}

/// Reads the lines of one side of a diff.
#[derive(Debug, Clone)]
pub struct Reader {
    language: Language,
    /// The mark that ends a text or a comment that began on an earlier line.
    open: Option<&'static str>,
}

impl Reader {
    pub fn new(language: Language) -> Self {
        Self { language, open: None }
    }

    /// A diff leaves lines out here.
    pub fn gap(&mut self) {
        self.open = None;
    }

    /// The code of a line; the marks around strings stay.
    pub fn code(&mut self, line: &str) -> String {
        let mut rest = line.trim();
        // Whatever began such a comment may stand above the first line of a hunk.
        if self.open.is_none() && self.language.has_block_comments() && is_inside_comment(rest) {
            return String::new();
        }
        let mut code = String::with_capacity(rest.len());
        while !rest.is_empty() {
            if let Some(end) = self.open {
                let Some(at) = rest.find(end) else { return code.trim().to_owned() };
                rest = &rest[at + end.len()..];
                self.open = None;
                continue;
            }
            if rest.starts_with(self.language.line_comment()) && !is_shell_word(&code, self.language) {
                break;
            }
            if self.language.has_block_comments() && rest.starts_with("/*") {
                self.open = Some("*/");
                rest = &rest[2..];
                continue;
            }
            if let Some((begin, end)) =
                self.language.long_quotes().iter().find(|(begin, _)| rest.starts_with(begin))
            {
                code.push_str("\"\"");
                self.open = Some(end);
                rest = &rest[begin.len()..];
                continue;
            }
            let mut chars = rest.chars();
            let Some(c) = chars.next() else { break };
            if self.language.quotes().contains(&c) {
                code.push_str("\"\"");
                rest = after_string(chars.as_str(), c);
            } else if c == '\'' {
                rest = after_character(chars.as_str());
            } else {
                code.push(c);
                rest = chars.as_str();
            }
        }
        code.trim().to_owned()
    }
}

fn is_inside_comment(line: &str) -> bool {
    line == "*" || line.starts_with("* ") || line.starts_with("*/")
}

/// `$#` and `${x#y}` are no comments of a shell.
fn is_shell_word(code: &str, language: Language) -> bool {
    language == Language::Shell && code.ends_with(|c: char| !c.is_whitespace() && c != ';')
}

fn after_string(rest: &str, quote: char) -> &str {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return &rest[at + c.len_utf8()..],
            _ => {}
        }
    }
    ""
}

/// Behind a character in single quotes; a lifetime or a label has no second quote.
fn after_character(rest: &str) -> &str {
    let mut chars = rest.char_indices();
    let is_escaped = rest.starts_with('\\');
    let end = chars.by_ref().skip(1 + usize::from(is_escaped)).take(8).find(|(_, c)| *c == '\'');
    match end {
        Some((at, _)) if is_escaped || at <= 4 => &rest[at + 1..],
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_the_contents_of_strings_are_no_code() {
        let table = [
            (Language::Python, "x = 'xit('  # pytest.skip(", "x = \"\""),
            (Language::Python, "assert a == \"#\"", "assert a == \"\""),
            (
                Language::JavaScript,
                "it('exits', () => { /* it.skip( */ go() }) // xit(",
                "it(\"\", () => {  go() })",
            ),
            (Language::Rust, "fn f<'a>(x: &'a str) -> char { '\"' } // t", "fn f<a>(x: &a str) -> char {  }"),
            (Language::Go, "t.Log(`t.Skip(`)", "t.Log(\"\")"),
            (Language::Shell, "echo ${x#y} $# # skip", "echo ${x#y} $#"),
            (Language::C, " * GTEST_SKIP() is not used", ""),
        ];
        for (language, line, code) in table {
            assert_eq!(Reader::new(language).code(line), code, "{line}");
        }
    }

    #[test]
    fn a_text_over_lines_is_no_code_until_it_ends() {
        let mut reader = Reader::new(Language::Python);
        let lines = ["def test_a():", "\"\"\"First", "pytest.skip('no')", "\"\"\"", "assert x"];
        let code: Vec<String> = lines.iter().map(|line| reader.code(line)).collect();
        assert_eq!(code, ["def test_a():", "\"\"", "", "", "assert x"]);
    }
}
