//! Images, as they are brought in on the server's machine.

use std::{fs, path::Path, process::Command};

use serde_json::json;

use crate::program::{Dir, run};

/// As the system's own tar makes it.
fn tar(dir: &Dir, args: &[&str]) {
    assert!(Command::new("tar").current_dir(dir.path()).args(args).status().unwrap().success());
}

fn tree(dir: &Dir) {
    fs::create_dir_all(dir.path().join("tree/bin")).unwrap();
    dir.write("tree/bin/tool", "#!/bin/sh\n");
    std::os::unix::fs::symlink("bin", dir.path().join("tree/sbin")).unwrap();
}

#[test]
fn an_image_is_imported_listed_and_removed() {
    let dir = Dir::new();
    tree(&dir);
    tar(&dir, &["-C", "tree", "-czf", "tree.tar.gz", "."]);
    let at = ["--data-dir", "data"];
    let omoi = |args: &[&str]| run(&dir, &[args, &at].concat());
    for (name, source) in [("packed", "tree.tar.gz"), ("plain", "tree")] {
        let image = omoi(&["image", "import", name, source, "--json"]).json();
        assert_eq!((&image["name"], &image["bytes"]), (&json!(name), &json!(10)));
        let root = dir.path().join("data/images").join(name).join("root");
        assert_eq!(fs::read_to_string(root.join("sbin/tool")).unwrap(), "#!/bin/sh\n");
    }
    let listed = omoi(&["image", "list"]).ok();
    assert!(
        listed.contains("packed") && listed.contains("tree.tar.gz") && listed.contains("10 B"),
        "{listed}"
    );
    let again = omoi(&["image", "import", "plain", "tree"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("remove it first"), "{}", again.stderr);
    assert!(omoi(&["image", "remove", "plain"]).ok().contains("removed plain"));
    assert_eq!(omoi(&["image", "remove", "plain"]).code, 3);
    assert_eq!(omoi(&["image", "list", "--json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn an_archive_that_means_harm_is_refused_and_leaves_nothing() {
    let dir = Dir::new();
    dir.write("secret", "mine");
    fs::create_dir(dir.path().join("in")).unwrap();
    dir.write("in/evil", "x");
    tar(&dir, &["-C", "in", "-cf", "up.tar", "--transform=s,evil,../../../evil,", "evil", "-P"]);
    tar(&dir, &["-C", "in", "-cf", "absolute.tar", "--transform=s,evil,/evil,", "evil", "-P"]);
    dir.write("noise.tar", &"no archive at all\n".repeat(100));
    for (source, code, words) in [
        ("up.tar", 1, "goes up"),
        ("absolute.tar", 1, "is absolute"),
        ("noise.tar", 1, "no whole tar archive"),
        ("missing.tar", 3, "missing.tar"),
    ] {
        let said = run(&dir, &["image", "import", "it", source, "--data-dir", "data"]);
        assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{source}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{source}: {}", said.stderr);
    }
    assert_eq!(run(&dir, &["image", "import", "../it", "in", "--data-dir", "data"]).code, 2);
    assert_eq!(run(&dir, &["image", "import", "host", "in", "--data-dir", "data"]).code, 2);
    assert!(!Path::new("/evil").exists() && !dir.path().join("evil").exists());
    assert_eq!(run(&dir, &["image", "list", "--data-dir", "data", "--json"]).json(), json!([]));
    assert_eq!(
        fs::read_dir(dir.path().join("data/images")).unwrap().count(),
        1,
        "more is left than the lock"
    );
}
