//! Folders there and back, folders written by hand, and folders that are none.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::spec::tests::{sample, samples};

const LAYOUTS: [Layout; 2] = [Layout::Kiro, Layout::SpecKit];

fn spec() -> Exchange {
    let done = ["TSK-001", "TSK-002"].map(str::to_owned).into();
    Exchange { title: "CSV export".to_owned(), outputs: samples(), done }
}

fn nothing() -> BTreeSet<String> {
    BTreeSet::new()
}

fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn kiro() -> Files {
    files(&[
        (".kiro/specs/post-search/requirements.md", include_str!("fixtures/kiro/requirements.md")),
        (".kiro/specs/post-search/design.md", include_str!("fixtures/kiro/design.md")),
        (".kiro/specs/post-search/tasks.md", include_str!("fixtures/kiro/tasks.md")),
    ])
}

fn speckit() -> Files {
    files(&[
        ("specs/003-photo-albums/spec.md", include_str!("fixtures/speckit/spec.md")),
        ("specs/003-photo-albums/plan.md", include_str!("fixtures/speckit/plan.md")),
        ("specs/003-photo-albums/tasks.md", include_str!("fixtures/speckit/tasks.md")),
        ("specs/003-photo-albums/research.md", "Read by nobody here"),
    ])
}

#[test]
fn an_export_comes_back_as_it_was() {
    for layout in LAYOUTS {
        let files = export(layout, &spec());
        assert_eq!(files.len(), 4, "{:?}", files.keys());
        assert_eq!(import(&files, &nothing()), Ok(spec()), "{layout:?}");
        let folder = layout.folder("csv-export", 7);
        let moved: Files = files
            .iter()
            .map(|(name, text)| (format!("{folder}/{name}"), text.replace('\n', "\r\n")))
            .collect();
        assert_eq!(import(&moved, &nothing()), Ok(spec()), "{layout:?}");
    }
    assert_eq!(from_json(&to_json(&spec())), Ok(spec()));
}

#[test]
fn markdown_alone_holds_what_people_wrote() {
    for layout in LAYOUTS {
        let mut files = export(layout, &spec());
        files.remove(REMAINDER);
        let read = import(&files, &nothing()).unwrap();
        assert_eq!(read.done, spec().done);
        let same = |phase: Phase, pointers: &[&str]| {
            for pointer in pointers {
                let (found, meant) = (read.outputs[&phase].pointer(pointer), sample(phase));
                assert_eq!(found, meant.pointer(pointer), "{layout:?} {phase} {pointer}");
            }
        };
        same(Phase::Requirements, &["/feature_name", "/assumptions"]);
        for at in 0..3 {
            let keys = ["id", "title", "text", "acceptance_criteria", "priority", "category"];
            let pointers: Vec<String> = keys.iter().map(|key| format!("/requirements/{at}/{key}")).collect();
            same(Phase::Requirements, &pointers.iter().map(String::as_str).collect::<Vec<_>>());
        }
        same(
            Phase::Design,
            &["/feature_name", "/architecture_overview", "/architecture_diagram", "/testing_strategy"],
        );
        same(
            Phase::Design,
            &["/components/1", "/data_models/0/fields", "/error_handling", "/security_considerations"],
        );
        same(Phase::Tasks, &["/feature_name", "/tasks", "/tickets"]);
    }
}

#[test]
fn what_somebody_edits_wins_over_what_is_kept() {
    for layout in LAYOUTS {
        let mut files = export(layout, &spec());
        let tasks = files.get_mut("tasks.md").unwrap();
        *tasks = tasks
            .replace("Say it in the README", "Tell it in the README")
            .replace("_Files: README.md_", "_Files: README.md, +docs/export.md_");
        let read = import(&files, &nothing()).unwrap();
        let mut meant = spec();
        let task = &mut meant.outputs.get_mut(&Phase::Tasks).unwrap()["tasks"][4];
        task["title"] = "Tell it in the README".into();
        task["files_to_create"] = json!(["docs/export.md"]);
        assert_eq!(read, meant, "{layout:?}");
        let boxes = files.get_mut("tasks.md").unwrap();
        *boxes = boxes.replace("- [x]", "- [ ]");
        assert_eq!(import(&files, &nothing()).unwrap().done, BTreeSet::new());
    }
}

#[test]
fn an_edit_wins_even_where_markdown_showed_less_than_was_meant() {
    let mut meant = spec();
    let task = |spec: &mut Exchange, text: &str| {
        spec.outputs.get_mut(&Phase::Tasks).unwrap()["tasks"][4]["description"] = text.into();
    };
    task(&mut meant, "Describe   it\n\n\n  with an example");
    for layout in LAYOUTS {
        let mut files = export(layout, &meant);
        assert_eq!(import(&files, &nothing()), Ok(meant.clone()));
        let tasks = files.get_mut("tasks.md").unwrap();
        assert!(tasks.contains("- Describe it\n"));
        *tasks = tasks.replace("- Describe it\n", "- Describe all of it\n");
        let mut edited = meant.clone();
        task(&mut edited, "Describe all of it\nwith an example");
        assert_eq!(import(&files, &nothing()), Ok(edited), "{layout:?}");
    }
}

#[test]
fn what_follows_parallel_tasks_waits_for_all_of_them() {
    let text =
        "## Phase 1: All\n- [ ] T001 A\n- [ ] T002 [P] B\n- [ ] T003 [P] C\n- [ ] T004 D\n- [ ] T005 E\n";
    let spec = import(&files(&[("tasks.md", text)]), &nothing()).unwrap();
    let rows: Vec<String> =
        spec.outputs[&Phase::Tasks]["tasks"].as_array().unwrap().iter().map(row).collect();
    let after = [("1", ""), ("2", "TSK-001"), ("3", "TSK-001"), ("4", "TSK-002, TSK-003"), ("5", "TSK-004")];
    let expected =
        after.map(|(at, after)| format!("TSK-00{at} of TKT-001 after [{after}] makes [] modifies []"));
    assert_eq!(rows, expected);
}

#[test]
fn a_kiro_folder_written_by_hand_is_read() {
    let known = ["src/routes.ts", "src/posts.ts"].map(str::to_owned).into();
    let spec = import(&kiro(), &known).unwrap();
    assert_eq!(spec.title, "Post search");
    let requirements = &spec.outputs[&Phase::Requirements];
    assert_eq!(requirements["requirements"].as_array().unwrap().len(), 2);
    let first = &requirements["requirements"][0];
    assert_eq!(first["id"], "REQ-POST-SEARCH-FUNC-001");
    assert_eq!(first["title"], "to search posts by words");
    assert_eq!(
        first["text"],
        "WHEN a reader sends a query THEN the system SHALL list posts that hold every word"
    );
    assert_eq!(
        first["acceptance_criteria"][2],
        "WHEN the query is empty THEN the system SHALL list the ten newest posts"
    );
    assert_eq!(requirements["requirements"][1]["title"], "Fresh index");

    let design = &spec.outputs[&Phase::Design];
    let files: Vec<(&str, &str, &str)> = design["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["file_path"].as_str().unwrap(),
                one["action"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        files,
        [("Search index", "src/search/index.ts", "create"), ("Search route", "src/routes.ts", "modify")]
    );
    assert_eq!(design["data_models"][0]["fields"]["word"], "string");

    let tasks = &spec.outputs[&Phase::Tasks];
    let rows: Vec<String> = tasks["tasks"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "TSK-001 of TKT-001 after [] makes [src/search/words.ts] modifies []",
            "TSK-002 of TKT-001 after [TSK-001] makes [src/search/index.ts] modifies [src/search/words.ts]",
            "TSK-003 of TKT-002 after [TSK-002] makes [] modifies [src/routes.ts]",
            "TSK-004 of TKT-003 after [TSK-003] makes [] modifies [src/posts.ts]",
        ]
    );
    assert_eq!(tasks["tasks"][2]["requirements_addressed"], json!(["REQ-POST-SEARCH-FUNC-001"]));
    assert_eq!(
        tasks["tasks"][2]["acceptance_criteria"][0],
        "IF no post holds the words THEN the system SHALL say that nothing was found"
    );
    assert_eq!(spec.done, BTreeSet::from(["TSK-001".to_owned()]));
    all_have_their_shape(&spec);
    assert!(crate::domain::spec::plan(&spec.outputs).is_ok());
}

#[test]
fn a_spec_kit_folder_written_by_hand_is_read() {
    let spec = import(&speckit(), &nothing()).unwrap();
    assert_eq!(spec.title, "Photo albums");
    let requirements = spec.outputs[&Phase::Requirements]["requirements"].as_array().unwrap();
    let ids: Vec<&str> = requirements.iter().map(|one| one["id"].as_str().unwrap()).collect();
    let expected = [
        "REQ-PHOTO-ALBUMS-USE-001",
        "REQ-PHOTO-ALBUMS-USE-002",
        "REQ-PHOTO-ALBUMS-FUNC-001",
        "REQ-PHOTO-ALBUMS-FUNC-002",
    ];
    assert_eq!(ids, expected);
    assert_eq!(
        requirements[0]["text"],
        "WHEN they are imported, THE system SHALL ensure that two albums are shown"
    );
    assert_eq!(requirements[3]["acceptance_criteria"].as_array().unwrap().len(), 2);
    let tasks = &spec.outputs[&Phase::Tasks];
    let rows: Vec<String> = tasks["tasks"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "TSK-001 of TKT-001 after [] makes [src/photos/__init__.py] modifies []",
            "TSK-002 of TKT-001 after [TSK-001] makes [tools/lint.toml] modifies []",
            "TSK-003 of TKT-001 after [TSK-001] makes [tests/conftest.py] modifies []",
            "TSK-004 of TKT-002 after [TSK-002, TSK-003] makes [src/photos/day.py] modifies []",
            "TSK-005 of TKT-002 after [TSK-004] makes [src/photos/album.py] modifies []",
            "TSK-006 of TKT-002 after [TSK-004] makes [tests/test_album.py] modifies []",
            "TSK-007 of TKT-003 after [TSK-005, TSK-006] makes [] modifies [src/photos/album.py]",
        ]
    );
    assert_eq!(tasks["tasks"][6]["requirements_addressed"], json!(["REQ-PHOTO-ALBUMS-USE-002"]));
    assert_eq!(tasks["tickets"][1]["title"], "User Story 1 - Group photos (Priority: P1)");
    all_have_their_shape(&spec);
    assert!(crate::domain::spec::plan(&spec.outputs).is_ok());
}

fn row(task: &Value) -> String {
    let list = |value: &Value| {
        value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(", ")
    };
    format!(
        "{} of {} after [{}] makes [{}] modifies [{}]",
        task["id"].as_str().unwrap(),
        task["parent_ticket"].as_str().unwrap(),
        list(&task["dependencies"]["depends_on"]),
        list(&task["files_to_create"]),
        list(&task["files_to_modify"]),
    )
}

fn all_have_their_shape(spec: &Exchange) {
    for (phase, output) in &spec.outputs {
        assert_eq!(omoi_protocol::spec::shape_of(*phase, output), Ok(()), "{phase}");
    }
}

#[test]
fn a_bad_folder_says_where_and_why() {
    let good = "### Requirement 1\n\n1. WHEN a THEN b SHALL c d\n2. WHEN e THEN f SHALL g h\n";
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[],
            ".:1: has no spec: expected requirements.md, design.md and tasks.md, or spec.md, plan.md and tasks.md",
        ),
        (&[("a/notes.md", "x")], ".:1: has no spec"),
        (
            &[("a/requirements.md", good), ("b/tasks.md", "x")],
            "b/tasks.md:1: is in another folder than the rest",
        ),
        (
            &[("requirements.md", good), ("plan.md", "x")],
            "plan.md:1: is of spec-kit's layout and requirements.md of Kiro's",
        ),
        (
            &[("requirements.md", "# Requirements\n\nNone yet\n")],
            "requirements.md:1: has no requirement; expected headings",
        ),
        (
            &[("requirements.md", "# R\n\n### Requirement 1\n\nlater\n")],
            "requirements.md:3: requirement 1 has no acceptance criteria",
        ),
        (
            &[("requirements.md", "### Requirement 1\n1. x y z\n### Requirement 1\n1. x y z\n")],
            "requirements.md:3: requirement 1 is in line 1 as well",
        ),
        (&[("design.md", "# Design\n\n")], "design.md:1: says nothing"),
        (&[("tasks.md", "# Plan\n\nnothing\n")], "tasks.md:1: has no task; expected lines such as"),
        (&[("tasks.md", "# Plan\n- [y] 1. Do it\n")], "tasks.md:2: has a box with \"y\"; write `- [ ]`"),
        (&[("tasks.md", "- [] 1. Do it\n")], "tasks.md:1: has a box with \"\"; write `- [ ]`"),
        (&[("tasks.md", "- [ ] 1.\n")], "tasks.md:1: is a task without a title"),
        (&[("tasks.md", "- [ ] Do it\n")], "tasks.md:1: \"Do\" is no number of a task"),
        (&[("tasks.md", "- [ ] 2.1 Do it\n")], "tasks.md:1: 2.1 comes without a task 2 before it"),
        (
            &[("tasks.md", "- [ ] 1. A b\n- [ ] 1. C d\n")],
            "tasks.md:2: 1 is the number of the task in line 1 as well",
        ),
        (
            &[("requirements.md", good), ("tasks.md", "- [ ] 1. Do\n  - _Requirements: 1.1, 1.7_\n")],
            "tasks.md:2: names requirement 1.7, which is nowhere in the spec",
        ),
        (
            &[("tasks.md", "- [ ] 1. Do\n  - _Depends on: TSK-009_\n")],
            "tasks.md:2: depends on TSK-009, which is nowhere",
        ),
        (
            &[("tasks.md", "- [ ] 1. Do (TSK-001)\n- [ ] 2. Do (TSK-001)\n")],
            "tasks.md:2: TSK-001 is the id in line 1 as well",
        ),
        (&[("spec.md", "# Feature\n")], "spec.md:1: has no requirement; expected lines such as"),
        (&[("spec.md", "# F\n- **FR-001**: a b\n- **FR-001**: c d\n")], "spec.md:3: FR-001 is there twice"),
        (&[("spec.md", "- **FR-001**:\n")], "spec.md:1: FR-001 says nothing"),
        (
            &[("spec.md", "- **FR-001**: a b\n"), ("tasks.md", "- [ ] 1 Do it\n")],
            "tasks.md:1: \"1\" is no number of a task",
        ),
        (&[("tasks.md", "- [ ] T001 Do it\n"), ("omoi.json", "{\n,")], "omoi.json:2: "),
        (
            &[("omoi.json", r#"{"format":"other","title":"","changes":[]}"#)],
            r#"omoi.json:1: is of format "other"; this reads "omoi.spec/1""#,
        ),
    ];
    for (list, why) in cases {
        let error = import(&files(list), &nothing()).expect_err(why).to_string();
        assert!(error.starts_with(why), "{error}\nis not {why}");
    }
    let many: String = (1..=502).map(|n| format!("- [ ] T{n:03} [P] Do it\n")).collect();
    let error = import(&files(&[("tasks.md", &many)]), &nothing()).unwrap_err().to_string();
    assert_eq!(error, "tasks.md:501: is the first of 2 tasks too many; at most 500 are taken");
    let huge = "x".repeat(FILE_BYTES_MAX + 1);
    let error = import(&files(&[("tasks.md", &huge)]), &nothing()).unwrap_err();
    assert!(error.text.starts_with("has 8388609 bytes"), "{error}");
    for (text, why) in [
        ("{", "spec.json:1: EOF"),
        ("{}", "spec.json:1: names no format"),
        (r#"{"format":"x"}"#, "spec.json:1: is of format"),
        (r#"{"format":"omoi.spec/1"}"#, "spec.json:1: missing field"),
    ] {
        let error = from_json(text).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn folders_are_named_by_titles() {
    let table = [("CSV export!", "csv-export"), ("  ", "spec"), ("Größe 2", "gr-e-2")];
    for (title, name) in table {
        assert_eq!(slug(title), name);
    }
    assert!(slug(&"long ".repeat(100)).len() <= NAME_CHARS_MAX);
    assert_eq!(Layout::Kiro.folder("x", 3), ".kiro/specs/x");
    assert_eq!(Layout::SpecKit.folder("x", 3), "specs/003-x");
}

/// Texts that look like what files are made of.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z ,.]{0,30}",
        "(# |## |### Requirement 1|- \\[ \\] 1\\. |- \\[x\\] T001 |\\*\\*File:\\*\\* |_Files: |```|\\(TSK-00[1-9]\\)|\n|\r\n| |x|_|:|ß){0,8}",
        any::<String>(),
    ]
}

/// The sample with texts of its own anywhere.
fn any_spec() -> impl Strategy<Value = Exchange> {
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), text()), 0..25);
    let removed = proptest::sample::subsequence(Phase::ALL.to_vec(), 0..3);
    let done = proptest::collection::btree_set("TSK-00[1-7]", 0..4);
    (changes, removed, text(), done).prop_map(|(changes, removed, title, done)| {
        let mut outputs = samples();
        removed.iter().for_each(|phase| drop(outputs.remove(phase)));
        let mut count = 0;
        outputs.values().for_each(|output| count += leaves(output));
        for (at, text) in changes {
            let mut at = if count == 0 { continue } else { at.index(count) };
            outputs.values_mut().any(|output| replace(output, &mut at, &text));
        }
        Exchange { title, outputs, done }
    })
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::String(_) => 1,
        Value::Array(items) => items.iter().map(leaves).sum(),
        Value::Object(object) => object.values().map(leaves).sum(),
        _ => 0,
    }
}

fn replace(value: &mut Value, at: &mut usize, text: &str) -> bool {
    match value {
        Value::String(old) if *at == 0 => {
            text.clone_into(old);
            true
        }
        Value::String(_) => {
            *at -= 1;
            false
        }
        Value::Array(items) => items.iter_mut().any(|item| replace(item, at, text)),
        Value::Object(object) => object.values_mut().any(|value| replace(value, at, text)),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_a_spec_says_its_export_comes_back(spec in any_spec()) {
        for layout in LAYOUTS {
            let files = export(layout, &spec);
            prop_assert_eq!(import(&files, &nothing()), Ok(spec.clone()));
        }
        prop_assert_eq!(from_json(&to_json(&spec)), Ok(spec));
    }

    #[test]
    fn whatever_a_folder_holds_nothing_panics(texts in proptest::collection::vec(text(), 6)) {
        let names = ["requirements.md", "design.md", "tasks.md", "spec.md", "plan.md", "omoi.json"];
        for pick in [&[0, 1, 2][..], &[3, 4, 2], &[2], &[0, 5], &[1, 2, 5]] {
            let folder: Files = pick.iter().map(|at| (names[*at].to_owned(), texts[*at].clone())).collect();
            let _ = import(&folder, &nothing());
        }
    }
}
