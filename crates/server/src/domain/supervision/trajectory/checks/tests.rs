use super::*;

fn edit(path: &str, diff: &str) -> Edit {
    Edit { path: path.to_owned(), diff: diff.to_owned(), ..Edit::default() }
}

fn after(edits: &[Edit]) -> Checks {
    let mut checks = Checks::default();
    edits.iter().enumerate().for_each(|(at, edit)| checks.edited(edit, at as i64 + 1, 0));
    checks
}

#[test]
fn tests_that_check_less_are_seen() {
    let less = [
        ("tests/test_a.py", "-        self.assertEqual(a, 1)"),
        ("tests/test_a.py", "-    assert a == 1\n+    assert True"),
        ("tests/test_a.py", "-    assert a == 1\n+    # assert a == 1"),
        ("tests/test_a.py", "@@ -1,2 +1,3 @@\n+@pytest.mark.skip\n def test_a():\n     assert a == 1"),
        ("tests/test_a.py", "@@ -4,2 +4,3 @@ def test_a():\n+    pytest.skip('later')\n     assert a == 1"),
        ("src/a.test.ts", "-  it('adds', () => {\n+  it.skip('adds', () => {"),
        ("src/a.test.ts", "-  it('adds', () => {\n+  it.only('adds', () => {"),
        ("src/a_test.go", "+\tt.Skip(\"later\")"),
        ("tests/a.rs", "+#[ignore]\n #[test]\n fn adds() {"),
        ("src/a.rs", "@@ -1,3 +1,4 @@ mod tests {\n     #[test]\n+    #[ignore]\n     fn adds() {"),
        ("src/CartTest.java", "@@ -1 +1,2 @@\n+  @Disabled\n   void adds() {"),
        ("Makefile", "-\tpytest\n+\tpytest || true"),
        (".github/workflows/ci.yml", "+    continue-on-error: true"),
        ("tests/test_a.py", "-def test_a():\n-    assert a == 1"),
        ("spec/cart_spec.rb", "-  it 'adds' do\n+  xit 'adds' do"),
        ("tests/test_a.py", "-    assert a == 1\n-    assert b == 1\n+for x in y:\n+    print(x)"),
    ];
    for (path, diff) in less {
        assert!(after(&[edit(path, diff)]).lost.is_some(), "{path}: {diff}");
    }
}

#[test]
fn what_only_looks_like_a_mark_is_no_loss() {
    let fine = [
        ("tests/test_a.py", "-    assert a == 1\n+    assert a == 2"),
        ("tests/test_a.py", "+    assert b == 2"),
        ("tests/test_a.py", "-def test_a():\n+def test_b():"),
        ("tests/test_a.py", "-from x import assert_close\n-import unittest"),
        ("tests/test_a.py", "+    sys.exit(1)\n+    quit(2)"),
        ("tests/test_a.py", "+    assert run(\"xit(\") == 'it.skip('"),
        ("tests/test_a.py", "+@pytest.mark.skip\n+def test_new():\n+    assert later()"),
        ("test/cart_test.exs", "+    on_exit(fn -> stop() end)"),
        ("test/cart.test.js", "+  afterAll(() => process.exit(0))"),
        ("src/a.py", "-    assert a == 1"),
        ("src/a.rs", "-    assert!(a == 1);"),
        ("src/skip.py", "+@skip"),
        ("run.sh", "+rm -f x || true"),
        ("tests/data/skips.json", "-  \"assert\": \"expect(\",\n+  \"xit(\": 1"),
        ("Makefile", "+\trm -rf build || true"),
        (
            ".github/workflows/ci.yml",
            "@@ -1 +1,2 @@\n     - uses: codecov/codecov-action@v4\n+      continue-on-error: true",
        ),
        (
            "tests/test_a.py",
            "-def test_a():\n-    assert f(1)\n-def test_b():\n-    assert f(2)\n+@pytest.mark.parametrize('x', [1, 2])\n+def test_ab(x):\n+    assert f(x)",
        ),
    ];
    for (path, diff) in fine {
        assert!(after(&[edit(path, diff)]).lost.is_none(), "{path}: {diff}");
    }
}

#[test]
fn a_new_file_takes_nothing_away_whatever_is_done_to_it_later() {
    let whole = "+@pytest.mark.skip\n+def test_a():\n+    assert a == 1\n+    pytest.skip('x')";
    let created = Edit { is_created: true, ..edit("tests/test_new.py", whole) };
    let trimmed =
        edit("tests/test_new.py", "-def test_a():\n-    assert a == 1\n-    assert b\n-    assert c");
    assert!(after(std::slice::from_ref(&created)).lost.is_none());
    assert!(after(&[created.clone(), trimmed.clone()]).lost.is_none());
    let deleted = Edit { is_deleted: true, ..trimmed };
    assert!(after(&[created.clone(), deleted]).lost.is_none());
    // What it does elsewhere still counts.
    let other = edit("tests/test_old.py", "-def test_x():\n-    assert 1\n-    assert x\n-    assert y");
    assert!(after(&[created, other]).lost.is_some());
}

#[test]
fn a_test_that_the_agent_has_written_may_be_skipped_by_it() {
    let added = edit("tests/test_a.py", "@@ -9,0 +9,2 @@\n+def test_new():\n+    assert x");
    let skipped =
        edit("tests/test_a.py", "@@ -9,2 +9,3 @@\n+@pytest.mark.skip\n def test_new():\n     assert x");
    assert!(after(&[added.clone(), skipped.clone()]).lost.is_none());
    // As Codex writes hunks.
    let taken = edit("tests/test_a.py", "@@ def test_new():\n-    assert x\n+    print(x)");
    assert!(after(&[added.clone(), edit("tests/test_a.py", "@@\n+    assert y"), taken]).lost.is_none());
    let taken = edit("tests/test_a.py", "@@ def test_old():\n-    assert x\n+    print(x)");
    assert!(after(&[added, taken]).lost.is_some());
    assert!(after(&[skipped]).lost.is_some());
}

#[test]
fn tests_that_are_added_do_not_make_up_for_what_is_taken_from_others() {
    let added = edit("tests/test_a.py", "@@ -9,0 +9,2 @@\n+def test_new():\n+    assert x");
    let taken = edit("tests/test_a.py", "@@ -4 +4 @@ def test_old():\n-    assert a == 1\n+    print(a)");
    assert!(after(&[added.clone(), taken.clone()]).lost.is_some());
    let put_back = edit("tests/test_a.py", "@@ -4 +4 @@ def test_old():\n-    print(a)\n+    assert a == 1");
    assert!(after(&[added.clone(), taken.clone(), put_back]).lost.is_none());
    // An assertion that goes on its way into a test of its own is none the less there in the end.
    assert!(after(&[taken, added.clone()]).lost.is_none());
    let own = edit("tests/test_a.py", "@@ -9,2 +9,2 @@ def test_new():\n-    assert x\n+    print(x)");
    assert!(after(&[added, own]).lost.is_none());
}

#[test]
fn a_test_that_moves_is_no_loss() {
    let (gone, come) = ("-def test_a():\n-    assert a == 1", "+def test_a():\n+    assert a == 1");
    let moved =
        after(&[edit("tests/test_a.py", gone), Edit { is_created: true, ..edit("tests/test_b.py", come) }]);
    assert!(moved.lost.is_none() && !moved.is_less());
    let lost = after(&[edit("tests/test_a.py", gone)]);
    assert_eq!(lost.missing(), "1 test removed, 1 assertion removed");
}

#[test]
fn a_part_of_a_diff_says_nothing_about_what_is_missing() {
    let cut = Edit { is_cut: true, ..edit("tests/test_a.py", "-def test_a():\n-    assert a == 1") };
    assert!(after(&[cut]).lost.is_none());
    let skips = "@@ -1 +1,2 @@\n+@pytest.mark.skip\n def test_a():";
    assert!(after(&[Edit { is_cut: true, ..edit("tests/test_a.py", skips) }]).lost.is_some());
}

#[test]
fn lines_that_begin_as_headers_do_are_still_lines() {
    let diff = "--- a/test/a.test.js\n+++ b/test/a.test.js\n@@ -1,2 +1 @@\n---assert.equal(a, 1)\n b()";
    let checks = after(&[edit("test/a.test.js", diff)]);
    assert_eq!(checks.missing(), "1 assertion removed");
}

#[test]
fn a_directory_above_all_files_says_nothing_about_them() {
    let gone = "-    assert a == 1";
    assert!(after(&[edit("/home/ann/test/shop/cart.py", gone)]).lost.is_none());
    assert!(after(&[edit("/home/ann/test/shop/test_cart.py", gone)]).lost.is_some());
    let apart = [edit("/home/ann/shop/src/cart.py", "+x"), edit("/home/ann/shop/tests/cart.py", gone)];
    assert!(after(&apart).lost.is_some());
}

#[test]
fn what_git_puts_back_is_no_loss() {
    let gone = edit("/w/shop/tests/test_a.py", "-def test_a():\n-    assert a == 1");
    let back = edit("/w/shop/tests/test_a.py", "+def test_a():\n+    assert a == 1");
    let table = [
        ("git checkout tests/test_a.py", true),
        ("cd /w/shop && git checkout -- tests && pytest", true),
        ("git restore --staged --worktree ./tests/test_a.py", true),
        ("git checkout .", true),
        ("git stash", true),
        ("git reset --hard", true),
        ("git stash && pytest; git stash pop", false),
        ("git checkout tests/test_b.py", false),
        ("git checkout -b work", false),
    ];
    for (command, restored) in table {
        let mut checks = after(std::slice::from_ref(&gone));
        checks.ran(command);
        assert_eq!(checks.lost.is_none() && !checks.is_less(), restored, "{command}");
        // A change that tells of it is not counted again.
        if restored {
            checks.edited(&back, 8, 0);
            checks.edited(&gone, 9, 0);
            assert!(checks.lost.is_some(), "{command}");
        }
    }
}

#[test]
fn a_file_that_a_command_writes_is_the_agent_s_own() {
    let gone = edit("/w/tests/test_new.py", "-    assert a == 1\n+    print(a)");
    for command in [
        "cat > tests/test_new.py <<EOF\nassert a == 1\nEOF",
        "echo x >tests/test_new.py",
        "ls | tee tests/test_new.py",
    ] {
        let mut checks = Checks::default();
        checks.ran(command);
        checks.edited(&gone, 1, 0);
        assert!(checks.lost.is_none(), "{command}");
    }
    let mut checks = after(std::slice::from_ref(&gone));
    checks.ran("cat > tests/test_new.py");
    assert!(checks.is_less(), "it was there before");
    let mut checks = Checks::default();
    checks.ran("cat > tests/test_old.py <<EOF\nx\nEOF");
    checks.edited(&edit("tests/test_old.py", "index 1..2 100644\n@@ -1 +1 @@\n-assert a\n+x"), 1, 0);
    assert!(checks.is_less(), "Git knows what it held");
}
