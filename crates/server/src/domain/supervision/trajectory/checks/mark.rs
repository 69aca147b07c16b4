//! What one line of a test file does: whether it checks something, begins a test, or keeps one from being run. Marks are
//! whole words of the code in the file's language.

use super::language::Language;

/// What a mark that skips is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// The declaration that follows.
    Next,
    /// The test that begins on the same line.
    Here,
    /// The test that the line is part of.
    Within,
    /// All other tests, or a whole file.
    Others,
}

pub fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the mark is in the code as a word of its own: `xit(` is not in `sys.exit(1)`, and `t.Skip(` not in `list.Skip(`.
pub fn has(code: &str, mark: &str) -> bool {
    let begins_word = mark.starts_with(is_name);
    let ends_word = mark.ends_with(is_name);
    code.match_indices(mark).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + mark.len()..].chars().next();
        let is_apart =
            !begins_word || before.is_none_or(|c| !is_name(c) && !matches!(c, '.' | '$' | '@' | '-' | ':'));
        let is_whole = !ends_word || after.is_none_or(|c| !is_name(c));
        let is_mark = !mark.starts_with('@') || before.is_none_or(|c| !is_name(c));
        is_apart && is_whole && is_mark
    })
}

fn has_any(code: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| has(code, mark))
}

fn starts_any(code: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| code.starts_with(mark))
}

/// Calls of inline tests: a block with a text that names it.
const INLINE: [&str; 8] = ["it", "test", "describe", "context", "suite", "specify", "bench", "Deno.test"];
const INLINE_SKIPPED: [&str; 6] = ["xit", "xtest", "xdescribe", "xcontext", "xspecify", "xsuite"];
const INLINE_FOCUSED: [&str; 4] = ["fit", "fdescribe", "fcontext", "ftest"];
const MODIFIERS_SKIP: [&str; 8] = ["skip", "todo", "fixme", "failing", "fails", "skipIf", "runIf", "pending"];

/// The path of names that a statement begins with, such as `test.skip`, and whether a call follows.
fn leading_call(code: &str) -> Option<&str> {
    let end = code.find(|c: char| !is_name(c) && c != '.')?;
    let is_call = code[end..].starts_with(['(', '`']);
    (is_call && end > 0).then(|| &code[..end])
}

pub fn skips(language: Language, code: &str, raw: &str) -> Option<Skip> {
    match language {
        Language::Python => python_skips(code),
        Language::JavaScript => inline_skips(code).or_else(|| {
            has_any(code, &["this.skip(", "t.skip(", "ctx.skip(", "context.skip("]).then_some(Skip::Within)
        }),
        Language::Rust => {
            let ignored = starts_any(code, &["#[ignore", "#[cfg(any())]", "#[cfg(FALSE)]"])
                || code.starts_with("#[cfg_attr(") && has(code, "ignore");
            ignored.then_some(Skip::Next)
        }
        Language::Go => go_skips(code, raw),
        Language::Jvm => {
            let before = starts_any(code, &["@Disabled", "@Ignore", "@EnabledIf", "@EnabledOn"]);
            match before {
                true => Some(Skip::Next),
                false
                    if has_any(
                        code,
                        &["assumeTrue(false", "assumeFalse(true", "Assume.assumeTrue(false"],
                    ) =>
                {
                    Some(Skip::Within)
                }
                false => inline_skips(code),
            }
        }
        Language::Ruby => ruby_skips(code),
        Language::Elixir => {
            let tagged = starts_any(code, &["@tag ", "@describetag ", "@moduletag "]);
            (tagged && has_any(code, &[":skip", "skip:"])).then_some(Skip::Next)
        }
        Language::C => {
            let here = starts_any(code, &["TEST(", "TEST_F(", "TEST_P("]) && code.contains("DISABLED_");
            match here {
                true => Some(Skip::Here),
                false => has_any(code, &["GTEST_SKIP(", "doctest::skip("]).then_some(Skip::Within),
            }
        }
        Language::CSharp => {
            let before = starts_any(code, &["[Ignore", "[Fact(Skip", "[Theory(Skip", "[Explicit"]);
            let within = has_any(code, &["Assert.Ignore(", "Assert.Inconclusive(", "Assert.Skip("]);
            before.then_some(Skip::Next).or(within.then_some(Skip::Within))
        }
        Language::Php => {
            let within = ["$this->markTestSkipped(", "$this->markTestIncomplete(", "self::markTestSkipped("];
            let here = ["->skip(", "->todo(", "->only("];
            match () {
                () if within.iter().any(|mark| code.contains(mark)) => Some(Skip::Within),
                () if starts_any(code, &["it(", "test(", "})"])
                    && here.iter().any(|mark| code.contains(mark)) =>
                {
                    Some(Skip::Within)
                }
                () => None,
            }
        }
        Language::Swift => {
            let within = has_any(code, &["XCTSkip(", "XCTSkipIf(", "XCTSkipUnless("]);
            let before = code.starts_with("@Test(") && code.contains(".disabled(");
            before.then_some(Skip::Next).or(within.then_some(Skip::Within))
        }
        Language::Dart => match () {
            () if code.starts_with("@Skip(") => Some(Skip::Others),
            () if has_any(code, &["skip: true", "skip: \"\""]) => Some(Skip::Within),
            () => None,
        },
        Language::Shell => (code == "skip" || code.starts_with("skip \"\"")).then_some(Skip::Within),
    }
}

fn python_skips(code: &str) -> Option<Skip> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    if let Some(path) = code.strip_prefix('@') {
        let path = path.split(|c: char| !is_name(c) && c != '.').next().unwrap_or_default();
        let marks =
            ["skip", "skipif", "skip_if", "xfail", "skipIf", "skipUnless", "skip_unless", "expectedFailure"];
        return marks.contains(&last(path).as_str()).then_some(Skip::Next);
    }
    let within =
        ["pytest.skip(", "pytest.xfail(", "self.skipTest(", "raise SkipTest", "raise unittest.SkipTest"];
    let marks = ["pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail"];
    match () {
        () if starts_any(code, &["pytestmark", "__test__ = False", "collect_ignore"]) => {
            (!code.starts_with("pytestmark") || has_any(code, &marks)).then_some(Skip::Others)
        }
        () if has_any(code, &within) => Some(Skip::Within),
        () if has_any(code, &marks) && code.contains("marks=") => Some(Skip::Within),
        () => None,
    }
}

fn inline_skips(code: &str) -> Option<Skip> {
    let path = leading_call(code.strip_prefix("await ").unwrap_or(code))?;
    if INLINE_SKIPPED.contains(&path) {
        return Some(Skip::Here);
    }
    if INLINE_FOCUSED.contains(&path) {
        return Some(Skip::Others);
    }
    let (first, rest) = path.split_once('.')?;
    let has_modifier = |modifiers: &[&str]| rest.split('.').any(|part| modifiers.contains(&part));
    match () {
        () if !INLINE.contains(&first) => None,
        () if has_modifier(&["only"]) => Some(Skip::Others),
        // `test.skip()` without a text is about the test around it.
        () if has_modifier(&MODIFIERS_SKIP) => Some(match code.contains("\"\"") {
            true => Skip::Here,
            false => Skip::Within,
        }),
        () => None,
    }
}

fn go_skips(code: &str, raw: &str) -> Option<Skip> {
    let receivers = ["t", "b", "f", "tb", "T()"];
    let calls = ["Skip(", "SkipNow(", "Skipf("];
    let skipped = receivers.iter().any(|who| calls.iter().any(|call| has(code, &format!("{who}.{call}"))));
    match leading_call(code) {
        _ if raw.trim().starts_with("//go:build ignore") => Some(Skip::Others),
        _ if skipped || code.contains(".T().Skip") => Some(Skip::Within),
        Some("XIt" | "PIt" | "XDescribe" | "PDescribe" | "XContext" | "PContext") => Some(Skip::Here),
        Some("FIt" | "FDescribe" | "FContext") => Some(Skip::Others),
        _ => None,
    }
}

fn ruby_skips(code: &str) -> Option<Skip> {
    let word = code.split(|c: char| !is_name(c)).next().unwrap_or_default();
    match word {
        "xit" | "xdescribe" | "xcontext" | "xspecify" | "xscenario" => Some(Skip::Here),
        "fit" | "fdescribe" | "fcontext" | "fspecify" => code.contains("\"\"").then_some(Skip::Others),
        "skip" | "pending" if !code.contains('=') && !code.contains('.') => Some(Skip::Within),
        "it" | "describe" | "context" | "scenario" | "specify"
            if has_any(code, &["skip: true", ":skip", "pending: true"]) =>
        {
            Some(Skip::Here)
        }
        _ => None,
    }
}

/// Whether a line checks something that may be wrong.
pub fn asserts(language: Language, code: &str) -> bool {
    let imports = ["import ", "from ", "use ", "using ", "require(", "#include", "package ", "export {"];
    if code.is_empty() || starts_any(code, &imports) || says_nothing(code) {
        return false;
    }
    let mut before = "";
    let mut rest = code;
    while let Some(start) = rest.find(is_name) {
        let end = rest[start..].find(|c| !is_name(c)).map_or(rest.len(), |at| start + at);
        let (word, next) = (&rest[start..end], &rest[end..]);
        let is_declared =
            matches!(before, "def" | "fn" | "func" | "fun" | "function" | "class" | "void" | "macro_rules");
        if !is_declared && checks(language, word, next, &rest[..start]) {
            return true;
        }
        (before, rest) = (word, next);
    }
    false
}

/// Whether a word of code, with what stands behind and before it, is a check.
fn checks(language: Language, word: &str, next: &str, before: &str) -> bool {
    let lower = word.to_lowercase();
    let is_call = next.starts_with(['(', '!', '.', '<', '?']);
    let asserts = ["assert", "refute", "xctassert", "prop_assert", "debug_assert"]
        .iter()
        .any(|begin| lower.starts_with(begin));
    if asserts
        && (is_call
            || matches!(language, Language::Python | Language::Elixir | Language::Ruby | Language::Shell))
    {
        return !matches!(lower.as_str(), "assertion" | "assertions" | "assertionerror" | "asserts");
    }
    if is_call && (matches!(word, "expect" | "expectLater" | "expectThat") || lower.starts_with("expect_")) {
        return true;
    }
    if lower == "should" && before.ends_with('.') {
        return true;
    }
    let called = |calls: &[&str]| next.strip_prefix('.').is_some_and(|rest| starts_any(rest, calls));
    match language {
        Language::Python => word == "pytest" && called(&["raises(", "warns(", "approx("]),
        Language::Go => {
            word == "require" && next.starts_with('.')
                || matches!(word, "t" | "b" | "tb") && called(&["Error", "Fatal", "Fail"])
        }
        Language::C => {
            next.starts_with('(') && starts_any(word, &["CHECK", "REQUIRE", "BOOST_CHECK", "TEST_ASSERT"])
        }
        Language::Ruby => starts_any(word, &["must_", "wont_"]),
        Language::Php => word == "expectException" && is_call,
        Language::Swift => matches!(word, "require" | "XCTFail" | "XCTUnwrap") && next.starts_with('('),
        Language::Jvm => matches!(word, "verify" | "fail" | "shouldBe") && next.starts_with(['(', ' ']),
        _ => false,
    }
}

/// A check that cannot fail.
fn says_nothing(code: &str) -> bool {
    let dense: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let dense = dense.trim_end_matches(';');
    dense == "assertTrue"
        || [
            "assertTrue(True)",
            "assert!(true)",
            "assertTrue(true)",
            "expect(true).toBe(true)",
            "expect(true).toBeTruthy()",
            "assert(true)",
            "Assert.True(true)",
            "Assert.IsTrue(true)",
            "expect(1).toBe(1)",
            "asserttrue",
            "assertTrue==True",
            "XCTAssertTrue(true)",
            "XCTAssert(true)",
            "EXPECT_TRUE(true)",
            "ASSERT_TRUE(true)",
            "assert.ok(true)",
            "asserttrue==true",
            "assert1",
            "assert1==1",
            "assertEqual(1,1)",
            "assert_eq!(1,1)",
        ]
        .iter()
        .any(|nothing| {
            let tail = dense.strip_suffix(nothing);
            tail.is_some_and(|tail| tail.is_empty() || tail.ends_with(['.', ':', '>']))
        })
}

/// The name of the test that a line begins; empty where it cannot be told.
pub fn begins_case(language: Language, code: &str, raw: &str) -> Option<String> {
    let after = |marks: &[&str]| marks.iter().find_map(|mark| code.strip_prefix(mark)).map(name);
    match language {
        Language::Python => {
            let rest = code.strip_prefix("async ").unwrap_or(code).strip_prefix("def ")?;
            rest.starts_with("test").then(|| name(rest))
        }
        Language::JavaScript => {
            let path = leading_call(code.strip_prefix("await ").unwrap_or(code))?;
            let first = path.split('.').next().unwrap_or_default();
            let is_case =
                matches!(first, "it" | "test" | "xit" | "xtest" | "fit" | "ftest") || path == "Deno.test";
            (is_case && (code.contains("\"\"") || path.contains("each"))).then(|| quoted(raw))
        }
        // The function behind the attribute has the name.
        Language::Rust => {
            let path = code.strip_prefix("#[")?.split(['(', ']']).next()?;
            matches!(path.rsplit("::").next()?, "test" | "rstest" | "test_case" | "quickcheck")
                .then(String::new)
        }
        Language::Jvm => {
            let is_marked = ["@Test", "@ParameterizedTest", "@Property"].iter().any(|mark| has(code, mark));
            is_marked.then(String::new)
        }
        Language::CSharp => {
            starts_any(code, &["[Fact", "[Test]", "[Test(", "[Theory", "[TestMethod", "[TestCase"])
                .then(String::new)
        }
        Language::Go => match after(&["func Test", "func Fuzz", "func Example"]) {
            Some(name) => Some(name),
            None => (code.starts_with("It(") || code.starts_with("t.Run(\"\"")).then(|| quoted(raw)),
        },
        Language::Ruby => {
            let is_block = starts_any(
                code,
                &["it \"\"", "it(", "test \"\"", "specify ", "scenario \"\"", "xit \"\"", "it {"],
            );
            after(&["def test_"]).or_else(|| is_block.then(|| quoted(raw)))
        }
        Language::Elixir => starts_any(code, &["test \"\"", "property \"\""]).then(|| quoted(raw)),
        Language::C => {
            after(&["TEST(", "TEST_F(", "TEST_P(", "TEST_CASE(", "SCENARIO(", "BOOST_AUTO_TEST_CASE("])
                .map(|_| code.replace("DISABLED_", ""))
        }
        Language::Php => match code.find("function test") {
            Some(at) => Some(name(&code[at + "function ".len()..])),
            None => (starts_any(code, &["it(\"\"", "test(\"\"", "#[Test"])).then(|| quoted(raw)),
        },
        Language::Swift => {
            let at = code.find("func test");
            at.map(|at| name(&code[at + "func ".len()..]))
                .or_else(|| code.starts_with("@Test").then(String::new))
        }
        Language::Dart => starts_any(code, &["test(\"\"", "testWidgets(\"\""]).then(|| quoted(raw)),
        Language::Shell => code.starts_with("@test ").then(|| quoted(raw)),
    }
}

/// The name of what a line declares: a test, a function, a class or a block.
pub fn declares(language: Language, code: &str, raw: &str) -> Option<String> {
    if let Some(case) = begins_case(language, code, raw).filter(|case| !case.is_empty()) {
        return Some(case);
    }
    if INLINE.iter().chain(&INLINE_SKIPPED).any(|word| code.starts_with(&format!("{word}(\"\"")))
        || inline_skips(code).is_some()
    {
        return Some(quoted(raw));
    }
    let keywords = [
        "def ",
        "fn ",
        "func ",
        "fun ",
        "function ",
        "class ",
        "struct ",
        "mod ",
        "void ",
        "Task ",
        "describe ",
        "context ",
    ];
    let found = keywords.iter().find_map(|word| {
        let at = code.find(word)?;
        let is_apart = code[..at].chars().next_back().is_none_or(|c| !is_name(c));
        is_apart.then(|| name(&code[at + word.len()..]))
    });
    found.filter(|name| !name.is_empty())
}

/// Marks of tests that are run once for each row of a table, which replace many tests by one.
pub fn tabulates(code: &str) -> bool {
    let marks = [
        "parametrize(",
        "subTest(",
        ".each(",
        ".each`",
        "#[case",
        "#[rstest",
        "test_case(",
        "@ParameterizedTest",
        "@CsvSource",
        "[InlineData",
        "[TestCase(",
        "[]struct",
        "proptest!",
        "@given(",
        "forEach(",
    ];
    code.starts_with("for ") || has(code, "t.Run(") || marks.iter().any(|mark| code.contains(mark))
}

fn name(text: &str) -> String {
    let text = text.trim_start();
    text[..text.find(|c| !is_name(c)).unwrap_or(text.len())].to_owned()
}

/// The first text in quotes, else the whole line.
fn quoted(raw: &str) -> String {
    let begin = raw.find(['"', '\'', '`']);
    let text = begin.and_then(|begin| {
        let quote = raw[begin..].chars().next()?;
        let rest = &raw[begin + 1..];
        rest.find(quote).map(|end| rest[..end].to_owned())
    });
    text.unwrap_or_else(|| raw.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{super::language::Reader, *};

    #[test]
    fn marks_are_whole_words_of_their_language() {
        let skipped = [
            (Language::Python, "@pytest.mark.skip(reason=\"x\")"),
            (Language::Python, "@unittest.skipIf(WINDOWS, 'no')"),
            (Language::Python, "@pytest.mark.xfail"),
            (Language::Python, "        self.skipTest('later')"),
            (Language::Python, "    raise unittest.SkipTest"),
            (Language::Python, "pytestmark = pytest.mark.skip"),
            (Language::JavaScript, "  it.skip('adds', () => {"),
            (Language::JavaScript, "xit('adds', () => {"),
            (Language::JavaScript, "describe.only(\"all\", () => {"),
            (Language::JavaScript, "test.concurrent.skip('adds', async () => {"),
            (Language::JavaScript, "    this.skip()"),
            (Language::Rust, "#[ignore = \"flaky\"]"),
            (Language::Rust, "#[cfg_attr(windows, ignore)]"),
            (Language::Go, "\tt.Skip(\"later\")"),
            (Language::Go, "if testing.Short() { t.SkipNow() }"),
            (Language::Jvm, "@Disabled(\"flaky\")"),
            (Language::Ruby, "xit 'adds' do"),
            (Language::Ruby, "skip 'later'"),
            (Language::Elixir, "@tag :skip"),
            (Language::C, "TEST(Cart, DISABLED_adds) {"),
            (Language::C, "GTEST_SKIP() << \"later\";"),
            (Language::CSharp, "[Fact(Skip = \"flaky\")]"),
            (Language::Php, "$this->markTestSkipped('later');"),
            (Language::Swift, "throw XCTSkip(\"later\")"),
            (Language::Dart, "  }, skip: true);"),
            (Language::Shell, "  skip \"later\""),
        ];
        for (language, line) in skipped {
            let code = Reader::new(language).code(line);
            assert!(skips(language, &code, line).is_some(), "{line}");
        }
        let runs = [
            (Language::Python, "sys.exit(1)"),
            (Language::Python, "unit(x); submit(y); quit()"),
            (Language::Python, "assert run('it.skip(') == 0"),
            (Language::Python, "# pytest.skip('x') was here"),
            (Language::Python, "rows = page.skip(10)"),
            (Language::Python, "@app.route('/skip')"),
            (Language::Python, "def skipTest_is_called(self):"),
            (Language::Elixir, "on_exit(fn -> File.rm(path) end)"),
            (Language::JavaScript, "process.exit(1)"),
            (Language::JavaScript, "await commit('x'); emit(\"y\"); visit('/z')"),
            (Language::JavaScript, "cursor.skip(10)"),
            (Language::JavaScript, "expect(profit(1)).toBe(2)"),
            (Language::JavaScript, "const benefit = outfit('x')"),
            (Language::JavaScript, "it('does not it.skip( anything', () => {"),
            (Language::Rust, "std::process::exit(1);"),
            (Language::Rust, "assert!(list.iter().skip(1).all(|x| *x));"),
            (Language::Rust, "let ignore = true;"),
            (Language::Go, "os.Exit(m.Run())"),
            (Language::Go, "list.Skip(3); reset.Skip(1)"),
            (Language::Jvm, "stream.skip(3); System.exit(1);"),
            (Language::Ruby, "exit(1)"),
            (Language::Ruby, "skip = 3"),
            (Language::Ruby, "skip_before_action :login"),
            (Language::Shell, "skipped=3"),
        ];
        for (language, line) in runs {
            let code = Reader::new(language).code(line);
            assert_eq!(skips(language, &code, line), None, "{line}");
        }
    }

    #[test]
    fn checks_are_told_from_words_like_them() {
        let table = [
            (Language::Python, "assert a == 1", true),
            (Language::Python, "self.assertEqual(a, 1)", true),
            (Language::Python, "with pytest.raises(ValueError):", true),
            (Language::Python, "mock.assert_called_once_with(1)", true),
            (Language::Python, "assert True", false),
            (Language::Python, "self.assertTrue(True)", false),
            (Language::Python, "assertions = 3", false),
            (Language::Python, "def assert_good(x):", false),
            (Language::Python, "log('assert a')", false),
            (Language::Python, "expected = compute()", false),
            (Language::JavaScript, "expect(a).toBe(1)", true),
            (Language::JavaScript, "assert.equal(a, 1)", true),
            (Language::JavaScript, "expect(true).toBe(true);", false),
            (Language::JavaScript, "import assert from 'assert'", false),
            (Language::Rust, "assert_eq!(a, 1);", true),
            (Language::Rust, "assert!(true);", false),
            (Language::Rust, "use x::assert_same;", false),
            (Language::Go, "t.Errorf(\"%d\", a)", true),
            (Language::Go, "require.Equal(t, 1, a)", true),
            (Language::Jvm, "assertThat(a).isEqualTo(1);", true),
            (Language::Ruby, "expect(a).to eq(1)", true),
            (Language::C, "EXPECT_EQ(a, 1);", true),
            (Language::Elixir, "assert a == 1", true),
        ];
        for (language, line, expected) in table {
            let code = Reader::new(language).code(line);
            assert_eq!(asserts(language, &code), expected, "{line}");
        }
    }
}
