//! What decides whether failing tests matter: files that say how tests are run, and lines in them by which a failure of tests
//! no longer counts.

use super::super::{super::shell, step};

/// Files that say how tests are run.
pub fn is_gate(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let names = [
        "Makefile",
        "GNUmakefile",
        "justfile",
        "Justfile",
        "package.json",
        "tox.ini",
        "setup.cfg",
        "pytest.ini",
        "pyproject.toml",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        "noxfile.py",
        "Rakefile",
        "composer.json",
    ];
    let is_workflow =
        path.contains(".github/workflows/") || path.contains(".circleci/") || path.contains(".woodpecker/");
    names.contains(&name) || is_workflow && (name.ends_with(".yml") || name.ends_with(".yaml"))
}

/// Whether a line lets tests fail. `around` are the other lines of the same step, as far as they are known.
pub fn passes_anyway(line: &str, around: &[&str]) -> bool {
    let line = line.trim();
    if line.starts_with('#') || line.starts_with("//") {
        return false;
    }
    let command = command(line);
    for hides in ["|| true", "|| :", "|| exit 0", "|| echo", "; true", "; exit 0"] {
        let hidden = command.split_once(hides);
        // A word that begins so, such as `trueish`, is another.
        if let Some((run, rest)) = hidden
            && !rest.starts_with(super::mark::is_name)
            && runs_tests(run)
        {
            return true;
        }
    }
    if runs_tests(&command) || line.contains("addopts") {
        let narrows =
            ["--passWithNoTests", "--deselect", "--ignore=", "--ignore-glob", "--testPathIgnorePatterns"];
        return narrows.iter().any(|mark| command.contains(mark))
            || line.starts_with("-") && is_make_recipe(line);
    }
    let lets_fail = ["continue-on-error: true", "allow_failure: true"];
    if lets_fail.iter().any(|mark| line.starts_with(mark) || line.trim_start_matches("- ") == *mark) {
        let shown: Vec<&&str> = around.iter().filter(|line| says_what_runs(line)).collect();
        return shown.is_empty() || shown.iter().any(|line| runs_tests(&self::command(line)));
    }
    false
}

/// A recipe of make that begins with a dash goes on after a failure.
fn is_make_recipe(line: &str) -> bool {
    line[1..].starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '@' | '$'))
}

fn says_what_runs(line: &str) -> bool {
    let line = line.trim().trim_start_matches("- ");
    ["run:", "uses:", "script:"].iter().any(|key| line.starts_with(key)) || runs_tests(&command(line))
}

fn runs_tests(command: &str) -> bool {
    shell::commands(command).iter().any(|one| step::test(&one.words).is_some())
}

/// The command in a line of YAML, JSON, TOML or make.
fn command(line: &str) -> String {
    let mut text = line.trim();
    text = text.strip_prefix("- ").unwrap_or(text).trim_start();
    for key in ["run:", "script:", "test:", "commands:"] {
        text = text.strip_prefix(key).unwrap_or(text).trim_start();
    }
    // A script of package.json: "test": "jest || true",
    let quoted = text.strip_prefix('"').and_then(|rest| rest.split_once("\":"));
    if let Some((_, value)) = quoted {
        text = value.trim().trim_end_matches(',');
    }
    let text = text.trim_matches(['"', '\'', '@', '-']).trim();
    text.strip_suffix('"').unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_hides_failing_tests_is_a_mark() {
        let table: &[(&str, &[&str], bool)] = &[
            ("\tpytest || true", &[], true),
            ("      - run: npm test || exit 0", &[], true),
            ("    \"test\": \"jest --ci || true\",", &[], true),
            ("\t-pytest -q", &[], true),
            ("addopts = --deselect tests/test_a.py", &[], true),
            ("    continue-on-error: true", &[], true),
            ("    continue-on-error: true", &["- name: Test", "run: cargo test"], true),
            ("    continue-on-error: true", &["- name: Upload", "uses: codecov/codecov-action@v4"], false),
            ("\trm -f build/* || true", &[], false),
            ("      - run: docker rm -f db || true", &[], false),
            ("flake8 --ignore=E501 src", &[], false),
            ("# pytest || true", &[], false),
            ("    \"lint\": \"eslint . || true\",", &[], false),
        ];
        for (line, around, expected) in table {
            assert_eq!(passes_anyway(line, around), *expected, "{line} beside {around:?}");
        }
    }
}
