//! What work looks like in several languages: files, commands, outputs, and changes of tests.

pub struct Kit {
    pub source: &'static str,
    pub test_file: &'static str,
    /// Where tests may move to.
    pub other_test_file: &'static str,
    pub run: &'static str,
    pub passes: &'static str,
    pub fails: &'static str,
    /// A test of three lines or so, with one assertion.
    pub test: &'static str,
    /// The same test with another value that is expected.
    pub corrected: &'static str,
    /// Changes of that test after which it checks less.
    pub weaker: &'static [&'static str],
}

impl Kit {
    /// The lines of a text with a sign before each.
    pub fn signed(sign: char, text: &str) -> String {
        text.lines().map(|line| format!("{sign}{line}\n")).collect()
    }
}

pub const KITS: [Kit; 8] = [
    Kit {
        source: "src/shop/price.py",
        test_file: "tests/test_price.py",
        other_test_file: "tests/test_discount.py",
        run: "python3 -m pytest -q",
        passes: "........                                  [100%]\n8 passed in 0.21s",
        fails: "E       assert 90 == 89\nFAILED tests/test_price.py::test_discount\n1 failed, 7 passed in 0.25s",
        test: "def test_discount():\n    assert discount(100, 10) == 90",
        corrected: "def test_discount():\n    assert discount(100, 10) == 91",
        weaker: &[
            "@@ -3,2 +3,3 @@\n+@pytest.mark.skip(reason=\"later\")\n def test_discount():\n     assert discount(100, 10) == 90\n",
            "@@ -4 +4 @@ def test_discount():\n-    assert discount(100, 10) == 90\n+    assert True\n",
            "@@ -3,2 +2,0 @@\n-def test_discount():\n-    assert discount(100, 10) == 90\n",
            "@@ -3,2 +3,3 @@\n+@pytest.mark.xfail\n def test_discount():\n     assert discount(100, 10) == 90\n",
        ],
    },
    Kit {
        source: "src/price.rs",
        test_file: "tests/price.rs",
        other_test_file: "tests/discount.rs",
        run: "cargo test",
        passes: "running 8 tests\ntest result: ok. 8 passed; 0 failed; 0 ignored; finished in 0.01s",
        fails: "---- discounts stdout ----\nassertion `left == right` failed\n  left: 89\n right: 90\ntest result: FAILED. 7 passed; 1 failed; 0 ignored\nerror: test failed, to rerun pass `--test price`",
        test: "#[test]\nfn discounts() {\n    assert_eq!(discount(100, 10), 90);\n}",
        corrected: "#[test]\nfn discounts() {\n    assert_eq!(discount(100, 10), 91);\n}",
        weaker: &[
            "@@ -3,3 +3,4 @@\n #[test]\n+#[ignore]\n fn discounts() {\n     assert_eq!(discount(100, 10), 90);\n",
            "@@ -5 +5 @@ fn discounts() {\n-    assert_eq!(discount(100, 10), 90);\n+    let _ = discount(100, 10);\n",
            "@@ -3,4 +2,0 @@\n-#[test]\n-fn discounts() {\n-    assert_eq!(discount(100, 10), 90);\n-}\n",
        ],
    },
    Kit {
        source: "price.go",
        test_file: "price_test.go",
        other_test_file: "discount_test.go",
        run: "go test ./...",
        passes: "ok  \tshop\t0.004s",
        fails: "--- FAIL: TestDiscount (0.00s)\n    price_test.go:9: got 89, want 90\nFAIL\nFAIL\tshop\t0.004s",
        test: "func TestDiscount(t *testing.T) {\n\tif got := Discount(100, 10); got != 90 {\n\t\tt.Errorf(\"got %d, want 90\", got)\n\t}\n}",
        corrected: "func TestDiscount(t *testing.T) {\n\tif got := Discount(100, 10); got != 91 {\n\t\tt.Errorf(\"got %d, want 91\", got)\n\t}\n}",
        weaker: &[
            "@@ -8,2 +8,3 @@\n func TestDiscount(t *testing.T) {\n+\tt.Skip(\"later\")\n \tif got := Discount(100, 10); got != 90 {\n",
            "@@ -9,3 +9 @@ func TestDiscount(t *testing.T) {\n-\tif got := Discount(100, 10); got != 90 {\n-\t\tt.Errorf(\"got %d, want 90\", got)\n-\t}\n+\tDiscount(100, 10)\n",
        ],
    },
    Kit {
        source: "src/price.ts",
        test_file: "src/price.test.ts",
        other_test_file: "src/discount.test.ts",
        run: "npx vitest run",
        passes: " ✓ src/price.test.ts (8 tests) 12ms\n\n Test Files  1 passed (1)\n      Tests  8 passed (8)",
        fails: " FAIL  src/price.test.ts > discounts\nAssertionError: expected 89 to be 90\n\n Test Files  1 failed (1)\n      Tests  1 failed | 7 passed (8)",
        test: "it('discounts', () => {\n  expect(discount(100, 10)).toBe(90)\n})",
        corrected: "it('discounts', () => {\n  expect(discount(100, 10)).toBe(91)\n})",
        weaker: &[
            "@@ -3 +3 @@\n-it('discounts', () => {\n+it.skip('discounts', () => {\n",
            "@@ -4 +4 @@\n-  expect(discount(100, 10)).toBe(90)\n+  discount(100, 10)\n",
            "@@ -3,3 +2,0 @@\n-it('discounts', () => {\n-  expect(discount(100, 10)).toBe(90)\n-})\n",
            "@@ -3 +3 @@\n-it('discounts', () => {\n+it.todo('discounts', () => {\n",
        ],
    },
    Kit {
        source: "src/main/java/shop/Price.java",
        test_file: "src/test/java/shop/PriceTest.java",
        other_test_file: "src/test/java/shop/DiscountTest.java",
        run: "mvn -q test",
        passes: "[INFO] Tests run: 8, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS",
        fails: "[ERROR]   PriceTest.discounts:14 expected: <90> but was: <89>\n[ERROR] Tests run: 8, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE",
        test: "    @Test\n    void discounts() {\n        assertEquals(90, Price.discount(100, 10));\n    }",
        corrected: "    @Test\n    void discounts() {\n        assertEquals(91, Price.discount(100, 10));\n    }",
        weaker: &[
            "@@ -12,3 +12,4 @@\n+    @Disabled\n     @Test\n     void discounts() {\n         assertEquals(90, Price.discount(100, 10));\n",
            "@@ -14 +14 @@ void discounts() {\n-        assertEquals(90, Price.discount(100, 10));\n+        Price.discount(100, 10);\n",
        ],
    },
    Kit {
        source: "lib/price.rb",
        test_file: "spec/price_spec.rb",
        other_test_file: "spec/discount_spec.rb",
        run: "bundle exec rspec",
        passes: "........\n\nFinished in 0.02 seconds\n8 examples, 0 failures",
        fails: "Failures:\n\n  1) Price discounts\n     expected: 90\n          got: 89\n\n8 examples, 1 failure",
        test: "  it 'discounts' do\n    expect(discount(100, 10)).to eq(90)\n  end",
        corrected: "  it 'discounts' do\n    expect(discount(100, 10)).to eq(91)\n  end",
        weaker: &[
            "@@ -4 +4 @@\n-  it 'discounts' do\n+  xit 'discounts' do\n",
            "@@ -5 +5 @@\n-    expect(discount(100, 10)).to eq(90)\n+    discount(100, 10)\n",
        ],
    },
    Kit {
        source: "src/Price.php",
        test_file: "tests/PriceTest.php",
        other_test_file: "tests/DiscountTest.php",
        run: "vendor/bin/phpunit",
        passes: "OK (8 tests, 8 assertions)",
        fails: "1) PriceTest::testDiscount\nFailed asserting that 89 matches expected 90.\n\nFAILURES!\nTests: 8, Assertions: 8, Failures: 1.",
        test: "    public function testDiscount(): void\n    {\n        $this->assertSame(90, discount(100, 10));\n    }",
        corrected: "    public function testDiscount(): void\n    {\n        $this->assertSame(91, discount(100, 10));\n    }",
        weaker: &[
            "@@ -9,3 +9,4 @@\n     public function testDiscount(): void\n     {\n+        $this->markTestSkipped('later');\n         $this->assertSame(90, discount(100, 10));\n",
            "@@ -11 +11 @@\n-        $this->assertSame(90, discount(100, 10));\n+        $this->assertTrue(true);\n",
        ],
    },
    Kit {
        source: "Shop/Price.cs",
        test_file: "Shop.Tests/PriceTests.cs",
        other_test_file: "Shop.Tests/DiscountTests.cs",
        run: "dotnet test",
        passes: "Passed!  - Failed:     0, Passed:     8, Skipped:     0, Total:     8",
        fails: "  Failed Shop.Tests.PriceTests.Discounts [12 ms]\n  Assert.Equal() Failure\nFailed!  - Failed:     1, Passed:     7, Skipped:     0, Total:     8",
        test: "    [Fact]\n    public void Discounts()\n    {\n        Assert.Equal(90, Price.Discount(100, 10));\n    }",
        corrected: "    [Fact]\n    public void Discounts()\n    {\n        Assert.Equal(91, Price.Discount(100, 10));\n    }",
        weaker: &[
            "@@ -9 +9 @@\n-    [Fact]\n+    [Fact(Skip = \"later\")]\n     public void Discounts()\n",
            "@@ -12 +12 @@\n-        Assert.Equal(90, Price.Discount(100, 10));\n+        Price.Discount(100, 10);\n",
        ],
    },
];
